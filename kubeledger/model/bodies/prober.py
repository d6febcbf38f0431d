"""Observations and decisions of the prober (pkg/kubelet/prober)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Literal

from kubeledger.model.record import Decision, Observation, OfPod

ProbeType = Literal["liveness", "readiness", "startup"]
TickResult = Literal["success", "failure", "warning", "unknown", "error"]
ProbeResult = Literal["success", "failure", "unknown"]

PROBE_OF_KILL: Final[Mapping[str | None, ProbeType]] = {
    "liveness_probe": "liveness",
    "startup_probe": "startup",
}
"""Reason of a kill -> the probe that failed."""


class ProbeExecuted(OfPod, Observation, frozen=True, kw_only=True):
    """One tick of a probe worker that ran the probe.

    Attributes:
        container_id: the container probed; None when the source does not say.
        result: what the probe returned, before thresholds.
        output: what it said; None when the source holds none.
        handler: ``exec``, ``http``, ``tcp`` or ``grpc``; None when not known.
    """

    kind: ClassVar[str] = "prober.ProbeExecuted"
    v: ClassVar[int] = 2  # v1 had no handler
    container: str
    container_id: str | None
    probe_type: ProbeType
    result: TickResult
    output: str | None
    handler: Literal["exec", "http", "tcp", "grpc"] | None = None


class ProbeTicksFolded(OfPod, Observation, frozen=True, kw_only=True):
    """Ticks of one worker that all found the same and changed nothing, as one record.

    Only simulations write it. It stands for ``count`` ticks at ``first_ts_ns``, ``first_ts_ns +
    period_ns`` and so on, and is written at the last of them, or when it became known that it
    was the last: less than a period later. A tick that led to a change, or that is on its
    way to one, is a ``ProbeExecuted`` of its own.

    Attributes:
        container_id: the container probed.
        result, output, handler: as of ``ProbeExecuted``.
        count: how many ticks, 1 or more.
        first_ts_ns, last_ts_ns: of the first and the last.
        period_ns: between two; also where there is one tick only.
    """

    kind: ClassVar[str] = "prober.ProbeTicksFolded"
    container: str
    container_id: str | None
    probe_type: ProbeType
    result: TickResult
    output: str | None
    handler: Literal["exec", "http", "tcp", "grpc"] | None = None
    count: int
    first_ts_ns: int
    last_ts_ns: int
    period_ns: int

    def tick(self) -> ProbeExecuted:
        """What each of the ticks would have been recorded as."""
        names = ProbeExecuted.__struct_fields__
        return ProbeExecuted(**{name: getattr(self, name) for name in names})


class ProbeCountersRead(OfPod, Observation, frozen=True, kw_only=True):
    """The kubelet's own count of ticks of one worker (``prober_probe_total``).

    Recorded when it changed since the last reading.

    Attributes:
        successful, failed, unknown: ticks so far since the kubelet started.
    """

    kind: ClassVar[str] = "prober.ProbeCountersRead"
    container: str
    probe_type: ProbeType
    successful: int
    failed: int
    unknown: int = 0


class ProbeTransitioned(OfPod, Decision, frozen=True, kw_only=True):
    """The cached result of a worker changed, because its threshold was reached.

    Attributes:
        from_result: the result before: the initial value of that probe type for a new
            container (liveness success, readiness failure, startup unknown).
        run: consecutive ticks with the new result; None when not known.
        threshold: the probe spec's threshold; None when no pod spec is at hand.
        inferred: True when no line names the change and it was computed from ticks and
            threshold; False when the kubelet logged it.
    """

    kind: ClassVar[str] = "prober.ProbeTransitioned"
    container: str
    container_id: str | None
    probe_type: ProbeType
    from_result: ProbeResult
    to_result: ProbeResult
    run: int | None = None
    threshold: int | None = None
    inferred: bool = False
