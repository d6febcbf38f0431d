"""HTTP probes against real servers on loopback; texts are those of Go's net/http."""

from __future__ import annotations

import re
import socket
import ssl
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

from kubeledger.kubelet.prober.addressing import HTTPGetAction, HTTPHeader
from kubeledger.kubelet.prober.httpget import HTTPRequest, http_request, user_agent
from kubeledger.probe.attempt import Attempt
from kubeledger.probe.http import http_attempt
from tests.kubelet.prober.worlds import facts_of
from tests.probe.http2_servers import Act, speaks
from tests.probe.servers import (
    Habit,
    answers,
    certificate,
    closed_port,
    full_listener,
    hangs,
    resets,
    says,
    serve,
)

VERSIONS = ("1.20.2", "1.28.0", "1.36.2")
BRIEF_NS = 150_000_000
SECOND_NS = 1_000_000_000
"""Enough for a head on a busy machine."""
LONG_NS = 8_000_000_000
AWAITING = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
READING = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
BROKEN = "net/http: HTTP/1.x transport connection broken: "
OK = "HTTP/1.1 200 OK\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def request(
    port: int,
    *headers: tuple[str, str],
    version: str = "1.36.2",
    scheme: str = "HTTP",
    host: str = "127.0.0.1",
) -> HTTPRequest:
    """A probe of /healthz at this port."""
    action = HTTPGetAction(
        port=port,
        path="/healthz",
        scheme=scheme,
        http_headers=tuple(HTTPHeader(*header) for header in headers),
    )
    return http_request(action, host, port, facts_of(version), user_agent(version))


def probe(
    port: int, *, version: str = "1.36.2", scheme: str = "HTTP", ns: int = LONG_NS
) -> Attempt:
    """Execute it."""
    made = request(port, version=version, scheme=scheme)
    return http_attempt(made, ns, facts_of(version))


def outcome_of(attempt: Attempt, port: int) -> tuple[str, str]:
    """Outcome and text, with what differs from run to run left out."""
    text = attempt.execution.text.replace(f"127.0.0.1:{port}", "SERVER")
    return attempt.execution.outcome, re.sub(r"127\.0\.0\.1:[0-9]+->", "US->", text)


def got(text: str, scheme: str = "http") -> str:
    """The error of the request."""
    return f'Get "{scheme}://SERVER/healthz": {text}'


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_server_gets_and_what_it_is_taken_for(version: str) -> None:
    """What a server gets and what it is taken for."""
    with serve(answers("200 OK", b"fine", "X-A: 1")) as server:
        attempt = probe(server.port, version=version)
    minor = version.split(".")[1]
    assert server.heads == [
        f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        f"User-Agent: kube-probe/1.{minor}\r\nAccept: */*\r\nConnection: close\r\n\r\n".encode()
    ]
    assert outcome_of(attempt, server.port) == ("success", "fine")
    (exchange,) = attempt.exchanges
    assert list(exchange.phases_ns) == ["resolve", "connect", "first_byte", "body"]
    assert 0 < sum(exchange.phases_ns.values()) <= attempt.total_ns
    assert (exchange.status, exchange.header("x-a"), exchange.body) == (200, "1", "fine")
    assert exchange.address == f"127.0.0.1:{server.port}"


@pytest.mark.parametrize(
    ("habit", "outcome", "text"),
    [
        pytest.param(
            resets,
            "failure",
            got("read tcp US->SERVER: read: connection reset by peer"),
            id="reset",
        ),
        pytest.param(says(b""), "failure", got("EOF"), id="closed"),
        pytest.param(
            says(b"HTTP/1.1 2"),
            "failure",
            got(BROKEN + 'malformed HTTP status code "2"'),
            id="half a status",
        ),
        pytest.param(
            says(b"HTTP/1.1 200 OK\r\nContent-"),
            "failure",
            got(BROKEN + 'malformed MIME header: missing colon: "Content-"'),
            id="half a header",
        ),
        pytest.param(
            says(b"HTTP/1.1 200 OK\r\nA: b\r\n"),
            "failure",
            got(BROKEN + "unexpected EOF"),
            id="half a head",
        ),
        pytest.param(
            says(OK.encode() + b"Content-Length: 100\r\n\r\nabc"),
            "error",
            "unexpected EOF",
            id="half a body",
        ),
        pytest.param(
            says(b"HTTP/1.1 500 X\r\nContent-Length: 100\r\n\r\nabc"),
            "error",
            "unexpected EOF",
            id="half a body of a failure",
        ),
        pytest.param(
            says(CHUNKED + b"3\r\nabc\r\n1;x\r\nd\r\n0\r\n\r\n"),
            "success",
            "abcd",
            id="chunks",
        ),
        pytest.param(
            says(CHUNKED + b"zz\r\n"),
            "error",
            "invalid byte in chunk length",
            id="no chunk",
        ),
        pytest.param(
            says(CHUNKED + b"5\r\nabc"),
            "error",
            "unexpected EOF",
            id="half a chunk",
        ),
        pytest.param(
            says(b"SSH-2.0-OpenSSH_9\r\n"),
            "failure",
            got(BROKEN + 'malformed HTTP response "SSH-2.0-OpenSSH_9"'),
            id="another protocol",
        ),
        pytest.param(
            says(b"\x15\x03\x03\x00\x02\x02\x16"),
            "failure",
            got(BROKEN + r'malformed HTTP response "\x15\x03\x03\x00\x02\x02\x16"'),
            id="TLS",
        ),
        pytest.param(
            says(b"\x00\x01\xff\xfeabc\r\n\r\n"),
            "failure",
            got(BROKEN + r'malformed HTTP response "\x00\x01\xff\xfeabc"'),
            id="bytes",
        ),
        pytest.param(
            says(b"HTTP/1.10 200 OK\r\n\r\n"),
            "failure",
            got(BROKEN + 'malformed HTTP version "HTTP/1.10"'),
            id="version",
        ),
        pytest.param(
            says(b"HTTP/1.1 abc OK\r\n\r\n"),
            "failure",
            got(BROKEN + 'malformed HTTP status code "abc"'),
            id="abc",
        ),
        pytest.param(
            says(OK.encode() + b" x: x\r\n\r\n"),
            "failure",
            got(BROKEN + "malformed MIME header initial line:  x: x"),
            id="folded",
        ),
        pytest.param(
            says(OK.encode() + b"Content-Length: x\r\n\r\n"),
            "failure",
            got(BROKEN + 'bad Content-Length "x"'),
            id="length",
        ),
        pytest.param(
            says(OK.encode() + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nbarf"),
            "failure",
            got(
                BROKEN
                + 'http: message cannot contain multiple Content-Length headers; got ["3" "4"]'
            ),
            id="two lengths",
        ),
        pytest.param(
            says(OK.encode() + b"Transfer-Encoding: gzip\r\n\r\nbar"),
            "failure",
            got(BROKEN + 'unsupported transfer encoding: "gzip"'),
            id="encoding",
        ),
        pytest.param(
            says(b"HTTP/1.1 103 X\r\n\r\nHTTP/1.1 200 OK\n\nbar"),
            "success",
            "bar",
            id="early hints",
        ),
        pytest.param(says(b"HTTP/1.0 200\r\n\r\nbar"), "success", "bar", id="HTTP/1.0"),
        pytest.param(
            says(b"HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\nbar"), "success", "", id="204"
        ),
        pytest.param(
            answers("200 OK", b"fine", keep_alive=True), "success", "fine", id="kept alive"
        ),
        pytest.param(
            answers("503 X", b"x"), "failure", "HTTP probe failed with statuscode: 503", id="503"
        ),
        pytest.param(
            answers("404 X"), "failure", "HTTP probe failed with statuscode: 404", id="404"
        ),
        pytest.param(
            answers("304 X"), "warning", "Probe terminated redirects, Response body: ", id="304"
        ),
    ],
)
def test_replies(habit: Habit, outcome: str, text: str) -> None:
    """Replies."""
    with serve(habit) as server:
        assert outcome_of(probe(server.port), server.port) == (outcome, text)


@pytest.mark.parametrize(
    ("habit", "outcome", "text"),
    [
        pytest.param(hangs, "failure", got(AWAITING), id="silent"),
        pytest.param(
            says(b"HTTP/1.1 200 OK\r\nConte", then_hangs=True),
            "failure",
            got(AWAITING),
            id="half a head",
        ),
        pytest.param(
            says(OK.encode() + b"Content-Length: 100\r\n\r\nabc", then_hangs=True),
            "error",
            READING,
            id="half a body",
        ),
        pytest.param(
            says(OK.encode() + b"\r\nabc", then_hangs=True),
            "error",
            READING,
            id="body without an end",
        ),
    ],
)
def test_the_timeout_covers_head_and_body(habit: Habit, outcome: str, text: str) -> None:
    """The timeout covers head and body."""
    with serve(habit) as server:
        assert outcome_of(
            probe(server.port, ns=SECOND_NS if outcome == "error" else BRIEF_NS), server.port
        ) == (outcome, text)


def test_ten_kibibytes_of_a_body_without_an_end_are_enough() -> None:
    """Ten kibibytes of a body without an end are enough."""
    with serve(says(OK.encode() + b"\r\n" + b"x" * 20000, then_hangs=True)) as server:
        attempt = probe(server.port)
    assert outcome_of(attempt, server.port) == ("success", "x" * 10240)
    assert attempt.exchanges[0].body_cut


def test_refused() -> None:
    """Refused."""
    port = closed_port()
    attempt = probe(port)
    assert outcome_of(attempt, port) == (
        "failure",
        got("dial tcp SERVER: connect: connection refused"),
    )
    assert list(attempt.exchanges[0].phases_ns) == ["resolve", "connect"]


def test_no_answer_to_the_connection() -> None:
    """No answer to the connection."""
    with full_listener() as port:
        attempt = probe(port, ns=BRIEF_NS)
    assert outcome_of(attempt, port) == ("failure", got(AWAITING))
    assert [text.replace(f"127.0.0.1:{port}", "SERVER") for text in attempt.or_texts] == [
        got("dial tcp SERVER: i/o timeout (Client.Timeout exceeded while awaiting headers)")
    ]


def redirects(*places: str) -> Habit:
    """The n-th request is led to the n-th place; after the last, 200."""
    count = iter(range(100))

    def habit(connection: socket.socket, head: bytes, over: threading.Event) -> None:
        index = next(count)
        place = places[index] if index < len(places) else None
        habit_ = (
            answers("200 OK", b"end")
            if place is None
            else answers("302 X", b"go", f"Location: {place}")
        )
        habit_(connection, head, over)

    return habit


def test_redirects_to_the_same_host_are_followed() -> None:
    """Redirects to the same host are followed."""
    with serve(redirects("/a", "b?c#d")) as server:
        attempt = probe(server.port)
    assert outcome_of(attempt, server.port) == ("success", "end")
    assert [head.split(b" ")[1] for head in server.heads] == [b"/healthz", b"/a", b"/b?c"]
    assert b"\r\nReferer: http://127.0.0.1:%d/healthz\r\n" % server.port in server.heads[1]
    assert [exchange.status for exchange in attempt.exchanges] == [302, 302, 200]


@pytest.mark.parametrize(
    ("version", "text"),
    [("1.20.2", "go"), ("1.28.0", "Probe terminated redirects, Response body: go")],
)
def test_a_redirect_to_another_host_warns(version: str, text: str) -> None:
    """A redirect to another host warns."""
    with serve(redirects("http://localhost/a")) as server:
        attempt = probe(server.port, version=version)
    assert outcome_of(attempt, server.port) == ("warning", text)
    assert attempt.not_followed == "http://localhost/a"


def test_redirects_without_end() -> None:
    """Redirects without end."""
    with serve(redirects(*["/next"] * 20)) as server:
        attempt = probe(server.port)
    assert outcome_of(attempt, server.port) == (
        "failure",
        'Get "/next": stopped after 10 redirects',
    )
    assert len(server.heads) == 10


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (
            "http://127.0.0.1:1/x",
            'Get "http://127.0.0.1:1/x": dial tcp 127.0.0.1:1: connect: connection refused',
        ),
        ("ftp://127.0.0.1/x", 'Get "ftp://127.0.0.1/x": unsupported protocol scheme "ftp"'),
    ],
)
def test_redirects_that_fail(place: str, text: str) -> None:
    """Redirects that fail."""
    with serve(redirects(place)) as server:
        assert outcome_of(probe(server.port), server.port) == ("failure", text)


@pytest.mark.parametrize("version", VERSIONS)
def test_nobody_checks_the_certificate(version: str, tmp_path: Path) -> None:
    """Nobody checks the certificate."""
    with serve(answers("200 OK", b"fine"), context=certificate(tmp_path)) as server:
        attempt = probe(server.port, version=version, scheme="HTTPS")
    assert outcome_of(attempt, server.port) == ("success", "fine")
    assert attempt.exchanges[0].tls.startswith("TLSv1.")
    assert list(attempt.exchanges[0].phases_ns) == [
        "resolve",
        "connect",
        "tls",
        "first_byte",
        "body",
    ]


@pytest.mark.parametrize(
    ("habit", "text"),
    [
        pytest.param(
            says(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            "http: server gave HTTP response to HTTPS client",
            id="HTTP",
        ),
        pytest.param(
            says(b"hello there everyone"),
            "tls: first record does not look like a TLS handshake",
            id="no TLS",
        ),
        pytest.param(says(b"hi"), "unexpected EOF", id="short"),
        pytest.param(says(b""), "EOF", id="closed"),
        pytest.param(resets, "read tcp US->SERVER: read: connection reset by peer", id="reset"),
        pytest.param(
            says(bytes([21, 3, 3, 0, 2, 2, 40])), "remote error: tls: handshake failure", id="alert"
        ),
    ],
)
def test_handshakes_that_fail(habit: Habit, text: str) -> None:
    """Handshakes that fail."""
    with serve(habit) as server:
        attempt = probe(server.port, scheme="HTTPS")
    assert outcome_of(attempt, server.port) == ("failure", got(text, "https"))


@pytest.mark.skipif(not ssl.HAS_TLSv1_1, reason="OpenSSL was built without TLS 1.1")
@pytest.mark.parametrize(
    ("version", "outcome", "text"),
    [
        ("1.36.2", "failure", got("remote error: tls: protocol version not supported", "https")),
        ("1.20.2", "success", "fine"),
    ],
)
def test_tls_1_1(version: str, outcome: str, text: str, tmp_path: Path) -> None:
    """Offered before 1.24."""
    context = certificate(tmp_path)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with serve(answers("200 OK", b"fine"), context=context) as server:
        attempt = probe(server.port, version=version, scheme="HTTPS")
    assert outcome_of(attempt, server.port) == (outcome, text)


def test_a_handshake_that_hangs() -> None:
    """A handshake that hangs."""
    with serve(hangs) as server:
        attempt = probe(server.port, scheme="HTTPS", ns=BRIEF_NS)
    assert outcome_of(attempt, server.port) == ("failure", got(AWAITING, "https"))


def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies of the environment are ignored."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with serve(answers("200 OK", b"fine")) as server:
        assert outcome_of(probe(server.port), server.port) == ("success", "fine")


def test_ipv6() -> None:
    """IPv6."""
    try:
        opened = serve(answers("200 OK", b"six"), family=socket.AF_INET6)
        with opened as server:
            made = request(server.port, host="::1")
            attempt = http_attempt(made, LONG_NS, facts_of("1.36.2"))
    except OSError:
        pytest.skip("this machine has no IPv6")
    assert attempt.execution.text == "six"
    assert attempt.exchanges[0].address == f"[::1]:{server.port}"
    assert b"\r\nHost: [::1]:%d\r\n" % server.port in server.heads[0]


def _says(*headers: tuple[str, str], body: bytes = b"", ends: bool = True) -> Act:
    """Answers with these headers; ``ends`` with the body."""

    def act(connection: Any, stream: int, asked: list[tuple[str, str]]) -> None:  # noqa: ANN401 # h2's
        connection.send_headers(stream, headers)
        connection.send_data(stream, body, end_stream=ends)

    return act


def _resets(connection: Any, stream: int, asked: list[tuple[str, str]]) -> None:  # noqa: ANN401 # h2's
    """Ends the stream with INTERNAL_ERROR."""
    connection.reset_stream(stream, 2)


def _leaves(connection: Any, stream: int, asked: list[tuple[str, str]]) -> None:  # noqa: ANN401 # h2's
    """Says GOAWAY."""
    connection.close_connection(0)


@pytest.mark.parametrize(
    ("act", "then", "outcome", "text"),
    [
        pytest.param(_says((":status", "200"), body=b"fine"), "waits", "success", "fine", id="200"),
        pytest.param(
            _says((":status", "500")),
            "waits",
            "failure",
            "HTTP probe failed with statuscode: 500",
            id="500",
        ),
        pytest.param(
            _says((":status", "302"), ("location", "http://other/"), body=b"go"),
            "waits",
            "warning",
            "Probe terminated redirects, Response body: go",
            id="302",
        ),
        pytest.param(
            _says((":status", "200"), body=b"x" * 16000, ends=False),
            "waits",
            "success",
            "x" * 10240,
            id="a body without an end",
        ),
        pytest.param(
            _says((":status", "200"), ("content-length", "9"), body=b"abc"),
            "waits",
            "error",
            "unexpected EOF",
            id="a body too short",
        ),
        pytest.param(
            _resets,
            "waits",
            "failure",
            got("stream error: stream ID 1; INTERNAL_ERROR; received from peer", "https"),
            id="reset",
        ),
        pytest.param(
            _leaves,
            "closes",
            "failure",
            got(
                "http2: server sent GOAWAY and closed the connection; LastStreamID=1, "
                'ErrCode=NO_ERROR, debug=""',
                "https",
            ),
            id="GOAWAY",
        ),
        pytest.param(
            _says((":status", "200"), body=b"abc", ends=False),
            "closes",
            "error",
            "unexpected EOF",
            id="half a body",
        ),
    ],
)
def test_http_2(act: Act, then: str, outcome: str, text: str, tmp_path: Path) -> None:
    """A server that chooses HTTP/2."""
    context = certificate(tmp_path)
    context.set_alpn_protocols(["h2"])
    with serve(speaks(act, then=then), context=context) as server:
        attempt = probe(server.port, scheme="HTTPS")
    assert outcome_of(attempt, server.port) == (outcome, text)
    assert attempt.exchanges[0].http2


def test_http_2_fields_and_silence(tmp_path: Path) -> None:
    """What is sent, and the same timeout as ever."""
    asked: list[list[tuple[str, str]]] = []
    context = certificate(tmp_path)
    context.set_alpn_protocols(["h2"])
    with serve(speaks(lambda _c, _s, fields: asked.append(fields)), context=context) as server:
        attempt = probe(server.port, scheme="HTTPS", ns=SECOND_NS)
    assert outcome_of(attempt, server.port) == ("failure", got(AWAITING, "https"))
    assert asked == [
        [
            (":authority", f"127.0.0.1:{server.port}"),
            (":method", "GET"),
            (":path", "/healthz"),
            (":scheme", "https"),
            ("user-agent", "kube-probe/1.36"),
            ("accept", "*/*"),
        ]
    ]


def test_without_h2_only_http_1_is_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that has both chooses HTTP/1.1."""
    monkeypatch.setattr("kubeledger.probe.http2.find_spec", lambda _name: None)
    context = certificate(tmp_path)
    context.set_alpn_protocols(["h2", "http/1.1"])
    with serve(answers("200 OK", b"fine"), context=context) as server:
        attempt = probe(server.port, scheme="HTTPS")
    assert outcome_of(attempt, server.port) == ("success", "fine")
    assert attempt.exchanges[0].tls.endswith("http/1.1")
