"""Observations of what is allocated to pods, and of what their containers got of it."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from kubeledger.model.record import Observation

__all__ = ["PodsStateRead"]

Amounts = dict[str, str]
"""Resource -> quantity."""


class ResourceAmounts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Requests and limits; None where the file holds none."""

    requests: Amounts | None = None
    limits: Amounts | None = None


class PodResources(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a pod has: by container, and as a whole where the version resizes that."""

    containers: dict[str, ResourceAmounts]
    pod_level: ResourceAmounts | None = None


class PodsStateRead(Observation, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``allocated_pods_state`` or ``actuated_pods_state`` as it was, recorded when it changed.

    Attributes:
        which: ``allocated``: what the kubelet gave to pods; ``actuated``: what the runtime was
            last told. Up to 1.32 there is only the first, ``pod_status_manager_state``.
        pods: pod UID -> what it has.
        checksum: as stored; ``checksum_ok`` says whether it fits the data, None when the
            form of the file is one whose checksum cannot be computed.
    """

    kind: ClassVar[str] = "allocation.PodsStateRead"
    which: Literal["allocated", "actuated"]
    pods: dict[str, PodResources]
    checksum: int
    checksum_ok: bool | None
