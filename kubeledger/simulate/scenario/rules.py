"""Rules of what a probe finds, as steps in the order of time."""

from __future__ import annotations

from kubeledger.model.bodies.prober import TickResult
from kubeledger.simulate.engine.plan import ProbeStep
from kubeledger.simulate.scenario.models_pods import Probe

__all__ = ["probe_steps"]


def probe_steps(probe: Probe, end_ns: int = 0) -> tuple[ProbeStep, ...]:
    """The steps that a script stands for.

    Args:
        probe: the script.
        end_ns: ``flaps`` continues until then.
    """
    if probe.steps is not None:
        return tuple(_step(probe, step.from_, step.result, step.output) for step in probe.steps)
    found: list[ProbeStep] = []
    for start_ns, stop_ns in _failures(probe, end_ns):
        found.append(_step(probe, start_ns, probe.result, probe.output))
        if stop_ns is not None:
            found.append(_step(probe, stop_ns, "success", ""))
    return tuple(found)


def _failures(probe: Probe, end_ns: int) -> list[tuple[int, int | None]]:
    if probe.flaps is not None:
        every = probe.flaps.every
        first = probe.flaps.from_ + every
        return [(at, at + every) for at in range(first, max(end_ns, first) + 1, 2 * every)]
    spans = probe.fails if isinstance(probe.fails, list) else [probe.fails]
    return [
        (span.from_, None if span.for_ is None else span.from_ + span.for_)
        for span in spans
        if span is not None
    ]


def _step(probe: Probe, from_ns: int, result: TickResult, output: str) -> ProbeStep:
    return ProbeStep(from_ns=from_ns, since=probe.since, result=result, output=output)
