"""Observations and decisions of the topology manager (pkg/kubelet/cm/topologymanager)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from kubeledger.model.record import Decision, Observation

__all__ = ["AffinityDecided", "Hint", "HintsGenerated"]


class Hint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A TopologyHint.

    Attributes:
        numa_nodes: sorted NUMA nodes; None means any.
    """

    numa_nodes: tuple[int, ...] | None
    preferred: bool


class HintsGenerated(Observation, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the hint providers offered for a container (or a pod, in pod scope).

    Attributes:
        container: None in pod scope.
        hints: resource -> hints in the order generated; None = no preference,
            empty = no possible affinity.
    """

    kind: ClassVar[str] = "topologymanager.HintsGenerated"
    namespace: str | None
    pod: str | None
    pod_uid: str | None
    container: str | None
    hints: dict[str, tuple[Hint, ...] | None]


class AffinityDecided(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The merged hint the topology manager settled on.

    Attributes:
        container: None in pod scope.
        admit: None when the source does not say.
        disputed: another hint, that a further line about the same decision holds; None when
            all lines agree.
    """

    kind: ClassVar[str] = "topologymanager.AffinityDecided"
    namespace: str | None
    pod: str | None
    pod_uid: str | None
    container: str | None
    hint: Hint
    policy: str | None = None
    admit: bool | None = None
    disputed: Hint | None = None
