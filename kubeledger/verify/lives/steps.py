"""What a rebuilt worker counts with: results, changes, and what it was a step ago."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import msgspec

from kubeledger.machine import Record
from kubeledger.prober import objects
from kubeledger.prober.attempts import COUNTS_AS
from kubeledger.prober.records import ProbeResult, ProbeType, TickResult
from kubeledger.prober.results import FAILURE, SUCCESS, UNKNOWN, Result
from kubeledger.verify.lives.specs import ContainerAsk, ProbeAsk

__all__ = [
    "ABSENT",
    "ATTEMPTS",
    "NOTHING_BEFORE",
    "SAYS",
    "STREAK_MAX",
    "Before",
    "Change",
    "container_of",
    "counts_as",
    "id_of",
    "stored",
]

SAYS: dict[Result, ProbeResult] = {SUCCESS: "success", FAILURE: "failure", UNKNOWN: "unknown"}
"""Result in the kubelet's cache -> as records write it."""
_STORES: dict[ProbeResult, Result] = {said: result for result, said in SAYS.items()}
ABSENT: dict[ProbeType, Result] = {"liveness": SUCCESS, "readiness": UNKNOWN, "startup": UNKNOWN}
"""What nothing cached counts as (a container that is older than its kubelet, since 1.35)."""
ATTEMPTS: dict[TickResult, tuple[TickResult, ...]] = {
    "success": ("success",),
    "warning": ("warning",),
    "failure": ("failure",),
    "unknown": ("unknown",),
    "error": ("error", "error", "error"),
}
STREAK_MAX = 32


class Before(NamedTuple):
    """What a worker was before its newest step; ``cached`` for the container of the step."""

    record: Record | None
    last_result: Result
    run: int
    run_is_sure: bool
    cached: Result
    cache_is_sure: bool
    streak: deque[int] | None


NOTHING_BEFORE = Before(None, SUCCESS, 0, False, SUCCESS, False, None)


def counts_as(result: TickResult) -> ProbeResult | None:
    """What a tick adds to the run; None: it is thrown away."""
    found = COUNTS_AS.get(result)
    return None if found is None else SAYS[found]


def stored(result: ProbeResult) -> Result:
    """As the kubelet's cache writes it."""
    return _STORES[result]


class Change(msgspec.Struct, frozen=True):
    """A change of the cached result that a tick had to cause.

    Attributes:
        tick: its record.
        before, after: cached results.
        run: ticks in a row with ``after``.
        threshold: of the spec.
        ticks: (<= run,) seqs of the newest of them, in order.
        is_sure: nothing that this rests on is missing.
        run_is_sure: ``run`` is exact.
        from_ns: when the run began.
    """

    tick: Record
    container_id: str | None
    before: ProbeResult
    after: ProbeResult
    run: int
    threshold: int
    ticks: tuple[int, ...]
    is_sure: bool
    run_is_sure: bool
    from_ns: int


def id_of(status: objects.PodStatus) -> str:
    """ID of the container that a status tells of."""
    statuses = status.container_statuses
    assert statuses is not None
    return statuses[0].container_id


def container_of(entry: ContainerAsk, probe_type: ProbeType, probe: ProbeAsk) -> objects.Container:
    """A container with that one probe, for the step."""
    # The delay counts from a start that records tell only late: a tick shows that it is over.
    spec = objects.Probe(
        initial_delay_seconds=0,
        success_threshold=probe.successes,
        failure_threshold=probe.failures,
    )
    return objects.Container(
        name=entry.name,
        restart_policy=entry.restart_policy,
        liveness_probe=spec if probe_type == "liveness" else None,
        readiness_probe=spec if probe_type == "readiness" else None,
        startup_probe=spec if probe_type == "startup" else None,
    )
