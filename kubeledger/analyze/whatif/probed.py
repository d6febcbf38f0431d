"""One probe of a container under a variant: which ticks there would have been, and in words."""

from __future__ import annotations

import re

import msgspec

from kubeledger.analyze.whatif.twin import Step, Twin
from kubeledger.kubelet.prober.objects import FAILURE, INITIAL, SUCCESS, UNKNOWN, ProbeSpec, Result
from kubeledger.kubelet.prober.prober import COUNTS_AS
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.model.bodies.lifecycle import ContainerKilled
from kubeledger.model.bodies.prober import ProbeExecuted, ProbeResult, ProbeTransitioned, ProbeType
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.verify import Finding
from kubeledger.verify.finding import Fields

_RULE = "pkg/kubelet/prober/worker.go doProbe"


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
        seq=record.seq,
        ts_ns=record.ts_ns,
        kind=kind or record.kind,
        subject=subject,
        why=why,
        verdict="unverifiable" if missing else "impossible",
        expected=expected,
        recorded=recorded,
        missing=(missing,) if missing else (),
        rule=_RULE,
    )


def _of_recorded(
    record: Record, subject: str, why: str, expected: Fields | None = None, missing: str = ""
) -> Finding:
    """A recorded decision that would have differed; without ``expected``, not been, or perhaps."""
    recorded = msgspec.to_builtins(record.body)
    if expected is not None:
        recorded["at"] = format_ts(record.ts_ns)
        recorded = {name: recorded.get(name) for name in expected}
    return _finding(record, subject, why, expected=expected, recorded=recorded, missing=missing)


def no_restart(record: Record, kill_seq: int) -> Finding:
    """What followed a kill that would not have come."""
    names = (str(getattr(record.body, name)) for name in ("namespace", "pod", "container"))
    subject = "/".join(("container", *names))
    why = f"the container would have run on then, without the kill at record {kill_seq}"
    return _of_recorded(record, subject, why)


def _run_of(result: ProbeResult, count: int) -> str:
    word = "failure" if result == "failure" else "success"
    if count == 1:
        return f"1 {word}"
    return f"{count} {word}{'s' if word == 'failure' else 'es'} in a row"


def _before(record: Record, tick: Record) -> str:
    return f"{(record.ts_ns - tick.ts_ns) / NS_PER_S:.1f} s earlier"


_LOGGED_WITHIN_NS = 20 * NS_PER_S
"""A change that the sync loop logs comes so soon after its tick."""
_SEEN_LATE_NS = 2 * NS_PER_S
"""The start of a container is seen by so much later than it was."""
_OPEN: tuple[Result | None, ...] = (SUCCESS, FAILURE)
_TIMED_OUT = re.compile(r"time(d )?out|deadline exceeded", re.IGNORECASE)
_RESULTS: dict[ProbeResult, Result] = {
    "success": SUCCESS, "failure": FAILURE, "unknown": UNKNOWN,
}  # fmt: skip
_SAYS = {result: said for said, result in _RESULTS.items()}


class Ahead(msgspec.Struct, frozen=True):
    """A change that no record shows, or not yet.

    Attributes:
        tick: that would have led to it.
        to_result: what would have been cached.
        since: seq of the change that this follows; None: no other.
    """

    tick: Record
    to_result: ProbeResult
    since: int | None


class ProbedTwin:
    """See the module.

    Attributes:
        awaited: the newest tick, until it is known which change it led to; None after that.
        ahead: a change that would have come, and that no record has shown yet.
        early: that change, once a record has shown it.
        has_ended: its container does not run any more.
        is_reported: it was said of this container that a change is undecided.
        started_ns: when its container was seen to start; None when it was not.
        is_undecidable: which ticks there would have been is not known at all.
    """

    def __init__(
        self,
        subject: str,
        probe_type: ProbeType,
        facts: ProberFacts,
        was: ProbeSpec,
        would: ProbeSpec,
    ) -> None:
        self.subject, self.probe_type = subject, probe_type
        self._facts, self._was, self._would = facts, was, would
        self._twin = Twin(
            probe_type, facts, (was.failures, was.successes), (would.failures, would.successes)
        )
        self._steps: list[Step] = []
        self._last_ns: int | None = None
        self._failed_now = 0
        self._first_in_container = True
        self.awaited: Record | None = None
        self.ahead: Ahead | None = None
        self.early: Ahead | None = None
        self.has_ended = self.is_reported = False
        self.started_ns: int | None = None
        self._spared = self._lost = False

    @property
    def is_undecidable(self) -> bool:
        """Other moments were looked at: nothing shows what the probe would have seen then."""
        return self._was.period_s != self._would.period_s or self._is_triggered

    @property
    def _is_triggered(self) -> bool:
        """A container that is not ready is probed besides, which shifts the ticks that follow.

        Where one success makes it ready, that makes no difference.
        """
        successes = max(self._was.successes, self._would.successes)
        return (
            self.probe_type == "readiness" and self._facts.unready_triggers_probe and successes > 1
        )

    def ends_container(self, result: ProbeResult) -> bool:
        """Whether the kubelet kills the container when that is cached."""
        return result == "failure" and self.probe_type != "readiness"

    # -- what it is --------------------------------------------------------------------------

    def begin(self) -> None:
        """The worker is seen from its first tick on."""
        self._twin.begin(INITIAL[self.probe_type])

    def kubelet_started(self) -> None:
        """Another process has another worker, which may find the container running."""
        self._last_ns = None
        initial = INITIAL[self.probe_type]
        absent: Result = SUCCESS if self.probe_type == "liveness" else UNKNOWN
        keeps = self._facts.kubelet_restart_keeps_results
        self._twin.begin(*((initial, absent) if keeps else (initial,)))
        self._new_container()

    def follow(self, ts_ns: int) -> None:
        """Another container runs, seen then."""
        self._twin.follow()
        self._new_container()
        self.started_ns = ts_ns

    def _new_container(self) -> None:
        self.early = None
        self.has_ended = self.is_reported = self._spared = self._lost = False
        self.started_ns, self._first_in_container, self._failed_now = None, True, 0

    def lose(self, *, same: bool) -> None:
        """Ticks are missing."""
        self._twin.lose(same=same)
        self._lost = True

    def put(self, result: ProbeResult) -> None:
        """That is cached without a tick."""
        self._twin.put(_RESULTS[result])

    # -- ticks -------------------------------------------------------------------------------

    def tick(self, record: Record, body: ProbeExecuted, *, successes_logged: bool) -> None:
        """Take one in; :meth:`resolve` says what it changed."""
        last_ns, self._last_ns = self._last_ns, record.ts_ns
        if self.is_undecidable:
            return
        longest_s = max(self._was.period_s, self._was.timeout_s)
        gap_ns = None if last_ns is None else record.ts_ns - last_ns
        if gap_ns is not None and gap_ns > longest_s * NS_PER_S * 9 // 5:
            if not successes_logged:
                self._pass(SUCCESS, self._was.successes)
            elif not self._first_in_container:
                self.lose(same=False)
        if self._first_in_container:
            self._first_ticks()
        self._first_in_container = False
        result = COUNTS_AS.get(body.result)
        self._failed_now = self._failed_now + 1 if result == FAILURE else 0
        triggered = (
            gap_ns is not None
            and self.probe_type == "readiness"
            and self._facts.unready_triggers_probe
            and gap_ns < self._was.period_s * NS_PER_S * 7 // 10
        )
        would_be = self._would_be(record.ts_ns, result, body.output)
        self._steps = self._twin.stepped(result, would_be, triggered)
        self.awaited = record

    def _pass(self, result: Result, times: int) -> None:
        """Ticks that are known without their lines; what they changed is known otherwise."""
        for _ in range(times):
            steps = self._twin.stepped(result, (result,))
            if steps:
                self._twin.pairs = frozenset(step.after for step in steps)

    def _first_ticks(self) -> None:
        """With a shorter delay there would have been others before the first."""
        spared_s = self._was.initial_delay_seconds - self._would.initial_delay_seconds
        if spared_s <= 0:
            return
        for _ in range(min(-(-spared_s // self._was.period_s) + 1, 64)):
            self._twin.pairs |= {
                (was, step.after[1])
                for was, would in self._twin.pairs
                for step in self._twin.open_steps((was, would))
            }

    def _would_be(
        self, ts_ns: int, result: Result | None, output: str | None
    ) -> tuple[Result | None, ...]:
        """What the tick may have been under the variant."""
        same: tuple[Result | None, ...] = (result,)
        if self._would.timeout_s < self._was.timeout_s and result == SUCCESS:
            same = _OPEN
        elif self._would.timeout_s > self._was.timeout_s and result == FAILURE:
            timed_out = output is None or _TIMED_OUT.search(output)
            same = _OPEN if timed_out else same
        delay_ns = self._would.initial_delay_seconds * NS_PER_S
        if self._would.initial_delay_seconds <= self._was.initial_delay_seconds:
            return same
        if self.started_ns is None:
            return same if self._lost else (*same, None)
        waited_ns = ts_ns - self.started_ns
        if waited_ns >= delay_ns:
            return same
        return (*same, None) if waited_ns >= delay_ns - _SEEN_LATE_NS else (None,)

    # -- what they changed -------------------------------------------------------------------

    def is_meant(self, record: Record, body: ProbeTransitioned) -> bool:
        """Whether a recorded change may have come from the newest tick."""
        tick = self.awaited
        if tick is None:
            return False
        if record.cause == tick.seq:
            return True
        is_near = 0 <= record.ts_ns - tick.ts_ns <= _LOGGED_WITHIN_NS
        return is_near and any(step.was == _RESULTS[body.to_result] for step in self._steps)

    def unlogged(self, record: Record, body: ProbeTransitioned) -> None:
        """A change of which the ticks have no lines."""
        self.awaited = record
        result, times = _RESULTS[body.to_result], self._was.successes
        if result != SUCCESS:
            self.lose(same=False)
            self._steps = self._twin.stepped(result, (result,))
            return
        self._pass(SUCCESS, times - 1)
        self._steps = self._twin.stepped(SUCCESS, (SUCCESS,))

    def resolve(self, recorded: ProbeResult | None) -> set[ProbeResult | None]:
        """What the newest tick would have changed, now that it is known what it did."""
        self.awaited = None
        steps, self._steps = self._steps, []
        if not steps:
            return {recorded}
        found = self._twin.resolve(steps, None if recorded is None else _RESULTS[recorded])
        return {None if result is None else _SAYS[result] for result in found}

    # -- findings ----------------------------------------------------------------------------

    def not_reached(self, record: Record, body: ProbeTransitioned) -> Finding:
        """A recorded change that would not have come then."""
        self._spared = self.ends_container(body.to_result)
        limit = self._would.threshold(body.to_result)
        run = body.run or self._was.threshold(body.to_result)
        cached = {_SAYS[each] for each in self._twin.would_cache}
        if cached == {body.to_result}:
            why = f"the {self.probe_type} probe would have had the result {body.to_result} before"
        elif run >= limit:
            why = (
                f"the {self.probe_type} probe would not have been made yet: its initial delay of "
                f"{self._would.initial_delay_seconds} s was not over"
            )
        else:
            ticks = f"{_run_of(body.to_result, run)} of the {self.probe_type} probe"
            why = f"{ticks} would not have reached the threshold of {limit}"
            why += "; what it would have seen next is not known" if self._spared else ""
        return _of_recorded(record, self.subject, why)

    def _reached(self, ahead: Ahead) -> tuple[Fields, str]:
        """A change that would have come at another time than a recorded one, or besides all."""
        limit = self._would.threshold(ahead.to_result)
        had = f"{_run_of(ahead.to_result, limit)} by {format_ts(ahead.tick.ts_ns)}"
        why = f"the {self.probe_type} probe would have had {had}, which is its threshold"
        return {"to_result": ahead.to_result, "threshold": limit}, why

    def earlier(self, record: Record, ahead: Ahead) -> Finding:
        """A recorded change that would have come before."""
        expected, why = self._reached(ahead)
        expected["at"] = format_ts(ahead.tick.ts_ns)
        why += f", {_before(record, ahead.tick)}"
        return _of_recorded(record, self.subject, why, expected)

    def additions(self, ahead: Ahead) -> list[Finding]:
        """A change that no record shows, and the kill that would have followed."""
        tick, (change, why) = ahead.tick, self._reached(ahead)
        kind = ProbeTransitioned.kind
        found = [_finding(tick, self.subject, why, kind=kind, expected=change)]
        if self.ends_container(ahead.to_result):
            why = f"its {self.probe_type} probe would have failed then"
            kill = {"reason": f"{self.probe_type}_probe"}
            kind = ContainerKilled.kind
            found.append(_finding(tick, self.subject, why, kind=kind, expected=kill))
        return found

    def undecided(self, tick: Record) -> Finding:
        """Whether it would have changed its result then is not known."""
        missing, kind = self._missing, ProbeTransitioned.kind
        what = f"whether the {self.probe_type} probe's result would have changed"
        why = f"{what} is not known without {missing}"
        return _finding(tick, self.subject, why, kind=kind, missing=missing)

    def unruled(self, record: Record) -> Finding:
        """A recorded decision of which that is not known."""
        why = f"whether it would have been taken is not known without {self._missing}"
        return _of_recorded(record, self.subject, why, missing=self._missing)

    def judge_kill(self, record: Record) -> Finding | None:
        """What a recorded kill for this probe would have been; None: the same."""
        if self.is_undecidable:
            return self.unruled(record)
        if self.early is not None:
            tick = self.early.tick
            at = format_ts(tick.ts_ns)
            why = f"its {self.probe_type} probe would have failed at {at}, {_before(record, tick)}"
            expected = {"reason": f"{self.probe_type}_probe", "at": at}
            return _of_recorded(record, self.subject, why, expected)
        if not self._spared:
            self._twin.set_cached(FAILURE)
            cached = self._twin.would_cache
            if cached == {FAILURE}:
                return None
            if FAILURE in cached:
                return self.unruled(record)
            self._spared = True
        why = f"its {self.probe_type} probe would not have failed by then"
        return _of_recorded(record, self.subject, f"{why}, so it would not have been killed")

    @property
    def _missing(self) -> str:
        """The input without which it is not known, as a noun phrase."""
        was, would, probe = self._was, self._would, f"the {self.probe_type} probe of {self.subject}"
        if was.period_s != would.period_s:
            return f"what {probe} would have seen every {would.period_s} s"
        if self._is_triggered:
            return f"when {probe} would have been made besides, while it was not ready"
        if was.timeout_s > would.timeout_s:
            return f"how long {probe} took each time"
        if was.timeout_s < would.timeout_s:
            return f"whether {probe} would have answered within {would.timeout_s} s"
        if was.initial_delay_seconds > would.initial_delay_seconds:
            delay = was.initial_delay_seconds
            return f"what {probe} would have seen before {delay} s had passed"
        if was.initial_delay_seconds < would.initial_delay_seconds:
            return f"when the container of {probe} started, to the second"
        return f"all ticks of {probe}"
