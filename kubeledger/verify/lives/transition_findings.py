"""Findings about changes of cached probe results: given out once nothing can speak against them."""

from __future__ import annotations

from typing import Any

from kubeledger.machine import Record
from kubeledger.prober.records import ProbeTransitioned
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.finding import Fields, Verdict
from kubeledger.verify.lives.common import Held, Holding, subject_of
from kubeledger.verify.lives.evidence import TOLD_WITHIN_NS
from kubeledger.verify.lives.words import doubt
from kubeledger.verify.lives.worker import RebuiltWorker
from kubeledger.verify.lives.workers import Workers

__all__ = ["RULE", "TransitionFindings"]

RULE = "pkg/kubelet/prober/worker.go doProbe"
_EVENT_WITHIN_NS = 2 * NS_PER_S
_COUNTED_WITHIN_NS = 60 * NS_PER_S
_READ_OFTEN_NS = 120 * NS_PER_S
_HOLD_MAX_NS = 90 * NS_PER_S


class TransitionFindings:
    """Holds findings for as long as events, lines and counts may still come."""

    def __init__(self, bench: Bench, workers: Workers, holding: Holding) -> None:
        self._bench = bench
        self._workers = workers
        self._holding = holding

    def give(
        self,
        record: Record,
        worker: RebuiltWorker,
        verdict: Verdict,
        *,
        why: str = "",
        missing: list[str] | None = None,
        expected: Fields | None = None,
        recorded: Fields | None = None,
        ticks: tuple[int, ...] = (),
        since_ns: int | None = None,
        certain: bool = False,
    ) -> None:
        """Give the finding, at once or when nothing more can speak against it.

        What is impossible only if all ticks since ``since_ns`` are recorded waits for the
        kubelet's counts to prove it, where the ticks' own times do not.
        """
        body = record.body
        assert isinstance(body, ProbeTransitioned)
        if missing:
            why = f"cannot be decided again without {' and '.join(missing)}"
        spec = () if worker.ask is None else (worker.ask.seq,)
        fields: dict[str, Any] = {
            "verdict": verdict, "subject": subject_of(body), "why": why, "expected": expected,
            "recorded": recorded, "missing": missing or (), "rule": RULE,
            "inputs": (*spec, *ticks),
        }  # fmt: skip
        held = Held(record, record.ts_ns, fields, worker, ticks)
        if verdict == "impossible":
            worker.impossible_ns = record.ts_ns
            worker.doubted = True
            self._have_proved(held, worker, since_ns, certain=certain)
        if verdict in ("match", "admissible"):
            held.due_ns = self._due_ns(record, body, worker)
        if held.due_ns > record.ts_ns:
            self._holding.hold(held)
        else:
            held.settle()
            self._bench.find(record, **fields)

    def _have_proved(
        self, held: Held, worker: RebuiltWorker, since_ns: int | None, *, certain: bool
    ) -> None:
        """What is impossible may wait for proof that no tick is missing."""
        held.fields["certain"] = certain
        if certain or since_ns is None:
            return
        missing = doubt(worker, since_ns, held.record.ts_ns)
        if missing is not None:
            held.open_from_ns, held.missing = since_ns, missing
            held.due_ns += _COUNTED_WITHIN_NS

    def _is_read_often(self, record: Record, worker: RebuiltWorker) -> bool:
        read_ns = worker.counters.read_ts_ns
        return read_ns is not None and record.ts_ns - read_ns < _READ_OFTEN_NS

    def _due_ns(self, record: Record, body: ProbeTransitioned, worker: RebuiltWorker) -> int:
        wait_ns = _EVENT_WITHIN_NS
        if body.inferred and self._is_read_often(record, worker):
            wait_ns = _COUNTED_WITHIN_NS
        if self._workers.must_be_told(body):
            wait_ns = max(wait_ns, TOLD_WITHIN_NS)
        if worker.on_hold:
            wait_ns = max(wait_ns, worker.period_ns * 3 // 2)
        return record.ts_ns + min(wait_ns, _HOLD_MAX_NS)
