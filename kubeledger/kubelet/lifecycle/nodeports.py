"""Are the host ports that the pod wants free? (scheduler plugin NodePorts)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kubeledger.kubelet.kube.pod import Pod, PodSpec, is_sidecar

_EVERY_IP: Final = "0.0.0.0"  # compared with, never bound to
_TCP: Final = "TCP"

HostPort = tuple[str, str, int]
"""Host IP, protocol, port."""


def ports_are_free(spec: PodSpec, pods: Sequence[Pod], *, sidecars: bool) -> bool:
    """Whether no pod on the node has a host port that this pod wants.

    The same port and protocol collide on the same IP, and on any IP if one side wants all.

    Args:
        spec: the pod to admit; its own ports do not collide with each other.
        pods: (n,) pods on the node.
        sidecars: whether ports of sidecars count; those of init containers never do.

    Source: v1.36.2 pkg/scheduler/framework/plugins/nodeports/node_ports.go Fits
    Differs: no.
    """
    wanted = set(_host_ports(spec, sidecars=sidecars))
    if not wanted:
        return True
    used = {port for pod in pods for port in _host_ports(pod.spec, sidecars=sidecars)}
    return not any(_collides(port, used) for port in wanted)


def _collides(wanted: HostPort, used: Iterable[HostPort]) -> bool:
    ip, protocol, port = wanted
    return any(
        protocol == other_protocol
        and port == other_port
        and (ip == other_ip or _EVERY_IP in (ip, other_ip))
        for other_ip, other_protocol, other_port in used
    )


def _host_ports(spec: PodSpec, *, sidecars: bool) -> Iterator[HostPort]:
    containers = list(spec.containers or ())
    if sidecars:
        containers += filter(is_sidecar, spec.init_containers or ())
    for container in containers:
        for port in container.ports or ():
            if port.host_port is not None and port.host_port > 0:
                yield port.host_ip or _EVERY_IP, port.protocol or _TCP, port.host_port
