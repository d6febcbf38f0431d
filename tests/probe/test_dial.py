"""Names and several addresses, with a resolver of our own."""

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kubeledger.probe.attempt import Attempt
from kubeledger.probe.dial import tcp_attempt
from tests.kubelet.prober.worlds import facts_of
from tests.probe.servers import closed_port, hangs, serve
from tests.waiting import PATIENCE_S

LONG_NS = 8_000_000_000
BRIEF_NS = 150_000_000

Found = list[tuple[int, int, int, str, tuple[str, int]]]


@pytest.fixture
def resolves(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Found]], None]:
    """Sets what the system's resolver does."""

    def set_(answer: Callable[[], Found]) -> None:
        monkeypatch.setattr("socket.getaddrinfo", lambda *_args, **_kwargs: answer())

    return set_


def at(*ports: int) -> Found:
    """Loopback, at these ports."""
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in ports]


def dialed(ns: int = LONG_NS) -> Attempt:
    """A TCP probe of a name."""
    return tcp_attempt("web.example", 80, ns, facts_of("1.36.2"))


def test_no_such_host(
    resolves: Callable[[Callable[[], Found]], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first name server is named."""
    conf = tmp_path / "resolv.conf"
    conf.write_text("search example\nnameserver 10.96.0.10\nnameserver 10.96.0.11\n")
    monkeypatch.setattr("kubeledger.probe.dial._RESOLV_CONF", conf)

    def fails() -> Found:
        raise socket.gaierror(socket.EAI_NONAME, "none")

    resolves(fails)
    attempt = dialed()
    assert attempt.execution.text == ("dial tcp: lookup web.example on 10.96.0.10:53: no such host")
    assert list(attempt.exchanges[0].phases_ns) == ["resolve"]
    assert "on " not in tcp_attempt("256.1.1.1", 80, LONG_NS, facts_of("1.36.2")).execution.text


def test_a_resolver_that_hangs(resolves: Callable[[Callable[[], Found]], None]) -> None:
    """It is left behind when the time is over."""
    over = threading.Event()

    def hangs_() -> Found:
        over.wait(PATIENCE_S)
        return []

    resolves(hangs_)
    attempt = dialed(BRIEF_NS)
    over.set()
    assert attempt.execution.text == "dial tcp: lookup web.example: i/o timeout"


def test_the_next_address_is_tried(resolves: Callable[[Callable[[], Found]], None]) -> None:
    with serve(hangs) as server:
        resolves(lambda: at(closed_port(), server.port))
        attempt = dialed()
    assert attempt.execution.outcome == "success"


def test_the_first_address_s_error_is_reported(
    resolves: Callable[[Callable[[], Found]], None],
) -> None:
    resolves(lambda: [*at(closed_port()), (socket.AF_INET, 0, 0, "", ("127.0.0.2", 1))])
    text = dialed().execution.text
    assert text == "dial tcp 127.0.0.1:80: connect: connection refused"


def test_a_port_that_is_none() -> None:
    attempt = tcp_attempt("127.0.0.1", 99999, LONG_NS, facts_of("1.36.2"))
    assert attempt.execution.text == "dial tcp: address 99999: invalid port"
