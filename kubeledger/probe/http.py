"""HTTP probes: requests over connections of their own, redirects to the same host followed."""

from __future__ import annotations

import time
from contextlib import closing, suppress

from kubeledger.kubelet.prober.handlers import OUTPUT_BYTES_MAX, Execution, http_execution
from kubeledger.kubelet.prober.httpget import HTTPRequest, redirect_of, request_fault
from kubeledger.kubelet.prober.transport import (
    AWAITING_HEADERS,
    DEADLINE,
    READING_BODY,
    get_failed,
)
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.probe.attempt import Attempt, Exchange, TransportError, Watch
from kubeledger.probe.dial import dial
from kubeledger.probe.http1 import BodyError, Reply, Stream
from kubeledger.probe.http2 import HTTP2Reply, offered_protocols
from kubeledger.probe.tls import TLSConnection

__all__ = ["http_attempt"]

_DRAINED_BYTES_MAX = 2048
"""Of the body of a redirect that is followed Go reads so much, and waits for it."""


def http_attempt(request: HTTPRequest, timeout_ns: int, facts: ProberFacts) -> Attempt:
    """Execute an HTTP probe.

    Args:
        request: the first.
        timeout_ns: for all requests together, from the first lookup to the last byte of the body.
        facts: of the kubelet version.

    Source: v1.36.2 pkg/probe/http/http.go DoHTTPProbe; Go 1.25 net/http Client.do
    Differs: HTTP/2 is offered over TLS only where h2 is installed.
    """
    watch = Watch(timeout_ns)
    exchanges: list[Exchange] = []
    current = request
    while True:
        exchange = Exchange(url=str(current.url), sent=current.lines)
        exchanges.append(exchange)
        try:
            following, execution = _exchange(
                request, current, watch, exchange, facts, len(exchanges)
            )
        except TransportError as error:
            return _failed(error, current, watch, exchanges, facts)
        if isinstance(following, HTTPRequest):
            current = following
            continue
        assert execution is not None
        return Attempt(
            execution=execution,
            exchanges=tuple(exchanges),
            total_ns=watch.elapsed_ns(),
            not_followed=following,
        )


def _exchange(
    first: HTTPRequest,
    current: HTTPRequest,
    watch: Watch,
    exchange: Exchange,
    facts: ProberFacts,
    requests: int,
) -> tuple[HTTPRequest | str, Execution | None]:
    """One request: where it leads, or the URL that is not followed and the outcome."""
    fault = request_fault(current)
    if fault:
        raise TransportError(fault)
    with closing(_connected(current, watch, exchange, facts)) as stream:
        try:
            return _answered(stream, first, current, watch, exchange, facts, requests)
        finally:
            watch.end()


def _answered(
    stream: Stream,
    first: HTTPRequest,
    current: HTTPRequest,
    watch: Watch,
    exchange: Exchange,
    facts: ProberFacts,
    requests: int,
) -> tuple[HTTPRequest | str, Execution | None]:
    reply = _reply(stream, current, exchange)
    location = exchange.header("location")
    redirect = redirect_of(first, current, reply.status, location, requests, facts)
    if redirect.error:
        return "", http_execution(facts, transport_error=redirect.error)
    if redirect.request is not None:
        with suppress(BodyError):
            exchange.body = _text(reply.body(_DRAINED_BYTES_MAX))
        return redirect.request, None
    return redirect.elsewhere, _judged(reply, watch, exchange, facts)


def _connected(
    request: HTTPRequest, watch: Watch, exchange: Exchange, facts: ProberFacts
) -> Stream:
    url = request.url
    connection = dial(
        url.hostname, url.port, watch, exchange, lingers=facts.sockets_linger_a_second
    )
    if url.scheme != "https":
        return connection
    try:
        with watch.phase(exchange, "tls"):
            stream = TLSConnection(connection, url.hostname, offered_protocols(), facts)
    except BaseException:
        connection.close()
        raise
    exchange.tls = f"{stream.version}, {stream.protocol or 'no protocol chosen'}"
    exchange.http2 = stream.protocol == "h2"
    return stream


def _reply(stream: Stream, request: HTTPRequest, exchange: Exchange) -> Reply | HTTP2Reply:
    began_ns = time.monotonic_ns()

    def began() -> None:
        exchange.phases_ns["first_byte"] = time.monotonic_ns() - began_ns

    try:
        if exchange.http2:
            exchange.sent = tuple(f"{name}: {value}" for name, value in request.fields)
            reply: Reply | HTTP2Reply = HTTP2Reply(stream, request, began)
        else:
            head = "\r\n".join((*request.lines, "", ""))
            stream.send(head.encode("utf-8", "surrogateescape"))
            reply = Reply(stream, began)
    finally:
        exchange.phases_ns.setdefault("first_byte", time.monotonic_ns() - began_ns)
    exchange.status, exchange.received = reply.status, reply.head
    return reply


def _judged(
    reply: Reply | HTTP2Reply, watch: Watch, exchange: Exchange, facts: ProberFacts
) -> Execution:
    try:
        with watch.phase(exchange, "body"):
            exchange.body = _text(reply.body(OUTPUT_BYTES_MAX))
    except BodyError as error:
        text = str(error) or DEADLINE + READING_BODY
        return http_execution(facts, status=reply.status, body_error=text)
    exchange.body_cut = not reply.whole
    return http_execution(facts, status=reply.status, body=exchange.body)


def _failed(
    error: TransportError,
    request: HTTPRequest,
    watch: Watch,
    exchanges: list[Exchange],
    facts: ProberFacts,
) -> Attempt:
    text = error.text
    or_texts: tuple[str, ...] = ()
    if error.timed_out:
        # The dialer's timer and the client's end at the same instant: either text comes.
        dialing = "connect" in exchanges[-1].phases_ns and not exchanges[-1].local
        or_texts = (get_failed(request.url, error.text + AWAITING_HEADERS),) if dialing else ()
        text = DEADLINE + AWAITING_HEADERS
    return Attempt(
        execution=http_execution(facts, transport_error=get_failed(request.url, text)),
        exchanges=tuple(exchanges),
        total_ns=watch.elapsed_ns(),
        or_texts=or_texts,
    )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
