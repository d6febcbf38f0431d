"""Findings about probes under a variant, and their sentences."""

from __future__ import annotations

import msgspec

from kubeledger.model.bodies.prober import ProbeResult, ProbeType
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.verify import Finding
from kubeledger.verify.finding import Fields

_RULE = "pkg/kubelet/prober/worker.go doProbe"


def finding(record: Record, subject: str, why: str, expected: Fields | None = None) -> Finding:
    """A recorded decision that would have differed; without ``expected``, none."""
    recorded = msgspec.to_builtins(record.body)
    if expected is not None:
        recorded["at"] = format_ts(record.ts_ns)
        recorded = {name: recorded.get(name) for name in expected}
    return _finding(record, subject, why, expected=expected, recorded=recorded)


def addition(tick: Record, kind: str, subject: str, why: str, expected: Fields) -> Finding:
    """A decision that is not recorded, at the tick that would have led to it."""
    return _finding(tick, subject, why, kind=kind, expected=expected)


def open_addition(
    tick: Record, kind: str, subject: str, missing: str, probe_type: ProbeType
) -> Finding:
    """A decision that is not recorded, and may have been taken."""
    why = f"whether the {probe_type} probe's result would have changed is not known"
    return _finding(tick, subject, f"{why} without {missing}", kind=kind, missing=missing)


def unruled(record: Record, subject: str, missing: str) -> Finding:
    """A recorded decision that perhaps would not have been taken."""
    why = f"whether it would have been taken is not known without {missing}"
    recorded = msgspec.to_builtins(record.body)
    return _finding(record, subject, why, recorded=recorded, missing=missing)


def _finding(
    record: Record,
    subject: str,
    why: str,
    *,
    kind: str = "",
    missing: str = "",
    expected: Fields | None = None,
    recorded: Fields | None = None,
) -> Finding:
    return Finding(
        seq=record.seq, ts_ns=record.ts_ns, kind=kind or record.kind, subject=subject, why=why,
        verdict="unverifiable" if missing else "impossible", expected=expected,
        recorded=recorded, missing=(missing,) if missing else (), rule=_RULE,
    )  # fmt: skip


def no_restart(record: Record, kill_seq: int) -> Finding:
    """What followed a kill that would not have come."""
    names = (str(getattr(record.body, name)) for name in ("namespace", "pod", "container"))
    subject = "/".join(("container", *names))
    why = f"the container would have run on then, without the kill at record {kill_seq}"
    return finding(record, subject, why)


def below(probe_type: ProbeType, result: ProbeResult, run: int, limit: int, *, spared: bool) -> str:
    """A run of ticks does not reach the threshold."""
    count = f"{run} {_named(result, run)} in a row" if run > 1 else f"1 {_named(result, 1)}"
    why = f"{count} of the {probe_type} probe would not have reached the threshold of {limit}"
    if spared:
        return f"{why}; what it would have seen next is not known"
    return why


def reached(
    probe_type: ProbeType, result: ProbeResult, limit: int, record: Record | None, tick: Record
) -> str:
    """A run of ticks reaches the threshold, earlier than that record or besides all records."""
    run = f"{limit} {_named(result, limit)} in a row" if limit > 1 else f"1 {_named(result, 1)}"
    when = format_ts(tick.ts_ns)
    why = f"the {probe_type} probe would have had {run} by {when}, which is its threshold"
    return why if record is None else f"{why}, {_before(record, tick)}"


def earlier_kill(probe_type: ProbeType, record: Record, tick: Record) -> str:
    """A kill comes earlier, with the failure of its probe."""
    return f"its {probe_type} probe would have failed at {format_ts(tick.ts_ns)}, " + _before(
        record, tick
    )


def spared(probe_type: ProbeType) -> str:
    """A kill does not come."""
    return f"its {probe_type} probe would not have failed by then, so it would not have been killed"


def _before(record: Record, tick: Record) -> str:
    return f"{(record.ts_ns - tick.ts_ns) / NS_PER_S:.1f} s earlier"


def _named(result: ProbeResult, count: int) -> str:
    word = "failure" if result == "failure" else "success"
    return word if count == 1 else f"{word}s" if word == "failure" else "successes"
