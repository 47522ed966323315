"""The ``fediac`` command: argument parsing only; `experiments` does the work."""

from fediac.cli import network, rounds, runs, theory
from fediac.cli.app import run_app as main

__all__ = ["main", "network", "rounds", "runs", "theory"]
