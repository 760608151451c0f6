"""The report of a store that is being trained, as a page that follows it, and the small web server that serves it.

The page asks every few seconds whether there is a newer one, and then loads itself again. The server is for browsers on
this machine only: it listens on 127.0.0.1, answers GET and HEAD for the page, and nothing else; it never opens a file
by a name from a request. A request must name this server in its Host header, so that a foreign web page whose own host
name points to 127.0.0.1 cannot read the answers.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, cast

from asymrl.report.html.page import Section, page_of
from asymrl.report.html.store_report import report_sections, report_subtitle
from asymrl.runs.description import SETTINGS_FILE
from asymrl.runs.files import RunError
from asymrl.runs.store import Store
from asymrl.runs.tables import METRICS_FILE, RUNS_FILE

SECONDS = 2.0  # between two requests of the page
SHARE = 0.2  # the largest share of the time that making the report may take, as the training needs the cores
FOLLOWING, OVER = "Follows the training", "All runs are over"
ADDRESS = "127.0.0.1"
PATIENCE = 10.0  # seconds for a client to send its request
HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Document(NamedTuple):
    """A page of one moment."""

    body: bytes
    etag: str
    """Changes whenever the page does."""


class LivePage:
    """The report of the runs in a folder, made again when they have changed. Safe to use from several threads."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic):
        self.folder, self._clock = folder, clock
        self._lock = threading.Lock()
        self._page: Document | None = None
        self._seen: tuple[object, ...] = ()
        self._not_before = 0.0

    def page(self) -> Document:
        """The newest page; the last one if the runs changed a moment ago."""
        with self._lock:
            files = tuple(map(_stamp, (self.folder / name for name in (SETTINGS_FILE, METRICS_FILE, RUNS_FILE))))
            begun = self._clock()
            if self._page is None or (files != self._seen and begun >= self._not_before):
                self._page, self._seen = self._new_page(), files
                took = self._clock() - begun
                self._not_before = begun + took / SHARE
            return self._page

    def _new_page(self) -> Document:
        title = self.folder.resolve().name
        try:
            _refuse_links(self.folder)
            store = Store.open(self.folder)
            what = FOLLOWING if store.unfinished() else OVER
            return _page_of(title, report_subtitle(store), report_sections(store), what)
        except RunError as error:
            return self._page or _page_of(title, str(error), [])  # damaged or gone: the last page is shown


def _page_of(title: str, subtitle: str, sections: Sequence[Section], what: str = FOLLOWING) -> Document:
    contents = repr((subtitle, what, [(each.name, each.html, each.data) for each in sections]))
    version = f'"{hashlib.sha256(contents.encode()).hexdigest()[:32]}"'
    follows = {"version": version, "seconds": SECONDS, "what": what}
    status = f'<p class="live" role="status">{what}.</p>'
    follower = Section("Live", "live", status, follows, "startLive", ("live.css", "live.js"))
    return Document(page_of(title, [follower, *sections], subtitle, connects=True).encode(), version)


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


class PageServer(ThreadingHTTPServer):
    """Serves a page, made when it is asked for, until `shutdown`."""

    daemon_threads = True
    block_on_close = False  # an open connection does not keep the command from ending

    def __init__(self, page: Callable[[], Document], port: int = 0):
        """Begins to listen; port 0 is any that is free. Raises OSError if the port is not available."""
        self.page = page
        super().__init__((ADDRESS, port), PageRequest)

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.server_port}/"

    @property
    def hosts(self) -> tuple[str, ...]:
        """What a Host header may say."""
        return f"{ADDRESS}:{self.server_port}", f"localhost:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores browsers that disconnect before they have their answer; other errors are shown."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class PageRequest(BaseHTTPRequestHandler):
    """One request to a `PageServer`."""

    timeout = PATIENCE

    def do_GET(self) -> None:
        """The page; only its headers for HEAD, or if the browser has it already."""
        server = cast(PageServer, self.server)
        if self.path != "/" or self.headers.get_all("Host") not in [[host] for host in server.hosts]:
            self._answer(HTTPStatus.NOT_FOUND)
            return
        document = server.page()
        if self.headers.get("If-None-Match") == document.etag:
            self._answer(HTTPStatus.NOT_MODIFIED, {"ETag": document.etag})
        else:
            self._answer(
                HTTPStatus.OK, {"ETag": document.etag, "Content-Type": "text/html; charset=utf-8"}, document.body
            )

    do_HEAD = do_GET  # noqa: N815  its name is that of the method

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):  # every other method
            return lambda: self._answer(HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": "GET, HEAD"})
        raise AttributeError(name)

    def _answer(self, status: HTTPStatus, headers: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {**HEADERS, **(headers or {})}.items():
            self.send_header(name, value)
        if status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        """Hides the version of Python from clients."""
        return "asymrl"

    def log_message(self, format: str, *args: Any) -> None:
        """Prints nothing: requests come every few seconds."""
