"""Decisions of one probe worker over a series of ticks.

A worker's steps are deterministic: what they depend on is in the observations. So the one
admissible outcome is the decided one. What a kubelet's event recorder keeps of its events
is not the worker's; see ``attempts.event_of`` for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from kubeledger.kubelet.prober.attempts import MissingAttemptError
from kubeledger.kubelet.prober.instants import instant_ns
from kubeledger.kubelet.prober.objects import PodStatus
from kubeledger.kubelet.prober.results import Result, Update
from kubeledger.kubelet.prober.worker import ProbeWorker, do_probe
from kubeledger.model.bodies.prober import TickResult
from kubeledger.model.errors import BadInputError


class Tick(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """What a worker meets in one step.

    Attributes:
        at: the kubelet's clock, RFC 3339.
        pod_status: what the status manager has; None for nothing.
        attempts: what up to three executions of the probe would return.
    """

    at: str
    pod_status: PodStatus | None
    attempts: list[TickResult]


class TickOutcome(msgspec.Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    """The worker after one step.

    Attributes:
        keep_going: whether it continues.
        attempts: executions used.
        result: cached for the worker's container; empty for none.
        updates: sent in this step.
        events: none; see the module.
    """

    keep_going: bool = msgspec.field(name="continue")
    attempts: int
    on_hold: bool
    result_run: int
    result: Result | Literal[""]
    updates: Sequence[Update]
    events: Sequence[str]


def decide(worker: ProbeWorker, ticks: Sequence[Tick]) -> list[TickOutcome]:
    """Take the steps of a worker, also after it said that it ends.

    Args:
        worker: updated in place.
        ticks: (n,) in order.

    Returns:
        (n,) outcomes.

    Raises:
        BadInputError: a bad time, or an execution that is not given.
    """
    results = worker.results
    cache = results.cache
    outcomes = []
    for index, tick in enumerate(ticks):
        now_ns = instant_ns(tick.at)
        try:
            keep_going = do_probe(worker, tick.pod_status, now_ns, tick.attempts)
        except MissingAttemptError as error:
            path = f"input.ticks[{index}].attempts"
            raise BadInputError(f"{path}: {error.message}", advice=error.advice) from None
        outcomes.append(
            TickOutcome(
                keep_going,
                worker.attempts_used,
                worker.on_hold,
                worker.result_run,
                cache.get(worker.container_id, ""),
                results.take_updates(),
                events=(),
            )
        )
    return outcomes


def difference(decided: TickOutcome, claimed: TickOutcome) -> str | None:
    """Attribute in which a claimed step is none the worker could have taken; None for none.

    ``events`` are not compared.
    """
    for name in ("attempts", "result_run", "on_hold", "result", "keep_going"):
        if getattr(decided, name) != getattr(claimed, name):
            return name
    return None if list(decided.updates) == list(claimed.updates) else "updates"


def admissible(decided: Sequence[TickOutcome], claimed: Sequence[TickOutcome]) -> bool:
    """Whether a worker that decides ``decided`` could have done what is claimed."""
    return len(decided) == len(claimed) and all(
        difference(ours, theirs) is None for ours, theirs in zip(decided, claimed, strict=True)
    )
