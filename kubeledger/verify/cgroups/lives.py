"""When the kubelet counts a pod as active, as far as the records tell.

A pod is active from the moment its config source brings it, before it is admitted, until it
has a final phase or all of it is down and it is being deleted. No line tells either moment
exactly, so each life has two spans in which the pod may or may not have counted::

    since .. sure        brought, but perhaps the kubelet had not come to it yet
    sure  .. ending      active
    ending .. ended      its end has begun, and may have been taken down already
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import Final

from kubeledger.kube.keys import pod_key
from kubeledger.lifecycle.presence import key_of
from kubeledger.lifecycle.records import (
    ContainerDied,
    ContainerKilled,
    ContainerStarted,
    PodAdmitted,
    PodConfigChanged,
    PodEvicted,
    PodListed,
    PodRejected,
    PodTerminated,
    ReasonReported,
)
from kubeledger.lifecycle.reducer import AboutPod
from kubeledger.lifecycle.state import TERMINAL_PHASES
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.preemption.records import PodPreempted
from kubeledger.units import NS_PER_S
from kubeledger.verify.cgroups.requests import Requests

__all__ = ["Life", "Lives"]

SETTLING_NS: Final = 30 * NS_PER_S
"""After this long the kubelet has come to every pod that a config source brought."""
_LATE_NS: Final = NS_PER_S
"""The kubelet acts on an end within this time of the line that tells of it."""
WARMING_NS: Final = 62 * NS_PER_S
"""After this long what a log that began late did not tell is past."""
_RUNNING_MAX: Final = 256
"""So many containers of one pod are remembered where the log tells of no deaths."""
_KILLED_NS: Final = 10 * NS_PER_S
"""So long after the last sign of an end the QoS level is written for it."""
_SLOW_NS: Final = 60 * NS_PER_S
"""The same where nothing tells yet that its containers have ended."""
_POD_ENDS: Final = frozenset({"preempted", "pod_deleted", "evicted"})
"""Reasons of kills that end the pod."""
_ENDS: Final = frozenset({"Preempting", "Preempted", "Evicted"})
"""Reasons of events that do."""
_STRAY_NS: Final = 3600 * NS_PER_S
KEPT_NS: Final = 150 * NS_PER_S
"""How long an ended life is remembered."""


class Life:
    """One stay of a pod in one kubelet process; times in nanoseconds, None while unknown.

    Attributes:
        seq: record that showed it first.
        since, sure, ending, ended: see the module.
        written: writes of the QoS level that its first sync accounts for.
        running: ID of each container that runs, the sandbox's included -> name, if known.
        signed: the last sign of its end.
        rejected: the kubelet refused it, so there is nothing to take down.
        killed: its end was the kubelet's own doing, or asked for from outside.
        returned: it had ended in a former process, and it is not known whether it counts again.
        told: when it was first told of; it may have come before where no line told of that.
        vague: only lines tell of it that do not say when it came, and may come late.
        synced: its first sync was over by then, for a container of it had started.
        until: so long its containers may take to end, by the grace they were given.
    """

    __slots__ = (
        "ended", "ending", "key", "killed", "name", "namespace", "rejected", "returned", "running",
        "seq", "signed", "since", "sure", "synced", "told", "uid", "until", "vague", "written",
    )  # fmt: skip

    def __init__(self, key: str, seq: int, since: int, body: AboutPod) -> None:
        self.key = key
        self.seq = seq
        self.since = since
        self.sure: int | None = None
        self.ending: int | None = None
        self.ended: int | None = None
        self.uid = body.pod_uid
        self.namespace = body.namespace
        self.name = body.pod
        self.written = 0
        self.running: dict[str, str | None] = {}
        self.killed = False
        self.returned = False
        self.rejected = False
        self.signed = 0
        self.told = since
        self.vague = False
        self.until = 0
        self.synced: int | None = None

    def may_count(self, start: int, end: int) -> bool:
        """Whether it can have been active at some instant of a span."""
        return self.since <= end and (self.ended is None or self.ended >= start)

    def must_count(self, start: int, end: int) -> bool:
        """Whether it was active through the whole of a span."""
        sure = self.since + SETTLING_NS if self.sure is None else self.sure
        return not self.vague and sure <= start and (self.ending is None or self.ending > end)

    def run(self, container_id: str, name: str | None) -> None:
        """A container runs; an earlier one of the same name does not any more."""
        if name is not None:
            for other in [i for i, of in self.running.items() if of == name]:
                del self.running[other]
        self.running[container_id] = name
        if len(self.running) > _RUNNING_MAX:
            del self.running[next(iter(self.running))]

    def goes_down(self, ts_ns: int) -> bool:
        """Whether it may be being taken down at a time, or has just been."""
        if self.ending is None or self.ending > ts_ns:
            return False
        signed = self.signed + (_SLOW_NS if self.running else _KILLED_NS)
        return self.ended is None or max(signed, self.until) >= ts_ns

    def over_since(self, ts_ns: int) -> bool:
        """Whether it is over so long that nothing asks for it, or nobody ever listed it."""
        if self.ended is None:
            return self.vague and max(self.signed, self.told) < ts_ns - _STRAY_NS
        return max(self.ended, self.until) < ts_ns - KEPT_NS

    def begin_end(self, ts_ns: int) -> None:
        """A sign that its end has begun."""
        self.signed = max(self.signed, ts_ns)
        if self.ending is None:
            self.ending = ts_ns

    def finish(self, ts_ns: int, began: int | None = None) -> None:
        """It is over by then."""
        self.signed = max(self.signed, ts_ns)
        if self.ending is None:
            self.ending = ts_ns if began is None else began
        if self.ended is None:
            self.ended = ts_ns + _LATE_NS


class Lives:
    """All pods of one kubelet.

    Attributes:
        current: pod key -> its life in the process that runs.
        requests: what pods request.
        started_ns: start of that process; None where its log does not begin with one.
    """

    def __init__(self) -> None:
        self.current: dict[str, Life] = {}
        self.requests = Requests()
        self._past: deque[Life] = deque()
        self.started_ns: int | None = None
        self._configured_ns: int | None = None
        self._listed_ns: int | None = None
        self._listed_before_ns: int | None = None
        self._first_listed_ns: int | None = None
        self._holed = False
        self._forgot_ns = 0

    def complete(self, ts_ns: int) -> bool:
        """Whether every pod that counted at a time is known.

        Config lines tell of all pods that come; of those that were there before the log
        began, a pod list does.
        """
        if self._holed:
            return False
        if self._configured_ns is None:
            return self.started_ns is not None and not self.current
        if self.started_ns is not None:
            return True
        listed = self._first_listed_ns
        seen_all = self._configured_ns if listed is None else max(listed, self._configured_ns)
        return listed is not None and seen_all + WARMING_NS <= ts_ns

    def all(self) -> Iterator[Life]:
        """Lives of now and of the last minutes."""
        return chain(self._past, self.current.values())

    def forget(self, ts_ns: int) -> None:
        """Drop lives that ended long ago; now and then is enough."""
        if 0 <= ts_ns - self._forgot_ns < SETTLING_NS:
            return
        self._forgot_ns = ts_ns
        while self._past and (self._past[0].ended or 0) < ts_ns - KEPT_NS:
            self._past.popleft()
        over = [key for key, life in self.current.items() if life.over_since(ts_ns)]
        for key in over:
            del self.current[key]

    def of(self, state: NodeState, body: AboutPod) -> Life | None:
        """The life of the pod that a record speaks of."""
        key = key_of(state.lifecycle, body.pod_uid, body.namespace, body.pod)
        life = self.current.get(key) if key is not None else None
        if life is None and body.pod_uid is not None:
            # It may stand under its name still.
            named = pod_key(None, body.namespace, body.pod)
            life = self.current.get(named) if named is not None else None
        return life

    # Records ----------------------------------------------------------------------------

    def kubelet_started(self, ts_ns: int, *, restart: bool) -> None:
        """The log of a process begins; it is another process than before if ``restart``."""
        self.started_ns = self._configured_ns = None
        if restart:
            self._end_all(ts_ns)

    def start_seen(self, ts_ns: int) -> None:
        """The log shows the process from its start on, when it knew no pod."""
        self.started_ns, self._holed = ts_ns, False
        self._end_all(ts_ns)

    def holed(self) -> None:
        """A piece of the log is missing: from now on pods may count that nothing told of."""
        self._holed = True

    def _end_all(self, ts_ns: int) -> None:
        for life in self.current.values():
            life.ending = min(ts_ns, ts_ns if life.ending is None else life.ending)
            life.ended = ts_ns if life.ended is None else min(life.ended, ts_ns)
            self._past.append(life)
        self.current.clear()
        self.forget(ts_ns)

    def config_changed(self, record: Record, body: PodConfigChanged, state: NodeState) -> None:
        """A config source brings a pod, changes it or takes it away."""
        if self._configured_ns is None:
            self._configured_ns = record.ts_ns
        life = self.of(state, body)
        if body.operation == "ADD":
            if life is None or life.ended is not None:
                life = self._begin(record, body, state)
            elif life.vague:
                life.vague = False
            return
        if life is None:
            life = self._vague(record, body, state) if body.operation != "REMOVE" else None
        if life is None:
            return
        if body.operation == "DELETE":
            life.killed = True
            life.begin_end(record.ts_ns)
        elif body.operation == "REMOVE":
            life.killed = True
            life.finish(record.ts_ns)

    def _begin(self, record: Record, body: AboutPod, state: NodeState) -> Life | None:
        key = key_of(state.lifecycle, body.pod_uid, body.namespace, body.pod)
        if key is None:
            return None
        before = self.current.pop(key, None)
        if before is not None:
            self._past.append(before)
        life = self.current[key] = Life(key, record.seq, record.ts_ns, body)
        known = state.lifecycle.pods.get(key)
        if known is not None and known.ended:
            if known.phase in TERMINAL_PHASES and known.source == "api":
                # The API holds its final phase, so it does not count unless it is admitted.
                life.ending = life.ended = record.ts_ns - 1
                life.returned = True
            else:
                life.ending, life.returned = record.ts_ns, True
        return life

    def _vague(self, record: Record, body: AboutPod, state: NodeState) -> Life | None:
        """A pod whose coming no line told of, though it tells of pods that come."""
        key = key_of(state.lifecycle, body.pod_uid, body.namespace, body.pod)
        known = state.lifecycle.pods.get(key or "")
        if known is not None and known.ended:
            return None
        life = self._begin(record, body, state)
        if life is not None:
            life.since, life.vague = self.started_ns or 0, True
        return life

    def listed(self, record: Record, body: PodListed, state: NodeState) -> None:
        """A list shows a pod, or no longer."""
        if body.listed_by == "manifest":
            return
        if body.listed_by == "kubelet" and record.ts_ns != self._listed_ns:
            self._listed_before_ns, self._listed_ns = self._listed_ns, record.ts_ns
            if self._first_listed_ns is None:
                self._first_listed_ns = record.ts_ns
        life = self.of(state, body)
        final = (body.status or {}).get("phase") in TERMINAL_PHASES
        if body.gone or final:
            if life is not None:
                before = self._listed_before_ns
                life.finish(record.ts_ns, life.since if before is None else before)
            return
        if life is None:
            life = self._appear(record, body, state)
        if life is not None and body.listed_by == "kubelet":
            life.sure = record.ts_ns if life.sure is None else min(life.sure, record.ts_ns)
            if life.vague:
                life.sure, life.vague = record.ts_ns, False

    def _appear(self, record: Record, body: PodListed, state: NodeState) -> Life | None:
        """A pod that no line told of: it came before the records, or the log tells no pods."""
        if self._configured_ns is not None and body.listed_by == "api":
            return None
        life = self._begin(record, body, state)
        if life is not None:
            life.since = body.created_ts_ns or 0
            if self.started_ns is not None:
                life.since = max(life.since, self.started_ns)
            elif any(
                isinstance(status, dict) and (status.get("state") or {}).get("running")
                for status in (body.status or {}).get("containerStatuses") or ()
            ):
                life.sure = life.since
        return life

    def rejected(self, record: Record, body: PodRejected, state: NodeState) -> None:
        """Refused: until then it may have counted."""
        if (life := self.of(state, body)) is not None:
            life.finish(record.ts_ns, life.since)
            life.rejected = True

    def admitted(self, record: Record, body: PodAdmitted, state: NodeState) -> None:
        """What had ended in a former process counts again, if only until it is synced."""
        if (life := self.of(state, body)) is not None and life.returned:
            if life.ended is None:
                pod = state.lifecycle.pods.get(life.key)
                life.ending = None if pod and pod.restart_policy == "Always" else record.ts_ns
            life.ended, life.returned = None, False

    def doomed(self, record: Record, body: PodEvicted | PodPreempted, state: NodeState) -> None:
        """The kubelet decided to kill it."""
        if isinstance(body, PodPreempted):
            key = key_of(state.lifecycle, body.victim_uid, body.victim_namespace, body.victim_pod)
            life = self.current.get(key) if key is not None else None
        else:
            life = self.of(state, body)
        if life is not None:
            life.killed = True
            life.begin_end(record.ts_ns)

    def container_killed(self, record: Record, body: ContainerKilled, state: NodeState) -> None:
        """The kubelet kills a container, perhaps for the end of its pod."""
        if (life := self.of(state, body)) is None:
            return
        life.killed = life.killed or body.reason in _POD_ENDS
        if body.reason is None or body.reason in _POD_ENDS:
            life.begin_end(record.ts_ns)
        grace_ns = max(body.grace_period_s or 0, 0) * NS_PER_S
        life.until = max(life.until, record.ts_ns + grace_ns + _KILLED_NS)

    def reported(self, record: Record, body: ReasonReported, state: NodeState) -> None:
        """An event may tell of a pod's end where no line does."""
        if body.reason not in _ENDS or body.object_kind != "Pod":
            return
        if (life := self.of(state, body)) is not None:
            life.killed = True
            life.begin_end(record.ts_ns)

    def terminated(self, record: Record, body: PodTerminated, state: NodeState) -> None:
        """All of it is down for good."""
        if (life := self.of(state, body)) is not None:
            life.finish(record.ts_ns)

    def container_started(self, record: Record, body: ContainerStarted, state: NodeState) -> None:
        """The kubelet works with it."""
        life = self.of(state, body) or self._vague(record, body, state)
        if life is None:
            return
        life.run(body.container_id, body.container)
        if life.sure is None:
            life.sure = record.ts_ns
        over = life.ended is not None or life.killed
        if life.ending is not None and not over and body.container is not None:
            life.ending = None

    def container_died(self, record: Record, body: ContainerDied, state: NodeState) -> None:
        """One less; the last one may be the end of a pod that is not restarted."""
        life = self.of(state, body)
        if life is None:
            return
        life.running.pop(body.container_id, None)
        pod = state.lifecycle.pods.get(life.key)
        policy = pod.restart_policy if pod is not None else None
        if policy != "Always" or life.ending is not None:
            life.begin_end(record.ts_ns)
