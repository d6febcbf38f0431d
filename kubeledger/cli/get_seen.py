"""What ``get pods`` takes from a node's records beside its state: since when, and what waits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import msgspec

from kubeledger.kubelet.kube.statuses import objects_of
from kubeledger.kubelet.lifecycle.printing import CREATING
from kubeledger.kubelet.lifecycle.stages import OF_CONTAINER, failure_of_waiting, order_of
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.record import Record
from kubeledger.replay.episodes.pod_stages import KINDS, PodStages, StageEpisode
from kubeledger.replay.node.state import NodeState

Records = Callable[[Collection[str]], Iterator[Record]]
"""Records of some kinds, up to the time that is asked about."""

_KINDS = frozenset(kind for kind in KINDS if not kind.startswith("prober."))
"""Probes put no container into a state of waiting, and are most of all records."""


class SeenPod(msgspec.Struct):
    """What records say of a pod.

    Attributes:
        since_ts_ns: its creation, or the first record about it.
        waiting: container -> reason for which it cannot be started, see ``print_pod``.
        sidecars: init containers that run beside the others.
    """

    since_ts_ns: int
    waiting: dict[str | None, str] = {}
    sidecars: set[str] = msgspec.field(default_factory=set)


def seen_of(state: NodeState, records: Records) -> dict[str, SeenPod]:
    """Key of each of the state's pods -> what its records say.

    A pod that a kubelet did not speak of leaves the state, and comes back when the next one does:
    its age goes on.
    """
    seen = {key: SeenPod(pod.since_ts_ns) for key, pod in state.lifecycle.pods.items()}
    stages = PodStages()
    for record in records(_KINDS):
        stages.take(record)
        body: Any = record.body
        about = seen.get(body.pod_uid or f"{body.namespace}/{body.pod}")
        if about is None:
            continue
        about.since_ts_ns = min(about.since_ts_ns, record.ts_ns)
        if isinstance(body, PodListed):
            about.since_ts_ns = min(about.since_ts_ns, body.created_ts_ns or record.ts_ns)
            about.sidecars |= _sidecars((body.spec or {}).get("initContainers"))
    _add_waiting(seen, stages.episodes())
    return seen


def _sidecars(init_containers: object) -> set[str]:
    return {
        str(each.get("name"))
        for each in objects_of(init_containers)
        if each.get("restartPolicy") == "Always"
    }


def _add_waiting(seen: dict[str, SeenPod], episodes: Iterable[StageEpisode]) -> None:
    for each in sorted(episodes, key=lambda each: each.last_ts_ns):
        about = seen.get(each.pod_uid or "") or seen.get(f"{each.namespace}/{each.pod}")
        if about is None or not each.is_open:
            continue
        if failure_of_waiting(each.reason, "") is not None:
            about.waiting[each.container] = each.reason
        elif each.stage not in OF_CONTAINER and order_of(each.stage) < order_of("image"):
            about.waiting.setdefault(None, CREATING)
