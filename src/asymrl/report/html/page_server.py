"""A small web server for one page and its data, for browsers on this machine only.

It listens on 127.0.0.1, answers GET and HEAD for the given addresses, and nothing else: it never opens a file by a name
from a request. A request must name this server in its Host header, so that a foreign web page whose own host name
points to 127.0.0.1 cannot read the answers.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, cast

ADDRESS = "127.0.0.1"
SECONDS = 10.0  # for a client to send its request
HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Document(NamedTuple):
    """The contents of an address."""

    kind: str
    """Its media type."""
    body: bytes

    @property
    def etag(self) -> str:
        """Changes whenever the body does."""
        return f'"{hashlib.sha256(self.body).hexdigest()[:32]}"'


Documents = Mapping[str, Callable[[], Document]]


class PageServer(ThreadingHTTPServer):
    """Serves documents, each made when it is asked for, until `shutdown`."""

    daemon_threads = True
    block_on_close = False  # an open connection does not keep the command from ending

    def __init__(self, documents: Documents, port: int = 0):
        """Begins to listen.

        Args:
            documents: by path, such as `/`.
            port: 0 for any that is free.

        Raises:
            OSError: if the port is not available.
        """
        self.documents = dict(documents)
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

    timeout = SECONDS

    def do_GET(self) -> None:
        """The document at this path; only its headers for HEAD, or if the browser has it already."""
        server = cast(PageServer, self.server)
        make = server.documents.get(self.path)
        if make is None or self.headers.get_all("Host") not in [[host] for host in server.hosts]:
            self._answer(HTTPStatus.NOT_FOUND)
            return
        document = make()
        if self.headers.get("If-None-Match") == document.etag:
            self._answer(HTTPStatus.NOT_MODIFIED, {"ETag": document.etag})
        else:
            self._answer(HTTPStatus.OK, {"ETag": document.etag, "Content-Type": document.kind}, document.body)

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
