"""The report of a store that is being trained, as a page that follows it.

The page asks for `/data.json` every few seconds and gives each section its new data, so that choices and zoom stay.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from asymrl.report.html.page import Section, page_of
from asymrl.report.html.page_server import Document
from asymrl.report.html.store_report import report_sections, report_subtitle
from asymrl.runs.description import SETTINGS_FILE
from asymrl.runs.files import RunError
from asymrl.runs.store import Store
from asymrl.runs.tables import METRICS_FILE, RUNS_FILE

SECONDS = 2.0  # between two requests of the page
SHARE = 0.2  # the largest share of the time that making the report may take, as the training needs the cores
FOLLOWING, OVER = "Follows the training", "All runs are over"


class LiveReport(NamedTuple):
    """A report of one moment: the same contents as a page, and as data for a page that is open already."""

    page: Document
    data: Document


class LivePage:
    """The report of the runs in a folder, made again when they have changed. Safe to use from several threads."""

    def __init__(
        self,
        folder: Path,
        clock: Callable[[], float] = time.monotonic,
        search: Callable[[Store], Collection[int]] = lambda store: (),
    ):
        """`search` finds the numbers of runs that were a search for settings; they have a section of their own."""
        self.folder, self._clock, self._search = folder, clock, search
        self._lock = threading.Lock()
        self._report: LiveReport | None = None
        self._seen: tuple[object, ...] = ()
        self._not_before = 0.0

    def page(self) -> Document:
        return self._newest().page

    def data(self) -> Document:
        return self._newest().data

    def _newest(self) -> LiveReport:
        with self._lock:
            files = tuple(map(_stamp, (self.folder / name for name in (SETTINGS_FILE, METRICS_FILE, RUNS_FILE))))
            begun = self._clock()
            if self._report is None or (files != self._seen and begun >= self._not_before):
                self._report, self._seen = self._new_report(), files
                took = self._clock() - begun
                self._not_before = begun + took / SHARE
            return self._report

    def _new_report(self) -> LiveReport:
        title = self.folder.resolve().name
        try:
            _refuse_links(self.folder)
            store = Store.open(self.folder)
            search = self._search(store)
            what = FOLLOWING if store.unfinished() else OVER
            return _report(title, report_subtitle(store, search), report_sections(store, search=search), what)
        except RunError as error:
            return self._report or _report(title, str(error), [])  # damaged or gone: the last report is shown


def _report(title: str, subtitle: str, sections: Sequence[Section], what: str = FOLLOWING) -> LiveReport:
    contents = [{"name": each.name, "html": each.html, "data": each.data} for each in sections]
    shown = {"subtitle": subtitle, "sections": contents, "what": what}
    text = json.dumps(shown, separators=(",", ":"), allow_nan=False)
    data = Document("application/json", text.encode())
    follows = {"version": data.etag, "seconds": SECONDS, "what": what}
    said = f'<p class="live" role="status">{what}.</p>'
    follower = Section("Live", "live", said, follows, "startLive", ("live.css", "live.js"))
    page = page_of(title, [follower, *sections], subtitle, connects=True)
    return LiveReport(Document("text/html; charset=utf-8", page.encode()), data)


def _refuse_links(folder: Path) -> None:
    """Raises RunError if a file of the folder is a link to somewhere else, which must not be served."""
    whole = Path(os.path.realpath(folder))
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(whole):  # also of links in a circle
            raise RunError(f"{path.name}: a link to a file outside of this folder, which is not shown; remove it")


def _stamp(path: Path) -> tuple[int, int] | None:
    """A value that changes when a file is rewritten."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
