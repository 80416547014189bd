"""A profile as one page to read: where the time and the memory of a model go, line by line."""

from devtools.report.page import make_page, write_report

__all__ = ["make_page", "write_report"]
