"""Cgroups that went: the kubelet and the runtime remove them only behind what ran in them.

That nothing tells of a container's end is no proof that it goes on: the line may be lost, or
come late. So a removal that nothing explains is impossible only where something shows that the
cgroup was there all the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubeledger.kubelet.cgroups.paths import CgroupPath, parse_cgroup_path
from kubeledger.model.bodies.cgroups import CgroupRemoved
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, lacks, same
from kubeledger.verify.bench import Bench
from kubeledger.verify.evidence.podlife import PodHistory
from kubeledger.verify.rules.cgroups.sightings import Sightings
from kubeledger.verify.rules.cgroups.writes import READ_NS

__all__ = ["Removals"]

_LATE_NS: Final = 60 * NS_PER_S
"""A sync loop that waits for a kill tells so late of what happened meanwhile."""
_BY_THEN_NS: Final = 120 * NS_PER_S
"""By then something explains a removal, or shows that it cannot be."""
_MANY: Final = 3
"""So many cgroups that are gone for no reason: the snapshot was not read as a whole."""
_NOT_WHOLE: Final = "the whole of the cgroup files, for several running cgroups are not there"


class Removals:
    """Judges removals by what the whole ledger tells."""

    def __init__(self, bench: Bench, seen: Sightings) -> None:
        self._bench = bench
        self._seen = seen
        self._judged: dict[int, Judgement] = {}

    def removed(self, record: Record, state: NodeState) -> Judgement:
        """Why a cgroup went, with the others that the snapshot shows no more."""
        if record.seq not in self._judged:
            group = self._seen.removed.pop(record.ts_ns, [record])
            gone = {each.body.cgroup for each in group if isinstance(each.body, CgroupRemoved)}
            found = {each.seq: self._judge(each, gone, state) for each in group}
            odd = sum(judgement.verdict != "match" for judgement in found.values())
            for seq, judgement in found.items():
                many = odd >= _MANY and judgement.verdict == "impossible"
                self._judged[seq] = lacks([_NOT_WHOLE]) if many else judgement
        return self._judged.pop(record.seq)

    def _judge(self, record: Record, gone: set[str], state: NodeState) -> Judgement:
        body = record.body
        assert isinstance(body, CgroupRemoved)
        where, ts_ns = parse_cgroup_path(body.cgroup), record.ts_ns
        if where is None:
            return lacks(["a cgroup of the kubelet"])
        if where.level in ("node", "qos"):
            if self._bench.coverage.missing(ts_ns, ts_ns + READ_NS) is None:
                why = "the kubelet never removes the cgroups of the node and of the QoS classes"
                return same(False, why)
            return lacks(["the records behind the end of the ledger"])
        pod = self._bench.timeline.pods.get(where.pod_uid or "")
        for at_ns, sign, seq in (
            () if pod is None else self._ends(where.container_id or "", pod, ts_ns)
        ):
            if at_ns <= ts_ns + _BY_THEN_NS:
                return same(True, f"{sign} by {format_ts(at_ns)}, and then the cgroup goes",
                            inputs=(seq,) if seq else ())  # fmt: skip
        if where.container_id is not None:
            return self._still_there(record, body.cgroup, where)
        below = sorted(path for path in state.cgroups.cgroups if path.startswith(f"{body.cgroup}/")
                       and path not in gone)  # fmt: skip
        if below and self._seen.last_ns > ts_ns:
            child = below[0].rpartition("/")[2][:12]
            why = (
                f"the cgroup of its container {child} below it was there before and is there "
                "still: a cgroup goes only behind all that is below it"
            )
            return same(False, why)
        end = f"the end of pod {pod.namespace}/{pod.name}" if pod else "the life of the pod"
        return lacks([end])

    def _ends(self, own: str, pod: PodHistory, ts_ns: int) -> Iterator[tuple[int, str, int]]:
        """Signs that a container, or its pod, had ended: when, what, and the record or 0."""
        shown = self._seen.containers.get(pod.uid, {})
        began = {of: (listed.name, listed.seen_ns) for of, listed in shown.items()}
        for run in pod.runs if own else ():
            if run.container_id == own and run.died_ns is not None:
                yield run.died_ns, f"container {own[:12]} died", run.died_seq
            if run.container_id and run.name and run.started_ns is not None:
                began[run.container_id] = (run.name, run.started_ns)
        if own in shown and shown[own].ended:
            yield shown[own].seen_ns, f"a list shows that container {own[:12]} ended", 0
        name, began_ns = began.get(own, ("", 0))
        for other, (others, since_ns) in began.items() if name else ():
            if others == name and began_ns < since_ns:
                yield since_ns, f"container {other[:12]} came in its place, as {name},", 0
        who = f"pod {pod.namespace}/{pod.name}"
        if pod.key in self._seen.over_ns:
            yield self._seen.over_ns[pod.key], f"{who} was over", 0
        lives = [life for life in pod.lives if life.since_ns <= ts_ns + _BY_THEN_NS]
        for life in lives[-1:]:
            if life.ended_ns is not None:
                yield life.ended_ns, f"{who} was over", life.seq
            if life.ending_ns is not None and not pod.ran(ts_ns + _BY_THEN_NS):
                yield life.ending_ns, f"the end of {who} had begun and nothing of it ran", life.seq

    def _still_there(self, record: Record, cgroup: str, where: CgroupPath) -> Judgement:
        """Of a container of whose end nothing tells."""
        own, ts_ns = where.container_id or "", record.ts_ns
        shown = self._seen.shown.get(cgroup, (0, 0))
        listed = self._seen.containers.get(where.pod_uid, {}).get(own)
        if shown[0] > ts_ns:
            words, seq = "a later snapshot shows it again", shown[1]
        elif listed is not None and listed.ran[0] > ts_ns + _LATE_NS:
            words, seq = "a later list shows that it runs", listed.ran[1]
        else:
            return lacks([f"the end of container {own[:12]}"])
        why = f"container {own[:12]} had not ended, so its cgroup has to be there: {words}"
        return same(False, why, inputs=(seq,))
