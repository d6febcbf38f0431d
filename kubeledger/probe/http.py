"""HTTP probes: requests over connections of their own, redirects to the same host followed."""

from __future__ import annotations

import time
from contextlib import closing, suppress

from kubeledger.kubelet.prober.httpget import HTTPRequest, redirect_of, request_fault
from kubeledger.kubelet.prober.prober import (
    AWAITING_HEADERS,
    DEADLINE,
    OUTPUT_BYTES_MAX,
    READING_BODY,
    Execution,
    get_failed,
    http_execution,
)
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.probe.attempt import Attempt, Exchange, TransportError, Watch
from kubeledger.probe.dial import TLSConnection, dial
from kubeledger.probe.replies import BodyError, HTTP2Reply, Reply, Stream, offered_protocols

_DRAINED_BYTES_MAX = 2048
"""Of the body of a redirect that is followed Go reads so much, and waits for it."""


def http_attempt(request: HTTPRequest, timeout_ns: int, facts: ProberFacts) -> Attempt:
    """Execute an HTTP probe.

    Args:
        timeout_ns: for all requests together, from the first lookup to the last byte of the body.

    Source: v1.36.2 pkg/probe/http/http.go DoHTTPProbe; Go 1.25 net/http Client.do
    Differs: HTTP/2 is offered over TLS only where h2 is installed.
    """
    return _Probe(request, timeout_ns, facts).made()


class _Probe:
    """One execution: the request under way, and what came of those before it."""

    def __init__(self, request: HTTPRequest, timeout_ns: int, facts: ProberFacts) -> None:
        self._first = self._request = request
        self._watch = Watch(timeout_ns)
        self._facts = facts
        self._exchanges: list[Exchange] = []

    def made(self) -> Attempt:
        or_texts: tuple[str, ...] = ()
        not_followed = ""
        while True:
            self._exchange = Exchange(url=str(self._request.url), sent=self._request.lines)
            self._exchanges.append(self._exchange)
            try:
                followed = self._exchanged()
            except TransportError as error:
                execution, or_texts = self._failed(error)
                break
            if isinstance(followed, HTTPRequest):
                self._request = followed
            else:
                execution, not_followed = followed
                break
        return Attempt(
            execution=execution,
            exchanges=tuple(self._exchanges),
            total_ns=self._watch.elapsed_ns(),
            or_texts=or_texts,
            not_followed=not_followed,
        )

    def _exchanged(self) -> HTTPRequest | tuple[Execution, str]:
        """One request: where it leads, or the outcome and the URL that is not followed."""
        fault = request_fault(self._request)
        if fault:
            raise TransportError(fault)
        with closing(self._connected()) as stream:
            try:
                return self._answered(self._reply(stream))
            finally:
                self._watch.end()

    def _connected(self) -> Stream:
        url, exchange, facts = self._request.url, self._exchange, self._facts
        connection = dial(
            url.hostname, url.port, self._watch, exchange, lingers=facts.sockets_linger_a_second
        )
        if url.scheme != "https":
            return connection
        try:
            with self._watch.phase(exchange, "tls"):
                stream = TLSConnection(connection, url.hostname, offered_protocols(), facts)
        except BaseException:
            connection.close()
            raise
        exchange.tls = f"{stream.version}, {stream.protocol or 'no protocol chosen'}"
        exchange.http2 = stream.protocol == "h2"
        return stream

    def _reply(self, stream: Stream) -> Reply | HTTP2Reply:
        exchange, began_ns = self._exchange, time.monotonic_ns()

        def began() -> None:
            exchange.phases_ns["first_byte"] = time.monotonic_ns() - began_ns

        try:
            if exchange.http2:
                fields = self._request.fields
                exchange.sent = tuple(f"{name}: {value}" for name, value in fields)
                reply: Reply | HTTP2Reply = HTTP2Reply(stream, self._request, began)
            else:
                head = "\r\n".join((*self._request.lines, "", ""))
                stream.send(head.encode("utf-8", "surrogateescape"))
                reply = Reply(stream, began)
        finally:
            exchange.phases_ns.setdefault("first_byte", time.monotonic_ns() - began_ns)
        exchange.status, exchange.received = reply.status, reply.head
        return reply

    def _answered(self, reply: Reply | HTTP2Reply) -> HTTPRequest | tuple[Execution, str]:
        location, requests = self._exchange.header("location"), len(self._exchanges)
        redirect = redirect_of(
            self._first, self._request, reply.status, location, requests, self._facts
        )
        if redirect.error:
            return http_execution(self._facts, transport_error=redirect.error), ""
        if redirect.request is not None:
            with suppress(BodyError):
                self._exchange.body = _text(reply.body(_DRAINED_BYTES_MAX))
            return redirect.request
        return self._judged(reply), redirect.elsewhere

    def _judged(self, reply: Reply | HTTP2Reply) -> Execution:
        exchange = self._exchange
        try:
            with self._watch.phase(exchange, "body"):
                exchange.body = _text(reply.body(OUTPUT_BYTES_MAX))
        except BodyError as error:
            text = str(error) or DEADLINE + READING_BODY
            return http_execution(self._facts, status=reply.status, body_error=text)
        exchange.body_cut = not reply.whole
        return http_execution(self._facts, status=reply.status, body=exchange.body)

    def _failed(self, error: TransportError) -> tuple[Execution, tuple[str, ...]]:
        """The outcome, and the texts that may come in its place."""
        url, exchange, text = self._request.url, self._exchange, error.text
        or_texts: tuple[str, ...] = ()
        if error.timed_out:
            # The dialer's timer and the client's end at the same instant: either text comes.
            if "connect" in exchange.phases_ns and not exchange.local:
                or_texts = (get_failed(url, error.text + AWAITING_HEADERS),)
            text = DEADLINE + AWAITING_HEADERS
        return http_execution(self._facts, transport_error=get_failed(url, text)), or_texts


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
