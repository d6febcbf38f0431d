"""HTTP probes against real servers on loopback; texts are those of Go's net/http."""

import re
import socket
import ssl
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

from kubeledger.kubelet.prober.httpget import HTTPRequest, http_request, user_agent
from kubeledger.kubelet.prober.prober import HTTPGetAction, HTTPHeader
from kubeledger.probe.attempt import Attempt
from kubeledger.probe.http import http_attempt
from tests.certificates import make_certificate
from tests.kubelet.prober.worlds import facts_of
from tests.probe.http2_servers import Act, speaks
from tests.probe.servers import (
    Habit,
    answers,
    closed_port,
    full_listener,
    hangs,
    resets,
    says,
    serve,
    unhurried,
)

VERSIONS = ("1.20.2", "1.28.0", "1.36.2")
BRIEF_NS = 150_000_000
LONG_NS = 8_000_000_000
AWAITING = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
READING = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def request(
    port: int,
    *headers: tuple[str, str],
    version: str = "1.36.2",
    scheme: str = "HTTP",
    host: str = "127.0.0.1",
) -> HTTPRequest:
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
    made = request(port, version=version, scheme=scheme)
    return http_attempt(made, ns, facts_of(version))


def outcome_of(attempt: Attempt, port: int) -> tuple[str, str]:
    """Outcome and text, with what differs from run to run left out."""
    text = attempt.execution.text.replace(f"127.0.0.1:{port}", "SERVER")
    return attempt.execution.outcome, re.sub(r"127\.0\.0\.1:[0-9]+->", "US->", text)


def got(text: str, scheme: str = "http") -> str:
    return f'Get "{scheme}://SERVER/healthz": {text}'


def broken(text: str) -> str:
    """The error of an invalid reply."""
    return got(f"net/http: HTTP/1.x transport connection broken: {text}")


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_server_gets_and_what_it_is_taken_for(version: str) -> None:
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


NOT_HTTP = "malformed HTTP response"
LENGTHS = "http: message cannot contain multiple Content-Length headers; got"
REPLIES: dict[str, tuple[Habit | bytes, str, str]] = {
    "reset": (resets, "failure", got("read tcp US->SERVER: read: connection reset by peer")),
    "closed": (b"", "failure", got("EOF")),
    "half a status": (b"HTTP/1.1 2", "failure", broken('malformed HTTP status code "2"')),
    "half a header": (OK + b"Content-", "failure",
                      broken('malformed MIME header: missing colon: "Content-"')),
    "half a head": (OK + b"A: b\r\n", "failure", broken("unexpected EOF")),
    "half a body": (OK + b"Content-Length: 100\r\n\r\nabc", "error", "unexpected EOF"),
    "half a body of a failure": (b"HTTP/1.1 500 X\r\nContent-Length: 100\r\n\r\nabc", "error",
                                 "unexpected EOF"),
    "chunks": (CHUNKED + b"3\r\nabc\r\n1;x\r\nd\r\n0\r\n\r\n", "success", "abcd"),
    "no chunk": (CHUNKED + b"zz\r\n", "error", "invalid byte in chunk length"),
    "half a chunk": (CHUNKED + b"5\r\nabc", "error", "unexpected EOF"),
    "SSH": (b"SSH-2.0-OpenSSH_9\r\n", "failure", broken(f'{NOT_HTTP} "SSH-2.0-OpenSSH_9"')),
    "TLS": (b"\x15\x03\x03\x00\x02\x02\x16", "failure",
            broken(NOT_HTTP + r' "\x15\x03\x03\x00\x02\x02\x16"')),
    "bytes": (b"\x00\x01\xff\xfeabc\r\n\r\n", "failure",
              broken(NOT_HTTP + r' "\x00\x01\xff\xfeabc"')),
    "version": (b"HTTP/1.10 200 OK\r\n\r\n", "failure",
                broken('malformed HTTP version "HTTP/1.10"')),
    "abc": (b"HTTP/1.1 abc OK\r\n\r\n", "failure", broken('malformed HTTP status code "abc"')),
    "folded": (OK + b" x: x\r\n\r\n", "failure",
               broken("malformed MIME header initial line:  x: x")),
    "length": (OK + b"Content-Length: x\r\n\r\n", "failure", broken('bad Content-Length "x"')),
    "two lengths": (OK + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nbarf", "failure",
                    broken(f'{LENGTHS} ["3" "4"]')),
    "encoding": (OK + b"Transfer-Encoding: gzip\r\n\r\nbar", "failure",
                 broken('unsupported transfer encoding: "gzip"')),
    "early hints": (b"HTTP/1.1 103 X\r\n\r\nHTTP/1.1 200 OK\n\nbar", "success", "bar"),
    "HTTP/1.0": (b"HTTP/1.0 200\r\n\r\nbar", "success", "bar"),
    "204": (b"HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\nbar", "success", ""),
    "kept alive": (answers("200 OK", b"fine", keep_alive=True), "success", "fine"),
    "503": (answers("503 X", b"x"), "failure", "HTTP probe failed with statuscode: 503"),
    "404": (answers("404 X"), "failure", "HTTP probe failed with statuscode: 404"),
    "304": (answers("304 X"), "warning", "Probe terminated redirects, Response body: "),
}  # fmt: skip


@pytest.mark.parametrize("name", REPLIES)
def test_replies(name: str) -> None:
    habit, outcome, text = REPLIES[name]
    with serve(says(habit) if isinstance(habit, bytes) else habit) as server:
        assert outcome_of(probe(server.port), server.port) == (outcome, text)


@pytest.mark.parametrize(
    ("said", "outcome", "text"),
    [
        (b"", "failure", got(AWAITING)),
        (OK + b"Conte", "failure", got(AWAITING)),
        (OK + b"Content-Length: 100\r\n\r\nabc", "error", READING),
        (OK + b"\r\nabc", "error", READING),
    ],
    ids=["silent", "half a head", "half a body", "body without an end"],
)
def test_the_timeout_covers_head_and_body(
    said: bytes, outcome: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(says(said, then_hangs=True)) as server:
        unhurried(monkeypatch, server.silent)
        assert outcome_of(probe(server.port, ns=BRIEF_NS), server.port) == (outcome, text)


def test_ten_kibibytes_of_a_body_without_an_end_are_enough() -> None:
    with serve(says(OK + b"\r\n" + b"x" * 20000, then_hangs=True)) as server:
        attempt = probe(server.port)
    assert outcome_of(attempt, server.port) == ("success", "x" * 10240)
    assert attempt.exchanges[0].body_cut


def test_refused() -> None:
    port = closed_port()
    attempt = probe(port)
    assert outcome_of(attempt, port) == (
        "failure",
        got("dial tcp SERVER: connect: connection refused"),
    )
    assert list(attempt.exchanges[0].phases_ns) == ["resolve", "connect"]


def test_no_answer_to_the_connection() -> None:
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
    with serve(redirects("http://localhost/a")) as server:
        attempt = probe(server.port, version=version)
    assert outcome_of(attempt, server.port) == ("warning", text)
    assert attempt.not_followed == "http://localhost/a"


def test_redirects_without_end() -> None:
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
    with serve(redirects(place)) as server:
        assert outcome_of(probe(server.port), server.port) == ("failure", text)


@pytest.mark.parametrize("version", VERSIONS)
def test_nobody_checks_the_certificate(version: str, tmp_path: Path) -> None:
    with serve(answers("200 OK", b"fine"), context=make_certificate(tmp_path).context) as server:
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


HANDSHAKES: dict[str, tuple[Habit | bytes, str]] = {
    "HTTP": (b"HTTP/1.1 400 Bad\r\n\r\n", "http: server gave HTTP response to HTTPS client"),
    "no TLS": (b"hello there", "tls: first record does not look like a TLS handshake"),
    "short": (b"hi", "unexpected EOF"),
    "closed": (b"", "EOF"),
    "reset": (resets, "read tcp US->SERVER: read: connection reset by peer"),
    "alert": (bytes([21, 3, 3, 0, 2, 2, 40]), "remote error: tls: handshake failure"),
}


@pytest.mark.parametrize("name", HANDSHAKES)
def test_handshakes_that_fail(name: str) -> None:
    habit, text = HANDSHAKES[name]
    with serve(says(habit) if isinstance(habit, bytes) else habit) as server:
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
    context = make_certificate(tmp_path).context
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with serve(answers("200 OK", b"fine"), context=context) as server:
        attempt = probe(server.port, version=version, scheme="HTTPS")
    assert outcome_of(attempt, server.port) == (outcome, text)


def test_a_handshake_that_hangs() -> None:
    with serve(hangs) as server:
        attempt = probe(server.port, scheme="HTTPS", ns=BRIEF_NS)
    assert outcome_of(attempt, server.port) == ("failure", got(AWAITING, "https"))


def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with serve(answers("200 OK", b"fine")) as server:
        assert outcome_of(probe(server.port), server.port) == ("success", "fine")


def test_ipv6() -> None:
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


RESET = "stream error: stream ID 1; INTERNAL_ERROR; received from peer"
GOAWAY = (
    "http2: server sent GOAWAY and closed the connection; LastStreamID=1, "
    'ErrCode=NO_ERROR, debug=""'
)
MOVED = ((":status", "302"), ("location", "http://other/"))
SHORT = ((":status", "200"), ("content-length", "9"))
HTTP_2: dict[str, tuple[Act, str, str, str]] = {
    "200": (_says((":status", "200"), body=b"fine"), "waits", "success", "fine"),
    "500": (_says((":status", "500")), "waits", "failure",
            "HTTP probe failed with statuscode: 500"),
    "302": (_says(*MOVED, body=b"go"), "waits", "warning",
            "Probe terminated redirects, Response body: go"),
    "a body without an end": (_says((":status", "200"), body=b"x" * 16000, ends=False), "waits",
                              "success", "x" * 10240),
    "a body too short": (_says(*SHORT, body=b"abc"), "waits", "error", "unexpected EOF"),
    "reset": (lambda c, n, _: c.reset_stream(n, 2), "waits", "failure", got(RESET, "https")),
    "GOAWAY": (lambda c, _n, _asked: c.close_connection(0), "closes", "failure",
               got(GOAWAY, "https")),
    "half a body": (_says((":status", "200"), body=b"abc", ends=False), "closes", "error",
                    "unexpected EOF"),
}  # fmt: skip


def chooses_http_2(directory: Path) -> ssl.SSLContext:
    """A server's context that takes nothing else."""
    context = make_certificate(directory).context
    context.set_alpn_protocols(["h2"])
    return context


@pytest.mark.parametrize("name", HTTP_2)
def test_http_2(name: str, tmp_path: Path) -> None:
    """A server that chooses HTTP/2."""
    act, then, outcome, text = HTTP_2[name]
    with serve(speaks(act, then=then), context=chooses_http_2(tmp_path)) as server:
        attempt = probe(server.port, scheme="HTTPS")
    assert outcome_of(attempt, server.port) == (outcome, text)
    assert attempt.exchanges[0].http2


def test_http_2_fields_and_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent, and the same timeout as ever."""
    asked: list[list[tuple[str, str]]] = []
    act: Act = lambda _connection, _stream, fields: asked.append(fields)  # noqa: E731
    with serve(speaks(act), context=chooses_http_2(tmp_path)) as server:
        unhurried(monkeypatch, server.silent)
        attempt = probe(server.port, scheme="HTTPS", ns=BRIEF_NS)
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
    monkeypatch.setattr("kubeledger.probe.replies.find_spec", lambda _name: None)
    context = make_certificate(tmp_path).context
    context.set_alpn_protocols(["h2", "http/1.1"])
    with serve(answers("200 OK", b"fine"), context=context) as server:
        attempt = probe(server.port, scheme="HTTPS")
    assert outcome_of(attempt, server.port) == ("success", "fine")
    assert attempt.exchanges[0].tls.endswith("http/1.1")
