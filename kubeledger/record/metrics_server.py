"""What a recorder's steps come to, and ``/metrics``, ``/healthz``, ``/readyz`` over plain HTTP.

One thread answers one request after the other: a scrape takes a millisecond. Nothing of what is
recorded is served, only numbers and the names of sources and kinds.
"""

from __future__ import annotations

import re
import socket
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer

from kubeledger.ledger.tail import Draft
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.units import NS_PER_S
from kubeledger.record.metrics import (
    BYTES_READ,
    BYTES_WRITTEN,
    GAPS,
    NEWEST,
    OBSERVED,
    READ,
    READY,
    RECORDS,
    SETTLED,
    SUCCESS,
    UP,
    Metrics,
)
from kubeledger.record.observations import Gap, Lines, Mark, Observation, size_of

_NUMBER = re.compile(r"\d+")


class Accounting:
    """Turns what sources gave, and what was appended, into numbers.

    A source whose poll ends is up; what a gap that lasts names is down, until all of its gaps have
    ended. A log of which not all can be read lags since then.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._open: dict[tuple[str, str], str] = {}
        self._logs: set[str] = set()

    def polled(self, source: str, given: Sequence[Observation | Mark], now_ns: int) -> None:
        """What one poll of a source gave."""
        for each in given:
            if isinstance(each, Gap):
                self._gap(source, each)
            elif isinstance(each, Lines):
                self._logs.add(each.stream)
            elif isinstance(each, Mark):
                self._logs.add(source)
                self._open |= {(gap.stream, gap.reason): source for gap in each.gaps}
        self._metrics.set(UP, 1, source)
        self._metrics.set(SUCCESS, now_ns / NS_PER_S, source)
        observed = [each for each in given if not isinstance(each, Mark)]
        self._metrics.add(BYTES_READ, size_of(observed), source)
        for (stream, _), of_source in self._open.items():
            if of_source == source:
                self._metrics.set(UP, 0, stream)

    def stepped(self, now_ns: int, *, given: bool, more: bool) -> None:
        """A step is done: whether sources gave something, and may have more at once."""
        lacks = any(stream in self._logs for stream, _ in self._open)
        if given or lacks:
            self._metrics.raise_to(OBSERVED, now_ns / NS_PER_S)
        if not more and not lacks:
            self._metrics.raise_to(SETTLED, now_ns / NS_PER_S)
            self._metrics.set(READY, 1)
        self._metrics.loop_turned()

    def read(self, captured_ns: int) -> None:
        self._metrics.raise_to(READ, captured_ns / NS_PER_S)

    def appended(self, drafts: Sequence[Draft], size_bytes: int) -> None:
        """Records of these drafts were appended; ``size_bytes`` of lines."""
        if drafts:
            self.imported(Counter(draft.body.kind for draft in drafts), size_bytes)
            self._metrics.raise_to(NEWEST, max(draft.ts_ns for draft in drafts) / NS_PER_S)

    def imported(self, kinds: Mapping[str, int], size_bytes: int) -> None:
        """As :meth:`appended`, of times that were recorded before: kind -> how many."""
        for kind, count in kinds.items():
            self._metrics.add(RECORDS, count, kind)
        self._metrics.add(BYTES_WRITTEN, size_bytes, "ledger")

    def _gap(self, source: str, gap: Gap) -> None:
        at = gap.stream, gap.reason
        if at not in self._open:  # else it is the end of one that was counted
            # Numbers in a reason make no series of their own.
            self._metrics.add(GAPS, 1, gap.stream, _NUMBER.sub("N", gap.reason))
        if gap.until_ns is None:
            self._open[at] = source
        elif self._open.pop(at, None) and all(gap.stream != stream for stream, _ in self._open):
            self._metrics.drop(UP, gap.stream)


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
            metrics: what is served.

        Raises:
            BadQuestionError: no such address, or it is in use.
        """
        host, port = _split(address)
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            server = type("_Server", (_Server,), {"address_family": family})
            self._server: _Server = server((host, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
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
