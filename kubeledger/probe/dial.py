"""Connections as Go's dialer makes them: resolve, connect to one address after the other, TLS."""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
import struct
import threading
import time
from contextlib import suppress
from pathlib import Path

from kubeledger.kubelet.kube.urls import host_port
from kubeledger.kubelet.prober.prober import (
    IO_TIMEOUT,
    alert_text,
    dial_failed,
    lookup_failed,
    read_failed,
    tcp_execution,
)
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.probe.attempt import Attempt, Exchange, TransportError, Watch

READ_BYTES = 65536
_PORT_MAX = 65535
_LINGER = struct.pack("ii", 1, 1)
_ADDRESS_NS_MIN = 2_000_000_000
_RESOLV_CONF = Path("/etc/resolv.conf")
_NAMESERVER = re.compile(r"^\s*nameserver\s+(\S+)", re.MULTILINE)

Sockaddr = tuple[str, int] | tuple[str, int, int, int]


class Connection:
    """A connected socket; reads and writes end with the probe's timeout.

    Attributes:
        local, remote: both ends, as Go writes them.
    """

    def __init__(self, sock: socket.socket, watch: Watch) -> None:
        self._socket = sock
        self._watch = watch
        self.local = _end(sock.getsockname())
        self.remote = _end(sock.getpeername())

    def send(self, data: bytes) -> None:
        """Write all of it; a peer that closed is noticed when reading."""
        self._socket.settimeout(self._watch.left_s())
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise TransportError("", timed_out=True) from None
        except OSError:
            return

    def receive(self, *, at_most_ns: int | None = None) -> bytes:
        """What is there, at least a byte; empty at the end.

        Raises:
            TransportError: a reset, or the time is over.
        """
        self._socket.settimeout(self._watch.left_s(at_most_ns=at_most_ns))
        try:
            return self._socket.recv(READ_BYTES)
        except TimeoutError:
            raise TransportError("", timed_out=True) from None
        except OSError as error:
            raise TransportError(read_failed(self.local, self.remote, error.errno or 0)) from None

    def close(self) -> None:
        self._socket.close()


def dial(host: str, port: int, watch: Watch, exchange: Exchange, *, lingers: bool) -> Connection:
    """Connect.

    Args:
        host: an address, or a name; empty for this machine.
        watch: the probe's timeout, which holds for all addresses together.
        lingers: whether the socket is closed within a second, without TIME_WAIT.

    Raises:
        TransportError: with Go's text; that of the first address, where several fail.
    """
    exchange.address = host_port(host, port)
    if port > _PORT_MAX:
        raise TransportError(f"dial tcp: address {port}: invalid port")
    with watch.phase(exchange, "resolve"):
        addresses = _resolve(host, port, watch)
    first: TransportError | None = None
    with watch.phase(exchange, "connect"):
        for left, (family, address) in zip(range(len(addresses), 0, -1), addresses, strict=True):
            shown = host_port(address[0] if host else "", port)
            exchange.address = shown
            try:
                sock = _connect(family, address, shown, watch, left, lingers=lingers)
            except TransportError as error:
                first = first or error
                continue
            connection = Connection(sock, watch)
            exchange.local = connection.local
            return connection
    assert first is not None, addresses
    raise first


def _connect(
    family: int, address: Sockaddr, shown: str, watch: Watch, left: int, *, lingers: bool
) -> socket.socket:
    """One address; of the time left each gets its part, and two seconds where there are that many.

    Source: Go 1.25 net/dial.go dialSerial, partialDeadline
    Differs: addresses of the other family are not tried beside the first after 300 ms.
    """
    timeout = f"dial tcp {shown}: {IO_TIMEOUT}"
    left_ns = int(watch.left_s(timeout) * 1e9)
    part_ns = max(left_ns // left, min(left_ns, _ADDRESS_NS_MIN))
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if lingers:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
        sock.settimeout(watch.left_s(timeout, at_most_ns=time.monotonic_ns() + part_ns))
        sock.connect(address)
    except TimeoutError:
        sock.close()
        raise TransportError(timeout, timed_out=True) from None
    except OSError as error:
        sock.close()
        raise TransportError(dial_failed(shown, error.errno or 0)) from None
    except BaseException:
        sock.close()
        raise
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # Go's default
    return sock


def _resolve(host: str, port: int, watch: Watch) -> list[tuple[int, Sockaddr]]:
    if not host:
        return [(socket.AF_INET, ("127.0.0.1", port))]
    if _is_address(host):
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        return [(family, address) for family, _, _, _, address in found]  # type: ignore[misc] # IP only
    return _look_up(host, port, watch)


def _look_up(host: str, port: int, watch: Watch) -> list[tuple[int, Sockaddr]]:
    """By the system's resolver, which takes no timeout: a lookup that is late is abandoned."""
    found: list[tuple[int, Sockaddr]] = []

    def ask() -> None:
        with suppress(OSError):
            for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                found.append((family, address))  # type: ignore[arg-type] # IP only

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(watch.left_s(lookup_failed(host, "", IO_TIMEOUT)))
    if thread.is_alive():
        raise TransportError(lookup_failed(host, "", IO_TIMEOUT), timed_out=True)
    if not found:
        raise TransportError(lookup_failed(host, _name_server(host), "no such host"))
    return list(dict.fromkeys(found))


def _name_server(host: str) -> str:
    """Who is asked for a name; nobody for one of numbers."""
    if not re.search("[A-Za-z]", host):
        return ""
    with suppress(OSError):
        match = _NAMESERVER.search(_RESOLV_CONF.read_text("utf-8", "replace"))
        if match:
            return host_port(match[1], 53)
    return ""


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _end(address: Sockaddr) -> str:
    return host_port(address[0], address[1])


# TLS over a connection, as a probe has it: no certificate is asked whose it is.

_HANDSHAKE_NS_MAX = 10_000_000_000
_ALERT = 0x15
_RECORDS = range(0x14, 0x18)


class TLSConnection:
    """A connection after its handshake; reads and writes as ``Connection``.

    Attributes:
        version: such as ``TLSv1.3``.
        protocol: chosen by ALPN, ``h2`` or ``http/1.1``; empty for none.
    """

    def __init__(
        self, connection: Connection, host: str, protocols: list[str], facts: ProberFacts
    ) -> None:
        self._connection = connection
        self._in = ssl.MemoryBIO()
        self._out = ssl.MemoryBIO()
        self._first = b""
        self._tls = _context(protocols, facts).wrap_bio(
            self._in, self._out, server_hostname=host or None
        )
        self._shake_hands()
        self.version = self._tls.version() or ""
        self.protocol = self._tls.selected_alpn_protocol() or ""

    def send(self, data: bytes) -> None:
        self._tls.write(data)
        self._flush()

    def receive(self) -> bytes:
        """What is there, at least a byte; empty at the end.

        Raises:
            TransportError: as of ``Connection``, or TLS is broken.
        """
        while True:
            try:
                return self._tls.read(READ_BYTES)
            except ssl.SSLWantReadError:
                self._flush()
                if not self._feed():
                    return b""
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""
            except ssl.SSLError as error:
                raise TransportError(self._words(error)) from None

    def close(self) -> None:
        """End it; whoever goes on writing gets a reset."""
        self._connection.close()

    def _shake_hands(self) -> None:
        """Source: Go 1.25 net/http transport.go addTLS; SetTransportDefaults gives it 10 s."""
        latest_ns = time.monotonic_ns() + _HANDSHAKE_NS_MAX
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._flush()
                self._feed(latest_ns, handshake=True)
            except ssl.SSLError as error:
                self._flush()
                raise TransportError(self._words(error)) from None
        self._flush()

    def _feed(self, latest_ns: int | None = None, *, handshake: bool = False) -> bool:
        try:
            data = self._connection.receive(at_most_ns=latest_ns)
        except TransportError as error:
            if error.timed_out and latest_ns is not None and time.monotonic_ns() >= latest_ns:
                raise TransportError("net/http: TLS handshake timeout") from None
            raise
        if not data and handshake:
            raise TransportError("unexpected EOF" if 0 < len(self._first) < 5 else "EOF")
        self._first = (self._first + data)[:16] if handshake else self._first
        if handshake and 0 < len(self._first) < 5:
            return self._feed_rest(data, latest_ns)
        self._in.write(data)
        return bool(data)

    def _feed_rest(self, data: bytes, latest_ns: int | None) -> bool:
        """A record's head comes whole to OpenSSL, which would judge by its first byte."""
        while len(data) < 5:
            more = self._connection.receive(at_most_ns=latest_ns)
            if not more:
                raise TransportError("unexpected EOF")
            data += more
        self._first = data[:16]
        self._in.write(data)
        return True

    def _flush(self) -> None:
        data = self._out.read()
        if data:
            self._connection.send(data)

    def _words(self, error: ssl.SSLError) -> str:
        """Go's text, from what the server sent first where that says it."""
        first = self._first
        if first.startswith(b"HTTP/"):
            return "http: server gave HTTP response to HTTPS client"
        if first and first[0] not in _RECORDS:
            return "tls: first record does not look like a TLS handshake"
        if first[:1] == bytes([_ALERT]) and len(first) >= 7:
            return alert_text(first[6])
        return f"tls: {(error.reason or str(error)).lower().replace('_', ' ')}"


def _context(protocols: list[str], facts: ProberFacts) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(protocols)
    if facts.tls_1_2_at_least:
        context.minimum_version = ssl.TLSVersion.TLSv1_2
    else:
        context.set_ciphers("DEFAULT:@SECLEVEL=0")  # without it OpenSSL makes no TLS 1.0
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    return context


# TCP probes: a connection, closed at once.


def tcp_attempt(host: str, port: int, timeout_ns: int, facts: ProberFacts) -> Attempt:
    """Execute a TCP probe.

    Source: v1.36.2 pkg/probe/tcp/tcp.go DoTCPProbe
    """
    watch = Watch(timeout_ns)
    exchange = Exchange()
    error_text: str | None = None
    try:
        connection = dial(host, port, watch, exchange, lingers=facts.sockets_linger_a_second)
        watch.end()
        connection.close()
    except TransportError as error:
        error_text = error.text
    return Attempt(
        execution=tcp_execution(dial_error=error_text),
        exchanges=(exchange,),
        total_ns=watch.elapsed_ns(),
    )
