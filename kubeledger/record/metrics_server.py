"""``/metrics``, ``/healthz``, ``/readyz`` over plain HTTP.

One thread answers one request after the other: a scrape takes a millisecond. Nothing of what is
recorded is served, only numbers and the names of sources and kinds.
"""

from __future__ import annotations

import re
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer

from kubeledger.model.errors import BadQuestionError, reason_of
from kubeledger.record.metrics import Metrics

STALLED_S = 300.0
"""A loop that takes longer to come round hangs, says ``/healthz``; ending a chapter takes less."""

_TEXT = "text/plain; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_REQUEST_S = 5
_ADDRESS = re.compile(r"(?:\[([0-9a-fA-F:.%]+)\]|([^\[\]:]+)):(\d{1,5})")


class MetricsServer:
    """Serves a recorder's numbers from its making until :meth:`close`.

    Attributes:
        address: where it listens, ``HOST:PORT``.
    """

    def __init__(self, address: str, metrics: Metrics) -> None:
        """Listen.

        Args:
            address: ``127.0.0.1:9790``, ``[::1]:9790``, ``0.0.0.0:9790``; port 0 is any free one.

        Raises:
            BadQuestionError: no such address, or it is in use.
        """
        host, port = _split(address)
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            server = type("_Server", (_Server,), {"address_family": family})
            self._server: _Server = server((host, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = reason_of(error).lower()
            raise BadQuestionError(
                f"cannot listen on {address}: {reason}", advice="give another --metrics-address"
            ) from error
        self._server.metrics = metrics
        shown = f"[{host}]" if ":" in host else host
        self.address = f"{shown}:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="kubeledger-metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _split(address: str) -> tuple[str, int]:
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise BadQuestionError(
            f"{address!r} is not an address", advice="write HOST:PORT, as in 127.0.0.1:9790"
        )
    return match[1] or match[2], int(match[3])


class _Server(HTTPServer):
    metrics: Metrics

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no error of the recorder's."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _REQUEST_S
    server_version = "kubeledger"
    sys_version = ""

    def do_GET(self) -> None:
        metrics = self.server.metrics
        if self.path == "/metrics":
            self._send(HTTPStatus.OK, metrics.text(), _METRICS)
        elif self.path == "/healthz":
            stalled_s = metrics.stalled_s
            healthy = stalled_s < STALLED_S
            words = "ok" if healthy else f"the recorder's loop hangs since {stalled_s:.0f} s"
            self._send(_status(healthy), f"{words}\n")
        elif self.path == "/readyz":
            down = "".join(f"; {source} cannot be read" for source in metrics.sources_down())
            words = "following" if metrics.is_ready else "reading what the sources hold by now"
            self._send(_status(metrics.is_ready), f"{words}{down}\n")
        else:
            self._send(HTTPStatus.NOT_FOUND, "/metrics, /healthz and /readyz are served\n")

    def log_message(self, format: str, *_: object) -> None:
        """Say nothing: probes come every few seconds."""

    def _send(self, status: HTTPStatus, text: str, media: str = _TEXT) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _status(fine: bool) -> HTTPStatus:
    return HTTPStatus.OK if fine else HTTPStatus.SERVICE_UNAVAILABLE
