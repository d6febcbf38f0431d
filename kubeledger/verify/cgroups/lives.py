"""The pods that the kubelet counts as active: their lives, as the records tell of them."""

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
from kubeledger.verify.cgroups.life import KEPT_NS, KILLED_NS, SETTLING_NS, Life
from kubeledger.verify.cgroups.requests import Requests
from kubeledger.verify.cgroups.waiting import SyncLoop
from kubeledger.verify.cgroups.window import READ_NS
from kubeledger.verify.evidence.restarting import Restarting
from kubeledger.verify.pods import PodRegister

__all__ = ["Lives"]

_DOUBTED_MAX: Final = 512
"""So many pods are remembered that may have ended in a former process."""
WARMING_NS: Final = 62 * NS_PER_S
"""After this long what a log that began late did not tell is past."""
_POD_ENDS: Final = frozenset(
    {"preempted", "pod_deleted", "evicted"}
    | {"deadline_exceeded", "node_shutdown", "orphaned", "pod_ended"}
)
"""Reasons of kills that end the pod."""
_ENDS: Final = frozenset({"Preempting", "Preempted", "Evicted", "DeadlineExceeded"})
"""Reasons of events that do."""


class Lives:
    """All pods of one kubelet.

    Attributes:
        current: pod key -> its life in the process that runs.
        requests: what pods request.
        loop: of the process that runs.
        started_ns: start of that process; None where its log does not begin with one.
    """

    def __init__(self, pods: PodRegister) -> None:
        """``pods``: what lists show of them."""
        self._pods = pods
        self.current: dict[str, Life] = {}
        self.requests = Requests()
        self.loop = SyncLoop()
        self._past: deque[Life] = deque()
        self.started_ns: int | None = None
        self._configured_ns: int | None = None
        self._listed_ns: int | None = None
        self._listed_before_ns: int | None = None
        self._first_listed_ns: int | None = None
        self._holed = False
        self._forgot_ns = 0
        self._doubted: dict[str, None] = {}

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
        if 0 <= ts_ns - self._forgot_ns < SETTLING_NS or self.loop.waited(ts_ns):
            return  # what the loop tells behind its wait is about that time
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
        self.loop = SyncLoop()
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
            self._doubted.pop(life.key, None)
            if life.ending is not None:
                self._doubted[life.key] = None
            life.ending = min(ts_ns, ts_ns if life.ending is None else life.ending)
            life.ended = ts_ns if life.ended is None else min(life.ended, ts_ns)
            self._past.append(life)
        self.current.clear()
        while len(self._doubted) > _DOUBTED_MAX:
            del self._doubted[next(iter(self._doubted))]
        self.forget(ts_ns)

    def config_changed(self, record: Record, body: PodConfigChanged, state: NodeState) -> None:
        """A config source brings a pod, changes it or takes it away."""
        self.loop.tells(record.ts_ns)
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
        if body.operation in ("DELETE", "REMOVE"):
            # Since 1.22 a worker may take down what was refused and is deleted (UpdatePod).
            life.rejected = False
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
        if known is not None and (known.ended or key in self._doubted):
            # What had ended, or perhaps had, under the process before: of a static pod each
            # process finds out anew, and no line says that it did.
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
            if _shows_running(body):
                shown = record.ts_ns + READ_NS
                life.synced = shown if life.synced is None else min(life.synced, shown)

    def _appear(self, record: Record, body: PodListed, state: NodeState) -> Life | None:
        """A pod that no line told of: it came before the records, or the log tells no pods."""
        if self._configured_ns is not None and body.listed_by == "api":
            return None
        life = self._begin(record, body, state)
        if life is not None:
            life.since = body.created_ts_ns or 0
            if self.started_ns is not None:
                life.since = max(life.since, self.started_ns)
            elif _shows_running(body):
                life.sure = life.since
        return life

    def rejected(self, record: Record, body: PodRejected, state: NodeState) -> None:
        """Refused: until then it may have counted.

        One of which containers run from before counts as long as it is being torn down.
        """
        self.loop.tells(record.ts_ns)
        if (life := self.of(state, body)) is None:
            return
        life.begin_end(record.ts_ns, life.since)
        if not life.running:
            life.finish(record.ts_ns)
            life.rejected = True

    def admitted(self, record: Record, body: PodAdmitted, state: NodeState) -> None:
        """What had ended in a former process counts again, if only until it is synced."""
        if not body.inferred:
            self.loop.tells(record.ts_ns)
        if (life := self.of(state, body)) is not None and life.returned:
            if life.ended is None:
                lives_on = self._always_restarts(life, record.ts_ns, state)
                life.ending = None if lives_on else record.ts_ns
            life.ended, life.returned = None, False

    def doomed(self, record: Record, body: PodEvicted | PodPreempted, state: NodeState) -> None:
        """The kubelet decided to kill it."""
        if isinstance(body, PodPreempted):
            self.loop.preempts(record.ts_ns)
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
        if life.rejected:
            life.rejected, life.ended = False, None  # containers of it ran nevertheless
        life.killed = life.killed or body.reason in _POD_ENDS
        if body.reason is None or body.reason in _POD_ENDS:
            life.begin_end(record.ts_ns)
        grace_ns = max(body.grace_period_s or 0, 0) * NS_PER_S
        life.until = max(life.until, record.ts_ns + grace_ns + KILLED_NS)

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
        self.loop.tells(record.ts_ns)
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
        self.loop.tells(record.ts_ns)
        life = self.of(state, body)
        if life is None:
            return
        life.running.pop(body.container_id, None)
        if life.ending is not None or not self._always_restarts(life, record.ts_ns, state):
            life.begin_end(record.ts_ns, self.loop.earliest(record.ts_ns))

    def _always_restarts(self, life: Life, ts_ns: int, state: NodeState) -> bool:
        """Whether a pod does not end by itself; false where no source tells."""
        listed = self._pods.at(ts_ns, life.uid, life.namespace, life.name)
        pod = state.lifecycle.pods.get(life.key)
        return Restarting(listed, None if pod is None else pod.restart_policy).always


def _shows_running(body: PodListed) -> bool:
    """Whether a list shows that a container of the pod runs."""
    return any(
        isinstance(status, dict) and bool((status.get("state") or {}).get("running"))
        for status in (body.status or {}).get("containerStatuses") or ()
    )
