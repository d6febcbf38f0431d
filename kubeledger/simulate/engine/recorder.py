"""The kubelet's event recorder: which events reach the API server, and with which count.

All events pass the kubelet's log; each is a ``KubernetesEvent``. On the way to the API server
equal ones are counted together, many similar ones are combined, and each object has a budget
of 25 events, of which one comes back every five minutes. What exceeds it is counted, but not
sent.

Source: v1.20.2 and v1.36.2 staging/src/k8s.io/client-go/tools/record/events_cache.go
    EventCorrelate, EventAggregate, eventObserve, EventSourceObjectSpamFilter.Filter
Differs: its caches hold 4096 objects, here all there are. Ticks that share a record are
    charged when that is written, so events of the same pod may go before them.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kubeledger.model.bodies.lifecycle import KubernetesEvent
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.journal import Journal
from kubeledger.simulate.engine.world import SimPod

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
        """Begin with nothing.

        Args:
            journal: where events are written.
            now: the virtual clock, nanoseconds since the epoch.
        """
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
            pod: about which one.
            reason: e.g. ``Unhealthy``.
            message: what is said.
            container: about which of its containers.
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
