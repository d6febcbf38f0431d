"""What a single tick says against the pod's spec, its container and its event."""

from __future__ import annotations

import re

from kubeledger.lifecycle.records import ReasonReported
from kubeledger.machine import Record
from kubeledger.prober.records import ProbeExecuted
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.lives.common import at, seconds, subject_of
from kubeledger.verify.lives.worker import RebuiltWorker

__all__ = ["tell_of_event", "tell_of_output", "tell_of_tick"]

_AT_ONCE_NS = NS_PER_S // 2
"""An event stands this near behind the line of its tick; ticks of a worker are farther apart."""
_PLAIN = re.compile(r"[\n\t -~]*")
"""What every form of a log line gives back unchanged."""
_BLOCK = "=<\n"
"""How klog begins a value with line breaks, whose lines it writes below."""
_CUT_FROM = 512
"""A text that is no shorter may have been cut off where it was sent or written."""


def tell_of_tick(bench: Bench, worker: RebuiltWorker, record: Record, body: ProbeExecuted) -> None:
    """Say what of a tick cannot be."""
    named = body.container_id
    if named is not None and worker.id_is_sure and worker.container_id not in (None, named):
        bench.contradict(
            record.ts_ns,
            subject_of(body),
            f"the tick names container {named}, and {worker.container_id} ran",
            (record.seq, f"container {named}"),
            (worker.container_seq or record.seq, f"container {worker.container_id}"),
            by_absence=True,  # of the start of another container
        )
    ask = worker.ask
    if ask is not None and ask.spec is not None and worker.probe is None:
        _tell_unasked(bench, worker, record, body)
    if ask is not None and ask.uid is not None and ask.uid == body.pod_uid:
        names, told = f"{ask.namespace}/{ask.name}", f"{body.namespace}/{body.pod}"
        if names != told:
            bench.contradict(
                record.ts_ns,
                subject_of(body),
                f"the tick names pod {told}, and its UID is that of {names}",
                (record.seq, told),
                (ask.seq, names),
            )
    _check_period(bench, worker, record, body)


def tell_of_event(bench: Bench, tick: Record, event: Record, reported: ReasonReported) -> None:
    """Say that a tick that ended unknown left the event of one that failed.

    No probe ends unknown but with an error, which has words of its own; newer kubelets send
    no event for it at all.
    """
    body = tick.body
    assert isinstance(body, ProbeExecuted)
    if body.result != "unknown" or " probe failed: " not in reported.message:
        return
    is_silent = bench.profile is not None and bench.profile.prober.unknown_without_error_is_silent
    if not is_silent and body.handler not in ("exec", "http", "tcp"):
        return
    bench.contradict(
        event.ts_ns,
        subject_of(body),
        f"the {body.probe_type} tick at {at(tick.ts_ns)} ended unknown, and the kubelet's event "
        "says that the probe failed",
        (tick.seq, "unknown"),
        (event.seq, reported.message),
    )


def tell_of_output(bench: Bench, tick: Record, event: Record, reported: ReasonReported) -> None:
    """Say that the event of a failed probe tells another output than the prober's own line.

    The kubelet writes both from one string. Where an output has several lines some of them may
    be lost, and of what no form of a line gives back unchanged nothing is said.
    """
    body = tick.body
    assert isinstance(body, ProbeExecuted)
    _, failed, told = reported.message.partition(" probe failed: ")
    if not failed or body.result != "failure" or body.output is None:
        return
    if not 0 <= event.ts_ns - tick.ts_ns <= _AT_ONCE_NS or bench.losses.at(tick.ts_ns):
        return
    blocks = any(_BLOCK in (piece.text or "") for r in (tick, event) for piece in r.evidence)
    if _may_be_one(body.output.rstrip(), told.rstrip(), blocks=blocks):
        return
    bench.contradict(
        event.ts_ns,
        subject_of(body),
        f"the {body.probe_type} tick at {at(tick.ts_ns)} and the kubelet's event of it tell "
        "different outputs of the probe",
        (tick.seq, _placed(tick, body.output)),
        (event.seq, _placed(event, told)),
    )


def _may_be_one(output: str, told: str, *, blocks: bool) -> bool:
    """Whether two lines can tell the same output; in ``blocks`` all of it may be lost."""
    if output == told or not (_PLAIN.fullmatch(output) and _PLAIN.fullmatch(told)):
        return True
    if output.count("\n") != told.count("\n"):
        return True
    short, long = sorted((output, told), key=len)
    return (blocks and not short) or (len(short) >= _CUT_FROM and long.startswith(short))


def _placed(record: Record, text: str) -> str:
    """Words with the line of the log that holds them."""
    piece = next((piece for piece in record.evidence if piece.line is not None), None)
    return repr(text) if piece is None else f"{piece.file}:{piece.line}: {text!r}"


def _tell_unasked(bench: Bench, worker: RebuiltWorker, record: Record, body: ProbeExecuted) -> None:
    """A tick of a probe that the pod does not have."""
    if worker.told_early or worker.ask is None:
        return
    worker.told_early = True
    bench.contradict(
        record.ts_ns,
        subject_of(body),
        f"a {worker.probe_type} probe ran at {at(record.ts_ns)}, and container "
        f"{body.container} has none in the pod's spec",
        (record.seq, f"a {worker.probe_type} tick"),
        (worker.ask.seq, f"no {worker.probe_type} probe"),
    )


def _check_period(bench: Bench, worker: RebuiltWorker, record: Record, body: ProbeExecuted) -> None:
    """A tick comes a period after the one before, unless that one was late itself.

    Readiness probes may be triggered at any time in newer kubelets.
    """
    profile = bench.profile
    gap_ns, before_ns = worker.last_gap_ns, worker.gap_before_ns
    if profile is None or worker.probe is None or gap_ns is None or before_ns is None:
        return
    if worker.is_readiness and profile.prober.unready_triggers_probe:
        return
    late_ns = (worker.probe.timeout_s + 1) * NS_PER_S
    period_ns = worker.period_ns
    if late_ns >= period_ns or before_ns > period_ns + late_ns or gap_ns >= period_ns - late_ns:
        return
    assert worker.ask is not None
    if worker.told_early:
        return  # once is enough
    worker.told_early = True
    bench.contradict(
        record.ts_ns,
        subject_of(body),
        f"{worker.probe_type} ticks come every {worker.probe.period_s} s, and this one "
        f"{seconds(gap_ns)} after the one before",
        (record.seq, f"a tick at {at(record.ts_ns)}"),
        (worker.ask.seq, f"periodSeconds {worker.probe.period_s}"),
    )
