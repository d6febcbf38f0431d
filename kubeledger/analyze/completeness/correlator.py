"""What the kubelet's event recorder lets through to the API server.

Every event passes client-go's EventCorrelator before it is sent: similar events are combined,
the same words are counted, and a spam filter keeps a budget for each object. Then a client
with ``eventRecordQPS`` and ``eventBurst`` sends them one after the other: that delays events,
and drops some only when a thousand wait.

Source: client-go tools/record/events_cache.go EventCorrelate, tools/record/event.go
"""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from kubeledger.model.bodies.lifecycle import KubernetesEvent
from kubeledger.model.units import NS_PER_S

SPAM_BURST = 25
SPAM_REFILL_S = 300
"""An object may send so many events at once, and one more each so many seconds."""

AGGREGATE_MAX = 10
AGGREGATE_INTERVAL_S = 600
"""So many different messages with one reason, none longer than this after the one before, are
combined."""

_TYPE_IN_KEY_MINOR = 32
"""From 1.32 on an object has one budget for normal events and one for warnings."""


class Passage(msgspec.Struct, frozen=True):
    """What became of one event, by the rules.

    Attributes:
        dropped: the spam filter took it.
        combined: it was counted as one of several similar events.
        number: how many events of the same budget there were, with this one.
        passed: how many of them passed.
        next_ts_ns: when the budget has room again, if no other event comes; None when it has.
    """

    dropped: bool
    combined: bool
    number: int
    passed: int
    next_ts_ns: int | None


class _Budget(msgspec.Struct):
    tokens: float
    last_ns: int
    number: int = 0
    passed: int = 0


class _Similar(msgspec.Struct):
    last_ns: int
    messages: set[str] = set()


class Correlator:
    """The correlator of one kubelet process, with nothing in it at first."""

    def __init__(self, minor: int) -> None:
        self._type_in_key = minor >= _TYPE_IN_KEY_MINOR
        self._budgets: dict[Hashable, _Budget] = {}
        self._similar: dict[Hashable, _Similar] = {}

    def take(self, ts_ns: int, event: KubernetesEvent) -> Passage:
        obj = (event.object_kind, event.namespace, event.pod, event.pod_uid)
        combined = self._combine((*obj, event.type, event.reason), ts_ns, event.message)
        key = (*obj, event.type) if self._type_in_key else obj
        budget = self._budgets.setdefault(key, _Budget(float(SPAM_BURST), ts_ns))
        gained = max(0, ts_ns - budget.last_ns) / NS_PER_S / SPAM_REFILL_S
        budget.tokens = min(float(SPAM_BURST), budget.tokens + gained)
        budget.last_ns = max(budget.last_ns, ts_ns)
        budget.number += 1
        dropped = budget.tokens < 1
        if not dropped:
            budget.tokens -= 1
            budget.passed += 1
        wait_s = (1 - budget.tokens) * SPAM_REFILL_S
        return Passage(
            dropped=dropped,
            combined=combined,
            number=budget.number,
            passed=budget.passed,
            next_ts_ns=ts_ns + round(wait_s * NS_PER_S) if dropped else None,
        )

    def _combine(self, key: Hashable, ts_ns: int, message: str) -> bool:
        similar = self._similar.get(key)
        if similar is None or ts_ns - similar.last_ns > AGGREGATE_INTERVAL_S * NS_PER_S:
            similar = self._similar[key] = _Similar(ts_ns, set())
        similar.last_ns = ts_ns
        similar.messages.add(message)
        if len(similar.messages) < AGGREGATE_MAX:
            return False
        # The set is kept just below the limit, so that every further message is combined.
        similar.messages.discard(next(m for m in sorted(similar.messages) if m != message))
        return True


class Sender:
    """The client that sends events: a token bucket; how long it makes them wait.

    Attributes:
        longest_ns: the longest wait.
    """

    def __init__(self, qps: float, burst: int) -> None:
        self._step_ns = NS_PER_S / qps
        self._burst = burst
        self._free_ns = 0.0
        self.longest_ns = 0

    def send(self, ts_ns: int) -> None:
        """An event is to be sent."""
        # The bucket as a clock: it is full when that clock is burst steps behind.
        at_ns = max(self._free_ns, ts_ns - self._step_ns * (self._burst - 1))
        self._free_ns = at_ns + self._step_ns
        self.longest_ns = max(self.longest_ns, round(at_ns - ts_ns))
