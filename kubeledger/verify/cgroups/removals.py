"""Cgroups that went: the kubelet and the runtime remove them only behind what ran in them.

That nothing tells of a container's end is no proof that it goes on: the line may be lost, or
come late. So a removal that nothing explains waits, and is impossible only where something
shows that the cgroup was there all the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

from kubeledger.cgroups.paths import CgroupPath, parse_cgroup_path
from kubeledger.cgroups.records import CgroupRemoved, CgroupUpdated
from kubeledger.lifecycle.records import PodListed
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.units import NS_PER_S, format_ts
from kubeledger.verify.bench import Bench
from kubeledger.verify.cgroups.life import Life
from kubeledger.verify.cgroups.lives import Lives
from kubeledger.verify.finding import Verdict

__all__ = ["Removal", "Removals"]

_RULE: Final = "pkg/kubelet/kubelet_pods.go cleanupOrphanedPodCgroups"
_OVER_MAX: Final = 4096
"""So many containers that died are remembered where the log tells of starts late."""
_WAIT_NS: Final = 120 * NS_PER_S
"""So long a removal waits for what explains it or shows that it cannot be."""
_LATE_NS: Final = 60 * NS_PER_S
"""A sync loop that waits for a kill tells so late of what happened meanwhile."""
_MANY: Final = 3
"""So many cgroups that are gone for no reason: the snapshot was not read as a whole."""
_NOT_WHOLE: Final = "the whole of the cgroup files, for several running cgroups are not there"

Told = Callable[[int, int], bool]
"""Whether the log tells of a span, and goes on behind it."""


class Removal(msgspec.Struct, frozen=True):
    """What is found about one."""

    verdict: Verdict
    why: str = ""
    missing: tuple[str, ...] = ()
    inputs: tuple[int, ...] = ()


class _Shown(msgspec.Struct):
    """A container whose cgroup the last snapshot showed: since when, whose, and its death."""

    since: int
    uid: str | None
    name: str | None
    died: tuple[int, int] | None = None


class _Waiting(msgspec.Struct):
    """A removal that nothing explains yet.

    Attributes:
        shown: what was known of its container; None for other cgroups.
        proof: words and a record that show that it was there all the time.
    """

    record: Record
    where: CgroupPath
    shown: _Shown | None
    proof: tuple[str, int] | None = None


class _Group(msgspec.Struct):
    """What waits of one snapshot."""

    ts_ns: int
    read_ns: int
    waiting: list[_Waiting]


class Removals:
    """Judges removals, one snapshot after the other.

    Attributes:
        over: the containers that died last: none of them ever runs again.
    """

    def __init__(self, bench: Bench, lives: Lives, told: Told) -> None:
        self._bench = bench
        self._lives = lives
        self._told = told
        self._shown: dict[str, _Shown] = {}
        self._last_ns = 0
        self._groups: deque[_Group] = deque()
        self.over: dict[str, None] = {}

    # What is told -----------------------------------------------------------------------

    def shown(self, record: Record, body: CgroupUpdated) -> None:
        """A snapshot shows a cgroup."""
        self._again(record, body.cgroup)
        self._last_ns = max(self._last_ns, record.ts_ns)
        if body.container_id and body.container_id not in self._shown:
            self._shown[body.container_id] = _Shown(record.ts_ns, body.pod_uid, body.container)

    def ended(self, container_id: str, seq: int, ts_ns: int) -> None:
        """A container died."""
        self.over[container_id] = None
        if len(self.over) > _OVER_MAX:
            del self.over[next(iter(self.over))]
        if (shown := self._shown.get(container_id)) is not None:
            shown.died = (seq, ts_ns)
        for group in self._groups:
            for each in group.waiting:
                late = ts_ns <= group.ts_ns + _LATE_NS
                if late and each.where.container_id == container_id and each.shown is not None:
                    each.shown.died = (seq, ts_ns)

    def listed(self, record: Record, body: PodListed) -> None:
        """A list may show that what is said to have gone runs long after."""
        if body.listed_by != "kubelet" or not self._groups:
            return
        for group in self._groups:
            for each in group.waiting if record.ts_ns > group.ts_ns + _LATE_NS else ():
                own = each.where.container_id
                if own is not None and each.where.pod_uid == body.pod_uid and _runs(body, own):
                    each.proof = ("a later list shows that it runs", record.seq)

    def _again(self, record: Record, cgroup: str) -> None:
        """A container's cgroup that is there later was there before: no ID comes twice."""
        for group in self._groups:
            for each in group.waiting if record.ts_ns > group.ts_ns else ():
                body = each.record.body
                assert isinstance(body, CgroupRemoved)
                if each.where.container_id is not None and body.cgroup == cgroup:
                    each.proof = ("a later snapshot shows it again", record.seq)

    # Findings ---------------------------------------------------------------------------

    def find(self, ts_ns: int, read_ns: int, removed: list[Record], state: NodeState) -> None:
        """Judge what one snapshot no longer shows.

        Args:
            ts_ns: when its reading began.
            read_ns: when it was over.
            removed: the records.
            state: of the node shortly behind it.
        """
        self._last_ns = max(self._last_ns, ts_ns)
        group = _Group(ts_ns, read_ns, [])
        for record in removed:
            body = record.body
            assert isinstance(body, CgroupRemoved)
            self._again(record, body.cgroup)
            where = parse_cgroup_path(body.cgroup)
            if where is None:
                self._say(record, Removal("unverifiable", missing=("a cgroup of the kubelet",)))
                continue
            own = where.container_id
            each = _Waiting(record, where, self._shown.pop(own, None) if own else None)
            found = self._explained(each, state)
            if found is None:
                group.waiting.append(each)
            else:
                self._say(record, found)
        if group.waiting:
            self._groups.append(group)

    def in_time(self, ts_ns: int, state: NodeState) -> None:
        """Judge what has waited long enough."""
        while self._groups and self._groups[0].ts_ns + _WAIT_NS < ts_ns:
            self._judge(self._groups.popleft(), state)

    def settle(self, state: NodeState) -> None:
        """The ledger ended."""
        while self._groups:
            self._judge(self._groups.popleft(), state)

    def _judge(self, group: _Group, state: NodeState) -> None:
        judged = [
            (each.record, self._explained(each, state) or self._unexplained(each, group))
            for each in group.waiting
        ]
        odd = sum(removal.verdict != "match" for _, removal in judged)
        for record, removal in judged:
            if removal.verdict == "impossible" and odd >= _MANY:
                removal = Removal("unverifiable", missing=(_NOT_WHOLE,))
            self._say(record, removal)

    def _explained(self, each: _Waiting, state: NodeState) -> Removal | None:
        """Why the cgroup went; None while nothing tells."""
        where = each.where
        if where.level in ("node", "qos"):
            return None
        own, shown = where.container_id, each.shown
        if shown is not None and shown.died is not None:
            seq, ts_ns = shown.died
            return Removal(
                "match",
                f"container {(own or '')[:12]} died at {format_ts(ts_ns)}, and the runtime removes "
                "the cgroup of what no longer runs",
                inputs=(seq,),
            )
        life = self._lives.current.get(where.pod_uid or "")
        if (over := _pod_over(where, life, state)) is not None or own is None:
            return over
        return _replaced(own, shown, where.pod_uid, state)

    def _unexplained(self, each: _Waiting, group: _Group) -> Removal:
        where, own = each.where, each.where.container_id
        if where.level in ("node", "qos"):
            if self._told(group.ts_ns, group.read_ns):
                return Removal(
                    "impossible",
                    "the kubelet never removes the cgroups of the node and of the QoS classes",
                )
            return Removal("unverifiable", missing=("the records behind the end of the ledger",))
        if own is not None:
            if each.proof is None:
                return Removal("unverifiable", missing=(f"the end of container {own[:12]}",))
            words, seq = each.proof
            why = f"container {own[:12]} had not ended, so its cgroup has to be there: {words}"
            return Removal("impossible", why, inputs=(seq,))
        below = sorted(
            i for i, s in self._shown.items() if s.uid == where.pod_uid and s.since < group.ts_ns
        )
        if below and self._last_ns > group.ts_ns:
            return Removal(
                "impossible",
                f"the cgroup of its container {below[0][:12]} below it was there before and is "
                "there still: a cgroup goes only behind all that is below it",
            )
        life = self._lives.current.get(where.pod_uid or "")
        if life is None:
            return Removal("unverifiable", missing=("the life of the pod",))
        return Removal("unverifiable", missing=(f"the end of pod {life.namespace}/{life.name}",))

    def _say(self, record: Record, removal: Removal) -> None:
        body = record.body
        assert isinstance(body, CgroupRemoved)
        subject = f"cgroup/{body.cgroup}"
        if removal.verdict == "unverifiable":
            self._bench.unverifiable(record, subject=subject, missing=removal.missing, rule=_RULE)
            return
        self._bench.find(
            record,
            removal.verdict,
            subject=subject,
            why=removal.why,
            expected={"cgroup": body.cgroup} if removal.verdict == "match" else None,
            recorded={"cgroup": body.cgroup},
            rule=_RULE,
            inputs=removal.inputs,
        )


def _pod_over(where: CgroupPath, life: Life | None, state: NodeState) -> Removal | None:
    """The pod's end, if it has come; then all of its cgroups go."""
    key = where.pod_uid or ""
    pod = state.lifecycle.pods.get(key)
    if life is not None and life.ended is not None:
        return Removal(
            "match",
            f"pod {life.namespace}/{life.name} was over by {format_ts(life.ended)}, and its "
            "cgroups go with it",
            inputs=(life.seq,),
        )
    if pod is not None and pod.ended:
        return Removal("match", f"pod {pod.namespace}/{pod.name} was over, and its cgroups go")
    if pod is None and (key in state.lifecycle.gone):
        return Removal("match", f"pod {key} is no longer on the node, and its cgroups go with it")
    if life is not None and life.ending is not None and not life.running:
        return Removal(
            "match",
            f"the end of pod {life.namespace}/{life.name} had begun and nothing of it ran",
            inputs=(life.seq,),
        )
    return None


def _replaced(
    container_id: str, shown: _Shown | None, uid: str | None, state: NodeState
) -> Removal | None:
    """What runs in its place, or the end that a list shows where no line told of it."""
    pod = state.lifecycle.pods.get(uid or "")
    if pod is None:
        return None
    short = container_id[:12]
    for name, container in pod.containers.items():
        if container.container_id == container_id and not container.running:
            return Removal("match", f"container {short} ({name}) had ended, and its cgroup goes")
        other = container.container_id
        if shown is not None and shown.name == name and other not in (None, container_id):
            return Removal(
                "match",
                f"container {(other or '')[:12]} came as {name} in the place of {short}, whose "
                "cgroup goes",
            )
    return None


def _runs(body: PodListed, container_id: str) -> bool:
    """Whether a pod's status says that a container runs."""
    status: Any = body.status or {}
    for kind in ("containerStatuses", "initContainerStatuses"):
        for entry in status.get(kind) or ():
            if isinstance(entry, dict) and isinstance(entry.get("state"), dict):
                whose = str(entry.get("containerID") or "").rpartition("/")[2]
                if whose == container_id and entry["state"].get("running") is not None:
                    return True
    return False
