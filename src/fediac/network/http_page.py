"""A status page and Prometheus metrics of a running switch, over HTTP.

Both show the newest reading, at most a second old. The page is one file without outside
resources; it asks for `reading.json` every second.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from socket import AF_INET6, SOCK_STREAM
from typing import Any, Protocol, TypeAlias

from fediac.errors import ConfigError
from fediac.network.addresses import Endpoint
from fediac.network.readings import Reading
from fediac.network.sockets import say_why_not

_Page: TypeAlias = Callable[[], tuple[str, bytes]]
"""What is at a path: its kind and its bytes."""

_TIMEOUT_S = 5.0
"""What a client of the page may take for its request."""


class Source(Protocol):
    """What has the newest reading."""

    @property
    def reading(self) -> Reading:
        """The newest reading."""
        ...


@contextmanager
def serve_page(endpoint: Endpoint, source: Source) -> Iterator[Endpoint]:
    """Serve the page inside the block, by threads of its own.

    Yields:
        Where it is, with the port that it got.

    Raises:
        ConfigError: prometheus-client is not installed.
        StartError: The address cannot be used.
    """
    try:
        from fediac.network.metrics import metrics_of
    except ImportError:
        raise ConfigError(
            "--http needs prometheus-client: pip install 'fediac[switch]'"
        ) from None

    pages: dict[str, _Page] = {
        "/": lambda: ("text/html; charset=utf-8", page_bytes()),
        "/reading.json": lambda: ("application/json", _as_json(source.reading)),
        "/metrics": lambda: metrics_of(source.reading),
    }
    with say_why_not(endpoint):
        family, address = endpoint.resolve(SOCK_STREAM)
        kind = _Server6 if family == AF_INET6 else _Server
        server = kind(address[:2], partial(_Handler, pages))
    thread = threading.Thread(target=server.serve_forever, name="page", daemon=True)
    thread.start()
    try:
        yield Endpoint.of(server.socket.getsockname())
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _as_json(reading: Reading) -> bytes:
    return json.dumps(reading.document(), allow_nan=False).encode()


class _Handler(BaseHTTPRequestHandler):
    """Answers a request, for one of the paths that there are.

    Args:
        pages: Path -> what is there now.
        connection: What the server says of the request.
    """

    timeout = _TIMEOUT_S

    def __init__(self, pages: Mapping[str, _Page], *connection: Any) -> None:  # noqa: ANN401 - the server's
        self._pages = pages
        super().__init__(*connection)

    def do_GET(self) -> None:
        """Send what is at the path."""
        page = self._pages.get(self.path.partition("?")[0])
        if page is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        kind, body = page()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: standard error is for the switch."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def server_bind(self) -> None:
        """Bind without asking a name server for this machine's name."""
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "switch", self.server_address[1]

    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that go away."""


class _Server6(_Server):
    address_family = AF_INET6


@cache
def page_bytes() -> bytes:
    """Return the page."""
    return (files("fediac.network") / "status_page.html").read_bytes()
