"""Which handler of a probe is asked, and at which port; and what it is when there is none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from kubeledger.kubelet.prober.handlers import Execution
from kubeledger.kubelet.profile.prober import ProberFacts

Handler = Literal["exec", "http", "tcp", "grpc"]

_PORT_MAX: Final = 65535
_INT_MAX: Final = 2**63 - 1
_NUMBER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)


class PortAction(msgspec.Struct, rename="camel", frozen=True):
    """An action with a port: a number, or the name of one of the container's ports."""

    port: int | str = 0


class HTTPHeader(msgspec.Struct, rename="camel", frozen=True):
    """A header of the probe's spec; names may repeat."""

    name: str
    value: str = ""


class HTTPGetAction(PortAction, rename="camel", frozen=True):
    """An HTTP GET; an empty ``host`` is the pod's IP, an empty ``scheme`` see the profile."""

    path: str = ""
    host: str = ""
    scheme: str = ""
    http_headers: tuple[HTTPHeader, ...] | None = None


class TCPSocketAction(PortAction, rename="camel", frozen=True):
    """A TCP connection; an empty ``host`` is the pod's IP."""

    host: str = ""


class GRPCAction(PortAction, rename="camel", frozen=True):
    """A gRPC health check, always of the pod's IP; no ``service`` asks for the whole server."""

    port: int = 0
    service: str | None = None


class ProbeHandler(msgspec.Struct, rename="camel", frozen=True):
    """The handlers of a probe; the API lets exactly one be set."""

    exec: dict[str, object] | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    grpc: GRPCAction | None = None


class ContainerPort(msgspec.Struct, rename="camel", frozen=True):
    """A port of a container, as far as a probe can name it."""

    name: str = ""
    container_port: int = 0


def handler_of(probe: ProbeHandler, facts: ProberFacts) -> Handler | None:
    """The handler that is asked, should there be several: the first in this order.

    Args:
        probe: its handlers.
        facts: of the kubelet version; older ones pass over a gRPC handler.

    Source: v1.36.2 pkg/kubelet/prober/prober.go runProbe
    Differs: no
    """
    if probe.exec is not None:
        return "exec"
    if probe.http_get is not None:
        return "http"
    if probe.tcp_socket is not None:
        return "tcp"
    return "grpc" if probe.grpc is not None and facts.grpc_probes else None


def missing_handler(name: str, namespace: str, uid: str, container: str) -> Execution:
    """What comes of a probe without a handler that this version knows.

    Args:
        name: of the pod.
        namespace: of the pod.
        uid: of the pod.
        container: its name.

    Source: v1.36.2 pkg/kubelet/prober/prober.go runProbe; pkg/kubelet/util/format/pod.go
    Differs: no
    """
    return Execution("error", f"missing probe handler for {name}_{namespace}({uid}):{container}")


def resolve_container_port(
    port: int | str, ports: Sequence[ContainerPort] | None
) -> int | Execution:
    """The number of a port of an HTTP or TCP handler, or what comes of one that has none.

    A name that no port has is read as a number. gRPC ports are not resolved.

    Args:
        port: as the handler gives it.
        ports: of the container, in order.

    Source: v1.36.2 pkg/probe/util.go ResolveContainerPort; v1.20.2
        pkg/kubelet/prober/prober.go extractPort
    Differs: no
    """
    if isinstance(port, str):
        named = next((p.container_port for p in ports or () if p.name == port), None)
        if named is None:
            fault = _fault_of_number(port)
            if fault:
                return Execution("error", f'strconv.Atoi: parsing "{port}": {fault}')
            named = int(port)
        port = named
    return port if 0 < port <= _PORT_MAX else Execution("error", f"invalid port number: {port}")


def _fault_of_number(text: str) -> str:
    if not _NUMBER.fullmatch(text):
        return "invalid syntax"
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > len(str(_INT_MAX)) or not -_INT_MAX - 1 <= int(text) <= _INT_MAX:
        return "value out of range"
    return ""
