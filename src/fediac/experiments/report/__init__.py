"""``fediac report``: what runs wrote, as one page, as Markdown or as CSV."""

from fediac.experiments.report.write import Format, write_report

__all__ = ["Format", "write_report"]
