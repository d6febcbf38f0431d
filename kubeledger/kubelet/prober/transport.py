"""Texts of Go's network library, which the kubelet passes on as a probe's output.

They were compared with net/http of Go 1.19, 1.21 and 1.25 against the servers of
``tests/probe``; kubelets before 1.25 were built with older ones.
"""

from __future__ import annotations

import errno
from typing import Final

from kubeledger.kubelet.kube.gotexts import quoted

DEADLINE: Final = "context deadline exceeded"
IO_TIMEOUT: Final = "i/o timeout"
AWAITING_HEADERS: Final = " (Client.Timeout exceeded while awaiting headers)"
READING_BODY: Final = " (Client.Timeout or context cancellation while reading body)"
BROKEN: Final = "net/http: HTTP/1.x transport connection broken: "

_ERRNO_TEXTS: Final = {
    errno.EACCES: "permission denied",
    errno.EADDRNOTAVAIL: "cannot assign requested address",
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection reset by peer",
    errno.EHOSTUNREACH: "no route to host",
    errno.EINVAL: "invalid argument",
    errno.ENETUNREACH: "network is unreachable",
    errno.EPERM: "operation not permitted",
    errno.EPIPE: "broken pipe",
    errno.ETIMEDOUT: "connection timed out",
}
_ALERTS: Final = {
    0: "close notify",
    10: "unexpected message",
    20: "bad record MAC",
    40: "handshake failure",
    42: "bad certificate",
    47: "illegal parameter",
    48: "unknown certificate authority",
    50: "error decoding message",
    70: "protocol version not supported",
    71: "insufficient security level",
    80: "internal error",
    112: "unrecognized name",
    116: "certificate required",
    120: "no application protocol",
}


def get_failed(url: object, text: str) -> str:
    """The error of an HTTP GET: ``Get "http://10.0.0.7:80/": EOF``."""
    return f"Get {quoted(str(url))}: {text}"


def dial_failed(address: str, code: int) -> str:
    """The error of a connection that failed with an errno of Linux."""
    return f"dial tcp {address}: connect: {_errno_text(code)}"


def lookup_failed(name: str, server: str, text: str) -> str:
    """The error of a name that does not resolve; ``server`` is empty where none was asked."""
    where = f" on {server}" if server else ""
    return f"dial tcp: lookup {name}{where}: {text}"


def read_failed(local: str, remote: str, code: int) -> str:
    """The error of a read from a connection."""
    return f"read tcp {local}->{remote}: read: {_errno_text(code)}"


def alert_text(code: int) -> str:
    """The error of a TLS alert that the server sent."""
    return f"remote error: tls: {_ALERTS.get(code, f'alert({code})')}"


def _errno_text(code: int) -> str:
    return _ERRNO_TEXTS.get(code) or f"errno {code}"
