"""The report of a store as one HTML file: interactive learning curves, tables, settings, hardware and times.

`report_page(store)` gives the page as text. It needs no network and no other file. A `Section` is a part of it; callers
can add their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asymrl.lazy import exports

if TYPE_CHECKING:
    from asymrl.report.html.page import Section as Section, page_of as page_of
    from asymrl.report.html.result_sections import (
        advice_section as advice_section,
        findings_section as findings_section,
    )
    from asymrl.report.html.store_report import report_page as report_page, save_report as save_report

__getattr__, __dir__ = exports(__name__)
