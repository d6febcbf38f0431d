"""Cgroups that went: the kubelet and the runtime remove them only behind what ran in them.

That nothing tells of a container's end is no proof that it goes on: the line may be lost, or
come late. So a removal that nothing explains is impossible only where something shows that the
cgroup was there all the time.
"""

from __future__ import annotations

from typing import Final

from kubeledger.cgroups.paths import CgroupPath, parse_cgroup_path
from kubeledger.cgroups.records import CgroupRemoved
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.units import NS_PER_S, format_ts
from kubeledger.verify.belief import Judgement, lacks, same
from kubeledger.verify.bench import Bench
from kubeledger.verify.evidence.podlife import PodHistory
from kubeledger.verify.rules.cgroups.lists import Sightings
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
            self._judge(self._seen.removed.pop(record.ts_ns, [record]), state)
        return self._judged.pop(record.seq)

    def _judge(self, group: list[Record], state: NodeState) -> None:
        gone = {each.body.cgroup for each in group if isinstance(each.body, CgroupRemoved)}
        found: dict[int, Judgement] = {}
        for record in group:
            assert isinstance(record.body, CgroupRemoved)
            where = parse_cgroup_path(record.body.cgroup)
            found[record.seq] = (
                lacks(["a cgroup of the kubelet"])
                if where is None
                else self._explained(record, where)
                or self._unexplained(record, record.body.cgroup, where, gone, state)
            )
        odd = sum(judgement.verdict != "match" for judgement in found.values())
        for seq, judgement in found.items():
            if judgement.verdict == "impossible" and odd >= _MANY:
                judgement = lacks([_NOT_WHOLE])
            self._judged[seq] = judgement

    def _explained(self, record: Record, where: CgroupPath) -> Judgement | None:
        """Why it went; None where nothing tells."""
        own = where.container_id
        pod = self._bench.timeline.pods.get(where.pod_uid or "")
        if where.level in ("node", "qos") or pod is None:
            return None
        if own is not None:
            found = self._ended(record, own, pod) or self._replaced(record, own, pod)
            if found is not None:
                return found
        return self._pod_over(record, pod)

    def _ended(self, record: Record, own: str, pod: PodHistory) -> Judgement | None:
        """The end of a container, of which the log or a list tells."""
        for run in pod.runs:
            died_ns = run.died_ns
            if run.container_id == own and died_ns and died_ns <= record.ts_ns + _LATE_NS:
                why = (
                    f"container {own[:12]} died at {format_ts(died_ns)}, and the runtime removes "
                    "the cgroup of what no longer runs"
                )
                return same(True, why, inputs=(run.died_seq,))
        listed = self._seen.containers.get(own)
        if listed is not None and listed.ended:
            why = f"container {own[:12]} ({listed.name}) had ended, and its cgroup goes"
            return same(True, why)
        return None

    def _replaced(self, record: Record, own: str, pod: PodHistory) -> Judgement | None:
        """A later container of the same name, which comes only behind the end of the one before."""
        runs = {run.container_id: run for run in pod.runs if run.container_id and run.name}
        listed = self._seen.containers.get(own)
        name = runs[own].name if own in runs else listed.name if listed is not None else None
        if name is None:
            return None
        others = {i: each.seen_ns for i, each in self._seen.of_name(pod.uid, name).items()}
        others |= {i: run.started_ns for i, run in runs.items() if i and run.name == name
                   and run.started_ns is not None}  # fmt: skip
        began_ns = others.pop(own, 0)
        for other, started_ns in others.items():
            if began_ns < started_ns <= record.ts_ns + _BY_THEN_NS:
                why = (
                    f"container {other[:12]} came as {name} in the place of {own[:12]}, whose "
                    "cgroup goes"
                )
                return same(True, why)
        return None

    def _pod_over(self, record: Record, pod: PodHistory) -> Judgement | None:
        """The pod's end, if it has come; then all of its cgroups go."""
        by_ns = record.ts_ns + _BY_THEN_NS
        name, over_ns = f"{pod.namespace}/{pod.name}", self._seen.over_ns.get(pod.key)
        if over_ns is not None and over_ns <= by_ns:
            why = f"pod {name} was over by {format_ts(over_ns)}, and its cgroups go with it"
            return same(True, why)
        lives = [life for life in pod.lives if life.since_ns <= by_ns]
        if not lives:
            return None
        life = lives[-1]
        if life.ended_ns is not None and life.ended_ns <= by_ns:
            why = f"pod {name} was over by {format_ts(life.ended_ns)}, and its cgroups go with it"
            return same(True, why, inputs=(life.seq,))
        runs = any(run.died_ns is None or run.died_ns > by_ns for run in pod.ran(by_ns))
        if life.ending_ns is not None and life.ending_ns <= by_ns and not runs:
            why = f"the end of pod {name} had begun and nothing of it ran"
            return same(True, why, inputs=(life.seq,))
        return None

    def _unexplained(
        self, record: Record, cgroup: str, where: CgroupPath, gone: set[str], state: NodeState
    ) -> Judgement:
        ts_ns, own = record.ts_ns, where.container_id
        if where.level in ("node", "qos"):
            if self._bench.coverage.missing(ts_ns, ts_ns + READ_NS) is None:
                why = "the kubelet never removes the cgroups of the node and of the QoS classes"
                return same(False, why)
            return lacks(["the records behind the end of the ledger"])
        if own is not None:
            shown, listed = self._seen.shown.get(cgroup), self._seen.containers.get(own)
            words = seq = None
            if shown is not None and shown[0] > ts_ns:
                words, seq = "a later snapshot shows it again", shown[1]
            elif listed and listed.ran and listed.ran[0] > ts_ns + _LATE_NS:
                words, seq = "a later list shows that it runs", listed.ran[1]
            if words is None or seq is None:
                return lacks([f"the end of container {own[:12]}"])
            why = f"container {own[:12]} had not ended, so its cgroup has to be there: {words}"
            return same(False, why, inputs=(seq,))
        below = sorted(
            path for path in state.cgroups.cgroups if path.startswith(f"{cgroup}/")
            and path not in gone
        )  # fmt: skip
        if below and self._seen.last_ns > ts_ns:
            child = below[0].rpartition("/")[2][:12]
            why = (
                f"the cgroup of its container {child} below it was there before and is there "
                "still: a cgroup goes only behind all that is below it"
            )
            return same(False, why)
        pod = self._bench.timeline.pods.get(where.pod_uid or "")
        if pod is None:
            return lacks(["the life of the pod"])
        return lacks([f"the end of pod {pod.namespace}/{pod.name}"])
