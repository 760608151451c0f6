"""The server of a page: real requests to a real server, most of them from somebody who wants more than the page."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator

import pytest

from asymrl.report.html.live import Document, PageServer

PAGE = "<p>é</p>"


@pytest.fixture(scope="module")
def server() -> Iterator[PageServer]:
    made = PageServer(lambda: Document(PAGE.encode(), '"1"'))
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def ask(server: PageServer, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.putrequest(method, path, skip_host="Host" in names)
    for name, value in names.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), body


def raw(server: PageServer, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as connection:
        connection.sendall(request)
        parts = []
        while part := connection.recv(4096):
            parts.append(part)
    return b"".join(parts)


def test_the_page_is_served(server: PageServer):
    status, headers, body = ask(server, "/")
    assert (status, body.decode()) == (200, PAGE)
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert int(headers["Content-Length"]) == len(body)
    assert "Access-Control-Allow-Origin" not in headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "Python" not in headers["Server"]
    status, again, body = ask(server, "/", "HEAD")
    assert (status, body, again["ETag"]) == (200, b"", headers["ETag"])


def test_what_the_browser_has_is_not_sent_again(server: PageServer):
    _, headers, _ = ask(server, "/")
    assert ask(server, "/", If_None_Match=headers["ETag"])[::2] == (304, b"")
    assert ask(server, "/", If_None_Match='"another"')[::2] == (200, PAGE.encode())


@pytest.mark.parametrize(
    "path",
    [
        *("/settings.json", "/../settings.json", "/..%2f..%2fetc/passwd", "/%2e%2e/", "//etc/passwd", "/?", "/#"),
        *("/./", "/data.json/", "/data.json?x=1", "/data.json%00", "/index.html", "\\", "file:///etc/passwd", "*"),
        "http://127.0.0.1/data.json",
    ],
)
def test_no_other_path_is_there(server: PageServer, path: str):
    assert ask(server, path)[::2] == (404, b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"])
def test_nothing_but_reading_is_allowed(server: PageServer, method: str):
    status, headers, body = ask(server, "/", method)
    assert (status, headers["Allow"], body) == (405, "GET, HEAD", b"")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "localhost.evil.example:{port}", ""]
)
def test_a_request_must_name_this_server(server: PageServer, host: str):
    assert ask(server, "/", Host=host.format(port=server.server_port))[::2] == (404, b"")


def test_both_names_of_this_machine_are_fine_and_none_or_two_are_not(server: PageServer):
    port = server.server_port
    assert ask(server, "/", Host=f"localhost:{port}")[0] == 200
    assert b" 404 " in raw(server, b"GET / HTTP/1.0\r\n\r\n").splitlines()[0]
    two = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nHost: evil.example\r\n\r\n".encode()
    assert b" 404 " in raw(server, two).splitlines()[0]


def test_it_listens_on_this_machine_only(server: PageServer):
    assert server.server_address[0] == "127.0.0.1"
    assert server.url == f"http://127.0.0.1:{server.server_port}/"


def test_a_taken_port_is_refused(server: PageServer):
    with pytest.raises(OSError, match="in use"):
        PageServer(server.page, port=server.server_port)


def test_a_client_that_leaves_early_does_no_harm(server: PageServer, capfd: pytest.CaptureFixture[str]):
    with socket.create_connection(("127.0.0.1", server.server_port)) as connection:
        connection.sendall(b"GET / HT")
    assert ask(server, "/")[0] == 200
    assert capfd.readouterr().err == ""
