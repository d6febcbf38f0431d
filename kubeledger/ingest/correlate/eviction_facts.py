"""A reclaim and an eviction while their outcome is open."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from kubeledger.ingest.correlate.eviction_messages import exceeded_limit, short_resource
from kubeledger.ingest.correlate.holdback import Waiting
from kubeledger.ingest.correlate.pods import Pod
from kubeledger.ingest.messages.eviction_rounds import Driver, EvictionRounds
from kubeledger.ingest.messages.podref import PodRef
from kubeledger.ingest.sources.facts import Fact
from kubeledger.model.bodies.eviction import ReclaimAttempted
from kubeledger.model.bodies.lifecycle import PodEvicted
from kubeledger.model.units import NS_PER_S

__all__ = ["OpenEviction", "Reclaim", "chosen"]

_AT_ONCE_NS = NS_PER_S // 10
_FROM_RECLAIM = ("resource", "signal", "threshold", "threshold_kind", "since_ts_ns", "observed")
"""What a reclaim shows of the evictions that it leads to."""


class Reclaim:
    """A reclaim whose outcome is open.

    Attributes:
        fact: kept for what it causes, also when it has left the queue.
        ranked: the candidates, logged at ``ranked_ts_ns``; the first ``tried`` had their turn.
    """

    def __init__(self, waiting: Waiting, fact: Fact) -> None:
        self.waiting = waiting
        self.fact = fact
        self.ranked: list[PodRef] = []
        self.ranked_ts_ns = 0
        self.tried = 0

    def acts(self, ts_ns: int) -> bool:
        """Whether it was ranked just before: the pod that is chosen is evicted at once."""
        return bool(self.ranked) and ts_ns - self.ranked_ts_ns <= _AT_ONCE_NS

    @property
    def body(self) -> ReclaimAttempted:
        """What is known so far."""
        return cast(ReclaimAttempted, self.fact.body)

    def learn(self, **values: Any) -> None:  # noqa: ANN401 # fields of the body
        """Note more of it, unless it has left the queue."""
        if self.waiting.fact is not None:
            self.fact.body = msgspec.structs.replace(self.body, **values)


class OpenEviction:
    """An eviction whose end is open; tentative while only the ranking shows it.

    Attributes:
        lineless: only the API's event shows it so far.
        worded: a line of the log held the message.
    """

    def __init__(self, waiting: Waiting, fact: Fact, reclaim: Reclaim | None) -> None:
        self.lineless = False
        self.worded = False
        self.waiting = waiting
        self.fact = fact
        self.reclaim = reclaim

    @property
    def body(self) -> PodEvicted:
        """What is known so far."""
        return cast(PodEvicted, self.fact.body)

    def learn(self, **values: Any) -> None:  # noqa: ANN401 # fields of the body
        """Note more of it."""
        self.fact.body = msgspec.structs.replace(self.body, **values)

    @property
    def patience_ns(self) -> int:
        """How long killPodNow waits: 10 s, or half as long again as a grace period it was given."""
        body = self.body
        grace_s = body.grace_period_s if body.threshold_kind == "soft" else 0
        return max(10 * NS_PER_S, (grace_s or 0) * NS_PER_S * 3 // 2)

    def explain(self, message: str, rounds: EvictionRounds) -> None:
        """Note the message, and what it shows of the threshold."""
        body = self.body
        limit = exceeded_limit(message)
        if limit is not None:
            self.learn(
                message=message,
                signal=limit[0],
                threshold=limit[1],
                threshold_kind="local_storage",
            )
            return
        low = short_resource(message)
        resource = body.resource or low
        driver = rounds.driver(resource, message) if low else Driver()
        fields = {
            "resource": resource,
            "signal": body.signal or driver.signal,
            "threshold": body.threshold if driver.threshold is None else driver.threshold,
            "threshold_kind": body.threshold_kind or driver.kind,
            "since_ts_ns": driver.since_ts_ns or body.since_ts_ns,
            "observed": body.observed if driver.observed is None else driver.observed,
        }
        self.learn(message=message, **fields)
        if self.reclaim is not None:
            # What its own lines show of it counts for the reclaim.
            known = self.reclaim.body
            self.reclaim.learn(**{n: v for n, v in fields.items() if getattr(known, n) is None})


def chosen(pod: Pod, reclaim: Reclaim | None) -> PodEvicted:
    """A pod that is to go, with what the reclaim shows of it."""
    body = PodEvicted(**pod.names, resource=None, message=None, evicted=None)
    if reclaim is None:
        return body
    fields = {field: getattr(reclaim.body, field) for field in _FROM_RECLAIM}
    return msgspec.structs.replace(body, **fields, rank=reclaim.tried)
