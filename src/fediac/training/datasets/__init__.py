"""Data sets: images and labels, and who wrote them where that is known."""

from fediac.training.datasets.catalog import load_dataset
from fediac.training.datasets.types import Dataset, Examples

__all__ = ["Dataset", "Examples", "load_dataset"]
