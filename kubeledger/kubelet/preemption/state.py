"""Preemptions whose victims are still on the node, and how many there were."""

from __future__ import annotations

import msgspec

from kubeledger.model.bodies.preemption import InsufficientResource


class VictimState(msgspec.Struct, kw_only=True):
    """A pod that was preempted and is not gone yet.

    Attributes:
        preemptor: ``namespace/name``; None when not known.
        preemptor_uid: None when not known.
        insufficient: (n,) what was missing.
        evicted: the kill succeeded; None when not known.
        awaiting: its containers are not yet known to be down.
    """

    namespace: str
    pod: str
    preemptor: str | None
    preemptor_uid: str | None
    insufficient: tuple[InsufficientResource, ...]
    evicted: bool | None
    awaiting: bool
    since_ts_ns: int


class PreemptionFailureState(msgspec.Struct, kw_only=True):
    """The last critical pod for which no victims were found."""

    ts_ns: int
    preemptor: str
    preemptor_uid: str | None
    insufficient: tuple[InsufficientResource, ...]
    error: str


class PreemptionState(msgspec.Struct, kw_only=True):
    """Preemptions so far.

    Attributes:
        victims: pod key -> victim that is still on the node.
        preempted, failed: decisions so far.
    """

    victims: dict[str, VictimState] = {}
    last_failure: PreemptionFailureState | None = None
    preempted: int = 0
    failed: int = 0
