"""What a pod's spec says of devices: limits, and which containers hand theirs on."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kubeledger.kubelet.kube.pod import SIDECAR, Container, Pod
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.verify.evidence.pods import ListedPod

__all__ = ["Asker", "PodAsks", "asks_of"]


class Asker(NamedTuple):
    """One container of a pod.

    Attributes:
        limits: resource -> count, rounded up; only names with a domain, as devices have.
        is_init: it is an init container; ``is_restartable``: one that keeps running.
    """

    name: str
    limits: dict[str, int]
    is_init: bool
    is_restartable: bool


class PodAsks(NamedTuple):
    """A pod's containers, in the order in which they get devices: init containers first.

    Attributes:
        seq: record of the spec.
    """

    seq: int
    askers: tuple[Asker, ...]

    def of(self, container: str) -> Asker | None:
        """The container of this name."""
        return next((asker for asker in self.askers if asker.name == container), None)

    def asking(self, resource: str) -> list[str]:
        """Names of the containers with a limit on a resource."""
        return [asker.name for asker in self.askers if asker.limits.get(resource)]


def asks_of(listed: ListedPod | None) -> PodAsks | None:
    """What a pod asks for; None when no list shows it, or the spec cannot be read."""
    if listed is None:
        return None
    try:
        spec = listed.as_(Pod).spec
        init = [_asker(container, is_init=True) for container in spec.init_containers or ()]
        app = [_asker(container, is_init=False) for container in spec.containers or ()]
    except (msgspec.ValidationError, ValueError):
        return None
    return PodAsks(listed.seq, (*init, *app))


def _asker(container: Container, *, is_init: bool) -> Asker:
    limits = (container.resources.limits if container.resources else None) or {}
    counts = {
        name: Quantity.from_api(amount).value()
        for name, amount in sorted(limits.items())
        if "/" in name
    }
    is_sidecar = is_init and container.restart_policy == SIDECAR
    return Asker(container.name or "", counts, is_init, is_sidecar)
