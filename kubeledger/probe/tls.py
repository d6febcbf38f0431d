"""TLS over a connection, as a probe has it: no certificate is asked whose it is."""

from __future__ import annotations

import ssl
import time

from kubeledger.kubelet.prober.transport import alert_text
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.probe.attempt import TransportError
from kubeledger.probe.dial import READ_BYTES, Connection

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
