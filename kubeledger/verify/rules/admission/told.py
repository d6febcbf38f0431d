"""What lists and managers tell of refusals, and of the node's name; filled in a first reading."""

from __future__ import annotations

from collections import Counter
from typing import Final

from kubeledger.kubelet.kube.keys import pod_key
from kubeledger.model.bodies.devicemanager import AllocationFailed
from kubeledger.model.bodies.lifecycle import PodListed, PodRejected
from kubeledger.model.bodies.topologymanager import AffinityDecided
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.evidence.timeline import Timeline
from kubeledger.verify.rules.admission.adds import PodAdd

__all__ = ["ALLOCATION", "UNEXPECTED", "Told", "compare_refusal", "refusal_of"]

UNEXPECTED: Final = "UnexpectedAdmissionError"
ALLOCATION: Final = "Allocate failed due to "
"""How the message of a resource manager that has nothing to give begins."""
_NO_HINTS: Final = "Unable to generate topology hints"
_TOPOLOGY: Final = "TopologyAffinityError", "Resources cannot be allocated with Topology locality"
_WHOLE_SECONDS_NS: Final = 2 * NS_PER_S
"""The time of a list may be one of whole seconds; a line may tell of a refusal and its cause."""
_STATUS_PREFIXES: Final = ("Pod was rejected: ", "Pod ", "")


class Told:
    """It grows with pods, not with records."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._rejections: dict[str, list[tuple[int, int, str, str]]] = {}
        self._by_managers: dict[str, list[Record]] = {}
        self._bound: dict[str, str] = {}
        self._node: tuple[str | None] | None = None

    def pod_listed(self, record: Record) -> None:
        """Take in an entry of a list."""
        body = record.body
        assert isinstance(body, PodListed)
        key = pod_key(body.pod_uid, body.namespace, body.pod)
        if body.gone or body.listed_by == "manifest" or key is None:
            return
        node = (body.spec or {}).get("nodeName")
        if isinstance(node, str) and node:
            self._bound[key] = node
        status = body.status or {}
        reason, message = status.get("reason"), status.get("message")
        # A passed deadline of the pod stands in place of a refusal.
        if status.get("phase") != "Failed" or reason == "DeadlineExceeded":
            return
        if isinstance(reason, str) and isinstance(message, str):
            shown = self._rejections.setdefault(key, [])
            if not shown or shown[-1][2:] != (reason, message):
                shown.append((record.ts_ns, record.seq, reason, message))

    def manager_said(self, record: Record) -> None:
        """Take in what a manager decided that is asked before the predicates."""
        body = record.body
        assert isinstance(body, AffinityDecided | AllocationFailed)
        if refusal_of(body) is not None:
            key = pod_key(body.pod_uid, body.namespace, body.pod) or ""
            self._by_managers.setdefault(key, []).append(record)

    def by_managers(self, add: PodAdd) -> list[tuple[int, str, str]]:
        """Seq, reason and message of what managers refused; what refused the pod comes last.

        A status or an event may be of the kubelet process before.
        """
        decided_ns = add.life.decided_ns
        found = []
        for key in dict.fromkeys((add.uid or "", add.full_name)):
            for record in self._by_managers.get(key, ()):
                body = record.body
                assert isinstance(body, AffinityDecided | AllocationFailed)
                by_then = decided_ns is None or record.ts_ns <= decided_ns + _WHOLE_SECONDS_NS
                in_log = isinstance(body, AffinityDecided) or body.told_by == "log"
                said = refusal_of(body)
                is_of_it = record.ts_ns >= add.ts_ns and by_then
                if said is not None and is_of_it and (in_log or not add.life.admitted):
                    found.append((record.seq, *said))
        return found

    def rejection(self, add: PodAdd, from_ns: int) -> tuple[int, str, str] | None:
        """Record, reason and message of the list that shows a refusal from a time on.

        A static pod may be refused once a process: only what its own stay shows counts.
        """
        until_ns = add.life.removed_ns
        for ts_ns, seq, reason, message in self._rejections.get(add.life.key, ()):
            if ts_ns >= from_ns - _WHOLE_SECONDS_NS and (until_ns is None or ts_ns < until_ns):
                return seq, reason, message
        return None

    def node(self) -> str | None:
        """The node that most admitted pods are bound to; None when that is not clear."""
        if self._node is None:
            pods = self._timeline.pods.items()
            admitted = (key for key, pod in pods if any(each.admitted for each in pod.lives))
            named = Counter(self._bound[key] for key in admitted if key in self._bound)
            most = named.most_common(1)
            clear = [name for name, count in most if count > 1 and 2 * count > named.total()]
            self._node = (clear[0] if clear else None,)
        return self._node[0]


def refusal_of(body: AffinityDecided | AllocationFailed) -> tuple[str, str] | None:
    """Reason and message of the pod that a manager refuses; None where it lets it in."""
    if isinstance(body, AffinityDecided):
        return _TOPOLOGY if body.admit is False else None
    if body.error.startswith(_NO_HINTS):
        return _TOPOLOGY
    return UNEXPECTED, f"{ALLOCATION}{body.error}, which is unexpected"


def compare_refusal(
    bench: Bench, record: Record, body: PodRejected, shown: tuple[int, str, str] | None
) -> None:
    """The pod's status says the same as the refusal.

    ``shown`` is the record of a list, and reason and message of the status in it.
    """
    if shown is None:
        return
    seq, reason, message = shown
    bare = {message.removeprefix(prefix).rstrip() for prefix in _STATUS_PREFIXES}
    if reason != body.reason or body.message.rstrip() not in bare:
        bench.contradict(
            record.ts_ns,
            f"pod/{body.namespace}/{body.pod}",
            "the pod's status and the log tell different things about its refusal",
            (record.seq, f"{body.reason}: {body.message}"),
            (seq, f"{reason}: {message}"),
        )
