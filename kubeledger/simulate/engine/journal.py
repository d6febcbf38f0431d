"""What a simulated node writes down: records in virtual time, repeated words, events."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Literal

import msgspec

from kubeledger.kubelet.lifecycle.stages import SIDE_BY_SIDE, StageFailure, shape_of
from kubeledger.model.bodies.lifecycle import KubernetesEvent
from kubeledger.model.bodies.node import NodeTrouble, NodeTroubled, PodStageFailed, Stage
from kubeledger.model.record import Body, Evidence, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.world import SimPod

_EVIDENCE_FILE = "scenario"


class Journal:
    """Numbers records from 1 and hands them on in order."""

    def __init__(self, node: str, now: Callable[[], int]) -> None:
        """Begin.

        Args:
            now: the virtual clock, nanoseconds since the epoch.
        """
        self.node = node
        self.last_seq = 0
        self._now = now
        self._pending: list[Record] = []

    def write(self, body: Body, *, cause: int | None = None, source: str | None = None) -> int:
        """Write one record at the present instant.

        Args:
            cause: seq of the record that led to it.
            source: place in the scenario that made it happen, e.g. ``pods[3]``; None for what
                the kubelet does by itself.
        """
        self.last_seq += 1
        evidence = () if source is None else (Evidence(file=_EVIDENCE_FILE, text=source),)
        self._pending.append(
            Record(
                node=self.node,
                seq=self.last_seq,
                ts_ns=self._now(),
                role=body.role,
                kind=body.kind,
                v=body.v,
                cause=cause,
                evidence=evidence,
                body=body,
            )
        )
        return self.last_seq

    def take(self) -> list[Record]:
        """Records since the last call, in order."""
        taken, self._pending = self._pending, []
        return taken


# What one kubelet process says again and again: a record when it begins, changes, is over.
#
# As an import records it: what goes on is recorded again every ten minutes.

_EVERY_NS = 600 * NS_PER_S
_Key = tuple[Literal["stage", "trouble"], str, str | None, str, str | None]


class _Run(msgspec.Struct):
    """What is said of one subject; ``count`` times since its last record, at ``since_ns``."""

    same: Hashable
    body: Body
    since_ns: int
    count: int = 0
    first_ns: int = 0
    last_ns: int = 0


class Told:
    """Stages that pods do not get past, and troubles of the node."""

    def __init__(self, journal: Journal, now: Callable[[], int]) -> None:
        """Begin with nothing."""
        self._journal, self._now = journal, now
        self._runs: dict[_Key, _Run] = {}

    def stage(self, pod: SimPod, failure: StageFailure) -> None:
        """A pod, or a container of it, does not get past a stage."""
        now_ns = self._now()
        body = PodStageFailed(
            **pod.identity,
            **failure._asdict(),
            first_ts_ns=now_ns,
            last_ts_ns=now_ns,
        )
        about = failure.about if failure.stage in SIDE_BY_SIDE else None
        key: _Key = ("stage", pod.uid, failure.container, failure.stage, about)
        self._say(key, shape_of(failure), body)

    def passed(self, pod: SimPod, *stages: Stage, container: str | None = None) -> None:
        """It has got past them."""
        for key in list(self._runs):
            if key[:3] == ("stage", pod.uid, container) and key[3] in stages:
                self._over(key)

    def gone(self, pod: SimPod) -> None:
        """A pod is taken down: it gets past nothing any more."""
        for key in list(self._runs):
            if key[:2] == ("stage", pod.uid):
                self._over(key)

    def trouble(self, trouble: NodeTrouble, message: str, same: str = "") -> None:
        """Something of the node does not work; ``same`` differs where the message does."""
        now_ns = self._now()
        body = NodeTroubled(trouble=trouble, message=message, first_ts_ns=now_ns, last_ts_ns=now_ns)
        self._say(("trouble", "", None, trouble, None), same, body)

    def works(self, trouble: NodeTrouble) -> None:
        self._over(("trouble", "", None, trouble, None), passed_ts_ns=self._now())

    def end(self) -> None:
        """The process, or the simulation, ends."""
        for key in list(self._runs):
            self._over(key)

    def _say(self, key: _Key, same: Hashable, body: Body) -> None:
        now_ns, run = self._now(), self._runs.get(key)
        if run is None or run.same != same:
            self._over(key)
            self._runs[key] = _Run(same, body, now_ns, last_ns=now_ns)
            self._journal.write(body)
            return
        run.first_ns = run.first_ns if run.count else now_ns
        run.count, run.last_ns = run.count + 1, now_ns
        if now_ns - run.since_ns >= _EVERY_NS:
            self._write(run)
            run.since_ns, run.count = now_ns, 0

    def _over(self, key: _Key, **how: int) -> None:
        run = self._runs.pop(key, None)
        if run is not None and (run.count or how):
            self._write(run, **how)

    def _write(self, run: _Run, **how: int) -> None:
        first_ns = run.first_ns if run.count else run.last_ns
        changes: dict[str, Any] = {"count": run.count, "first_ts_ns": first_ns}
        changes |= {"last_ts_ns": run.last_ns, **how}
        self._journal.write(msgspec.structs.replace(run.body, **changes))


# The kubelet's event recorder: which events reach the API server, and with which count.
#
# All events pass the kubelet's log; each is a ``KubernetesEvent``. On the way to the API server
# equal ones are counted together, many similar ones are combined, and each object has a budget
# of 25 events, of which one comes back every five minutes. What exceeds it is counted, but not
# sent.
#
# Source: v1.20.2 and v1.36.2 staging/src/k8s.io/client-go/tools/record/events_cache.go
#     EventCorrelate, EventAggregate, eventObserve, EventSourceObjectSpamFilter.Filter
# Differs: its caches hold 4096 objects, here all there are. Ticks that share a record are
#     charged when that is written, so events of the same pod may go before them.

_BURST = 25
_REFILL_NS = 300 * NS_PER_S
_SIMILAR_MAX = 10
_SIMILAR_NS = 600 * NS_PER_S


class Ticks(msgspec.Struct, frozen=True):
    """When an event was sent: ``count`` times from ``first_ns`` on, one each ``period_ns``."""

    first_ns: int
    count: int = 1
    period_ns: int = 0


class _Budget(msgspec.Struct):
    """Events that a pod has left, in parts of one that come back in a nanosecond."""

    left: int
    at_ns: int

    def refill(self, now_ns: int) -> None:
        if now_ns > self.at_ns:
            self.left = min(self.left + now_ns - self.at_ns, _BURST * _REFILL_NS)
            self.at_ns = now_ns

    def take(self) -> bool:
        if self.left < _REFILL_NS:
            return False
        self.left -= _REFILL_NS
        return True


class _Similar(msgspec.Struct):
    """Messages of one reason about one pod lately."""

    messages: set[str]
    last_ns: int


class EventRecorder:
    """What one kubelet process remembers of the events that it sent."""

    def __init__(self, journal: Journal, now: Callable[[], int]) -> None:
        """Begin with nothing."""
        self._journal, self._now = journal, now
        self._budgets: dict[str, _Budget] = {}
        self._similar: dict[tuple[str, str], _Similar] = {}
        self._counts: dict[str, dict[tuple[str, str, str], int]] = {}

    def forget(self, pod: SimPod) -> None:
        """The pod is gone; nothing more is sent about it."""
        self._budgets.pop(pod.uid, None)
        self._counts.pop(pod.uid, None)
        for key in [key for key in self._similar if key[0] == pod.uid]:
            del self._similar[key]

    def spend(self, pod: SimPod, events: int) -> None:
        """Events about a pod that are on no record, but are sent and cost of its budget."""
        budget = self._budget(pod, self._now())
        for _ in range(events):
            budget.take()

    def send(
        self,
        pod: SimPod,
        reason: str,
        message: str,
        container: str | None = None,
        ticks: Ticks | None = None,
        *,
        warns: bool = True,
    ) -> None:
        """Send an event about a pod.

        Args:
            ticks: when; None: once, now.
        """
        times = ticks or Ticks(self._now())
        self._journal.write(
            KubernetesEvent(
                object_kind="Pod",
                **pod.identity,
                container=container,
                type="Warning" if warns else "Normal",
                reason=reason,
                message=message,
                count=times.count,
                api_count=self._correlate(pod, (container or "", reason, message), times),
            )
        )

    def _budget(self, pod: SimPod, now_ns: int) -> _Budget:
        budget = self._budgets.get(pod.uid)
        if budget is None:
            budget = self._budgets[pod.uid] = _Budget(_BURST * _REFILL_NS, now_ns)
        budget.refill(now_ns)
        return budget

    def _correlate(self, pod: SimPod, key: tuple[str, str, str], times: Ticks) -> int | None:
        """The count that the API server has then; None when nothing was sent."""
        counts = self._counts.setdefault(pod.uid, {})
        key = self._combined(pod, key, times)
        before = counts.get(key, 0)
        counts[key] = before + times.count
        sent, number = None, 0
        while number < times.count:
            budget = self._budget(pod, times.first_ns + number * times.period_ns)
            if budget.take():
                sent = before + number + 1
                number += 1
            elif times.period_ns:
                number += max(-(-(_REFILL_NS - budget.left) // times.period_ns), 1)
            else:
                break
        return sent

    def _combined(
        self, pod: SimPod, key: tuple[str, str, str], times: Ticks
    ) -> tuple[str, str, str]:
        """Key under which an event is counted: a tenth message joins those before."""
        _, reason, message = key
        similar = self._similar.get((pod.uid, reason))
        if similar is None or times.first_ns - similar.last_ns > _SIMILAR_NS:
            similar = self._similar[pod.uid, reason] = _Similar(set(), times.first_ns)
        similar.messages.add(message)
        similar.last_ns = times.first_ns + (times.count - 1) * times.period_ns
        if len(similar.messages) < _SIMILAR_MAX:
            return key
        similar.messages.discard(min(similar.messages))
        return "", reason, "combined"
