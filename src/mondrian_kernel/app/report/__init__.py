"""A report on a fitted model: one HTML file for people, without network or other files."""

from mondrian_kernel.app.report.write import write_report

__all__ = ["write_report"]
