"""What one execution of a probe did and saw."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from kubeledger.kubelet.prober.prober import Execution


class Exchange(msgspec.Struct, kw_only=True):
    """One connection, and what went over it; a redirect that is followed is another exchange.

    Attributes:
        url: of an HTTP request; empty for TCP and gRPC.
        sent: the head of the request, line by line.
        address: dialed, ``10.0.0.7:8080``.
        local: our end; empty before there is a connection.
        tls: the version of TLS and the protocol chosen; empty without TLS.
        http2: True when HTTP/2 was chosen.
        phases_ns: how long each took, in order: ``resolve``, ``connect``, ``tls``,
            ``first_byte``, ``body``; those that were not reached are missing.
        status: of the reply; None for none.
        received: the head of the reply, line by line.
        body: as far as it was read.
        body_cut: True when it goes on after what a kubelet reads.
    """

    url: str = ""
    sent: tuple[str, ...] = ()
    address: str = ""
    local: str = ""
    tls: str = ""
    http2: bool = False
    phases_ns: dict[str, int] = msgspec.field(default_factory=dict)
    status: int | None = None
    received: tuple[str, ...] = ()
    body: str = ""
    body_cut: bool = False

    def header(self, name: str) -> str:
        """The first value of a header of the reply; empty for none."""
        for line in self.received[1:]:
            key, _, value = line.partition(":")
            if key.strip().lower() == name:
                return value.strip()
        return ""


class Attempt(msgspec.Struct, kw_only=True):
    """One execution of a probe.

    Attributes:
        execution: what the kubelet makes of it.
        exchanges: in order; empty where nothing was dialed.
        total_ns: from the kubelet's start of the timeout to the end.
        or_texts: what the kubelet may say instead, where two of its goroutines race.
        not_followed: the URL of another host that a redirect named.
    """

    execution: Execution
    exchanges: tuple[Exchange, ...] = ()
    total_ns: int = 0
    or_texts: tuple[str, ...] = ()
    not_followed: str = ""


class TransportError(Exception):
    """No connection or no reply.

    Attributes:
        text: Go's.
        timed_out: whether it is the probe's timeout.
    """

    def __init__(self, text: str, *, timed_out: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.timed_out = timed_out


class Watch:
    """The timeout of one execution, and the time that its phases take."""

    def __init__(self, timeout_ns: int) -> None:
        self.started_ns = time.monotonic_ns()
        self.deadline_ns = self.started_ns + timeout_ns
        self._ended_ns: int | None = None

    def left_s(self, text: str = "", *, at_most_ns: int | None = None) -> float:
        """Seconds left; never 0, which a socket takes for "do not wait".

        Args:
            text: of the error.
            at_most_ns: an earlier instant of the monotonic clock.

        Raises:
            TransportError: the time is over.
        """
        deadline_ns = self.deadline_ns if at_most_ns is None else at_most_ns
        left_ns = min(deadline_ns, self.deadline_ns) - time.monotonic_ns()
        if left_ns <= 0:
            raise TransportError(text, timed_out=True)
        return left_ns / 1e9

    def end(self) -> None:
        """The result is known; closing a socket that lingers may still take a second."""
        self._ended_ns = time.monotonic_ns()

    def elapsed_ns(self) -> int:
        """From the start to the end."""
        return (self._ended_ns or time.monotonic_ns()) - self.started_ns

    @contextmanager
    def phase(self, exchange: Exchange, name: str) -> Iterator[None]:
        """Time a phase, also one that fails."""
        began_ns = time.monotonic_ns()
        try:
            yield
        finally:
            exchange.phases_ns[name] = time.monotonic_ns() - began_ns
