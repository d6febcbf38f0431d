"""Findings about the writes of the QoS level: was one due, and with what did it reckon."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kubeledger.cgroups.records import QOSReserveComputed
from kubeledger.images.records import EvictionSignalObserved
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.units import NS_PER_S, format_ts
from kubeledger.verify.bench import Bench
from kubeledger.verify.cgroups.coverage import Coverage
from kubeledger.verify.cgroups.lives import Lives
from kubeledger.verify.cgroups.pods import Rules
from kubeledger.verify.cgroups.settings import NO_RESERVE
from kubeledger.verify.cgroups.sums import sums_between
from kubeledger.verify.cgroups.waiting import UNTOLD
from kubeledger.verify.cgroups.writes import PERIOD_NS, Write, Writes

__all__ = ["WHOLE_LOG", "WriteJudge"]

WHOLE_LOG: Final = "the whole log, of which a piece with a beat of the minute timer is not there"

Say = Callable[[], None]
SayWhy = Callable[[str], None]
"""Told what is missing."""
_RULE: Final = "pkg/kubelet/cm/qos_container_manager_linux.go UpdateCgroups"
_SUBJECT: Final = "node"
_SPAN_NS: Final = 10 * NS_PER_S
_SILENT_NS: Final = 25 * NS_PER_S
_LOGGED_NS: Final = NS_PER_S
"""A write is logged so soon after what it reckons with."""
_ODD_MAX: Final = 8
_NEAR_NS: Final = 500_000_000
_ORPHANS_NS: Final = 60 * NS_PER_S
"""So long after its start a kubelet may still kill pods that were taken away without it."""


class WriteJudge:
    """Judges one write after the other; one that nothing explains waits for the next beat."""

    def __init__(
        self,
        bench: Bench,
        lives: Lives,
        writes: Writes,
        coverage: Coverage,
        on_hole: Callable[[], None],
    ) -> None:
        self._bench = bench
        self._coverage = coverage
        self._lives = lives
        self.writes = writes
        self._reserves: dict[str, tuple[int, int, int]] = {}
        self._reserved_ns = 0
        self._odd: list[Write] = []
        self._began_with_pods = False
        self._held: list[tuple[Say, SayWhy]] = []
        self._on_hole = on_hole
        self._started_ns: int | None = None
        self._alive_ns: int | None = None

    def hold(self, ts_ns: int, *, sure: Say, doubtful: SayWhy) -> None:
        """Something cannot be as it is told: say so at the next beat, if that is in time.

        A beat that is not there shows that a piece of the log is not, either. By the beat more
        may be told of the pods, so that ``sure`` looks again; what a sync loop that waits has
        not told yet is waited for.
        """
        if self.writes.timer.beats or self._lives.loop.is_behind(ts_ns):
            self._held.append((sure, doubtful))
        else:
            sure()

    def told_until(self, ts_ns: int) -> bool:
        """Whether the log tells of what was right before a time, and right behind it."""
        return self._coverage.told(ts_ns - _SPAN_NS, ts_ns)

    def _release(self, missing: str | None = None) -> None:
        held, self._held = self._held, []
        for sure, doubtful in held:
            if missing is None:
                sure()
            else:
                doubtful(missing)

    def _release_at_end(self) -> None:
        """Nothing more is told of the process."""
        self._release(UNTOLD if self._lives.loop.waits else None)

    def alive(self, record: Record, body: EvictionSignalObserved, state: NodeState) -> None:
        """The eviction manager told of its signals, as it does every ten seconds."""
        ts_ns, alive_ns = record.ts_ns, self._alive_ns
        if alive_ns is not None and ts_ns - alive_ns > _SILENT_NS:
            self._hole()
        self._alive_ns = ts_ns

    def _watch(self, ts_ns: int) -> None:
        """The log goes on at this time; it may not have in between."""
        if self._alive_ns is not None and ts_ns - self._alive_ns > _SILENT_NS:
            self._hole()

    def _hole(self) -> None:
        """A piece of the log is missing."""
        self._alive_ns = None
        self._release(WHOLE_LOG)
        odd, self._odd = self._odd, []
        for write in odd:
            self._unknown(write, WHOLE_LOG)
        self._on_hole()

    def kubelet_started(self) -> None:
        """The log of a process begins, which has a timer of its own."""
        self._give_up()
        self._release_at_end()
        self._reserves.clear()
        self._alive_ns = None
        self._began_with_pods = next(self._lives.all(), None) is not None
        self.writes.kubelet_started()

    def start_seen(self, ts_ns: int) -> None:
        """It begins with the start of the process."""
        self._started_ns = ts_ns
        self.writes.start_seen()

    def settle(self) -> None:
        """The ledger ended."""
        self._give_up()
        self._release_at_end()

    def reserve(self, record: Record, body: QOSReserveComputed, state: NodeState) -> None:
        """What the write that follows reckons with."""
        if record.ts_ns - self._reserved_ns > _LOGGED_NS:
            self._reserves = {}  # the line of the write that they belonged to is lost
        self._reserved_ns = record.ts_ns
        self._reserves[body.qos_class] = (record.seq, body.requested_bytes, body.reserve_percent)

    def written(self, record: Record, rules: Rules | None) -> None:
        """A write."""
        self._watch(record.ts_ns)
        if record.ts_ns - self._reserved_ns > _LOGGED_NS:
            self._reserves = {}
        write = Write(record, rules, self._reserves, self.writes.run)
        self._reserves = {}
        if rules is None:
            self.writes.add(write)
            self._bench.unverifiable(
                record, subject=_SUBJECT, missing=[self._bench.missing_profile], rule=_RULE
            )
            return
        timer = self.writes.timer
        if timer.first and not timer.beats and self._late(write):
            timer.first = False
            self._hole()
        last = timer.beats[-1:]
        self.writes.explain(write, self._lives)
        wrong = self._reckoning(write, rules)
        self.writes.add(write)
        if write.cause is None:
            self._odd_one(write)
            return
        if write.cause == "timer":
            self._on_beat(write, last)
        self._judge(write, rules, wrong)

    def _judge(self, write: Write, rules: Rules, wrong: str | None) -> None:
        """Give a write that was due its finding."""
        if not rules.settings.per_qos:
            self._say(write, "cgroupsPerQOS is off, so there are no QoS cgroups to write")
        elif wrong is None:
            self._say(write)
        elif not self._lives.complete(write.ts_ns):
            self._unknown(write, "the pods that were active")
        elif not self.told_until(write.ts_ns + _SPAN_NS):
            self._unknown(write, WHOLE_LOG)
        else:
            self.hold(
                write.ts_ns,
                sure=lambda: self._say(write, self._reckoning(write, rules)),
                doubtful=lambda missing: self._unknown(write, missing),
            )

    # What it reckoned with --------------------------------------------------------------

    def _reckoning(self, write: Write, rules: Rules) -> str | None:
        """Why the sums that were logged cannot be; None where they can, or none were logged."""
        if not write.reserves:
            return None
        percent = rules.settings.reserve_percent
        if percent is None:
            return None
        if percent == NO_RESERVE:
            return "memory is not among qosReserved, so no reserve is computed"
        for qos_class, (_, _, logged) in sorted(write.reserves.items()):
            if logged != percent:
                return f"the reserve of {qos_class} is {percent} %, not {logged} %"
        at = write.ts_ns
        sums = sums_between(self._lives, self._bench.pods, rules, at, at)
        if sums.missing or sums.unknown:
            return None
        logged_bytes = {name: number for name, (_, number, _) in write.reserves.items()}
        for requests in sums.possible:
            summed = {
                "Guaranteed": requests.guaranteed_memory,
                "Burstable": requests.burstable_memory,
            }
            if all(summed.get(name) == number for name, number in logged_bytes.items()):
                if len(logged_bytes) == len(summed):
                    write.requests = (summed["Guaranteed"], summed["Burstable"])
                return None
        usual = sums.usual
        told = ", ".join(f"{number} of {name}" for name, number in sorted(logged_bytes.items()))
        return (
            f"the active pods request {usual.guaranteed_memory} bytes (Guaranteed) and "
            f"{usual.burstable_memory} bytes (Burstable), and no other set that can have been "
            f"active requests what it reckoned with: {told}"
        )

    # When it was due --------------------------------------------------------------------

    def _on_beat(self, write: Write, last: list[int]) -> None:
        """A beat settles what came off the beat before it, and shows beats that are missing."""
        minutes = round((write.ts_ns - last[0]) / PERIOD_NS) if last else 1
        odd, self._odd = self._odd, []
        odd = [other for other in odd if not self._explained_late(other)]
        if minutes > 1 and not (minutes == 2 and len(odd) == 1):  # one was moved
            self._odd = odd
            self._hole()
            return
        for other in odd:
            self._judge_odd(other, write)
        if minutes > 1:
            self._release(WHOLE_LOG)
        elif not self._lives.loop.is_behind(write.ts_ns):
            self._release()

    def _explained_late(self, write: Write) -> bool:
        """Whether what was told since explains a write."""
        self.writes.explain_by_pods(write, self._lives)
        if write.cause is None or write.rules is None:
            return False
        self._judge(write, write.rules, self._reckoning(write, write.rules))
        return True

    def _late(self, write: Write) -> bool:
        """Whether the first write that is told comes too late to be the first one."""
        return self._started_ns is not None and write.ts_ns > self._started_ns + PERIOD_NS

    def _odd_one(self, write: Write) -> None:
        """Neither on a beat nor explained by a pod."""
        for other in self._odd:
            minutes = round((write.ts_ns - other.ts_ns) / PERIOD_NS)
            late = write.ts_ns - other.ts_ns - minutes * PERIOD_NS
            if minutes >= 1 and abs(late) <= _NEAR_NS * minutes:
                self._rebase(other, write)
                return
        self._odd.append(write)
        if len(self._odd) > _ODD_MAX:
            self._unknown(self._odd.pop(0))

    def _rebase(self, first: Write, second: Write) -> None:
        """Two writes a whole number of minutes apart: that is the timer."""
        timer = self.writes.timer
        stepped = bool(timer.beats)
        timer.beats = [second.ts_ns]
        self._odd.remove(first)
        for write in (first, second):
            write.cause = "timer"
            write.explained = (
                "it and the writes whole minutes from it are beats of the minute timer"
                + (", whose beat the node's clock moved" if stepped else "")
            )
            self._say(write)
        odd, self._odd = self._odd, []
        for other in odd:
            if not self._explained_late(other):
                self._judge_odd(other, second)

    def _judge_odd(self, write: Write, beat: Write) -> None:
        if self._lives.loop.is_behind(beat.ts_ns):
            self._odd.append(write)
            return
        if not self._complete(write):
            self._unknown(write)
            return
        if not self.told_until(write.ts_ns + _SPAN_NS):
            self._unknown(write, WHOLE_LOG)
            return
        self._bench.find(
            write.record,
            "impossible",
            subject=_SUBJECT,
            why=f"no write of the QoS cgroups was due at {format_ts(write.ts_ns)}: the minute "
            f"timer beats at {format_ts(beat.ts_ns)} and whole minutes from it, no pod was "
            "synced for the first time, and none was taken down",
            rule=_RULE,
            recorded={},
            inputs=(beat.record.seq,),
        )

    def _complete(self, write: Write) -> bool:
        """Whether every reason for a write would have been told."""
        started = self._lives.started_ns
        if not self._lives.complete(write.ts_ns):
            return False
        if started is None:
            return True
        return not self._began_with_pods or write.ts_ns > started + _ORPHANS_NS

    def _give_up(self) -> None:
        odd, self._odd = self._odd, []
        for write in odd:
            self._unknown(write)

    def _unknown(self, write: Write, missing: str | None = None) -> None:
        if missing is None:
            known = bool(self.writes.timer.beats)
            missing = f"the {'next beat' if known else 'start'} of the minute timer"
        self._bench.unverifiable(write.record, subject=_SUBJECT, missing=[missing], rule=_RULE)

    def _say(self, write: Write, wrong: str | None = None) -> None:
        logged = tuple(seq for seq, _, _ in write.reserves.values())
        self._bench.find(
            write.record,
            "match" if wrong is None else "impossible",
            subject=_SUBJECT,
            why=wrong or f"a write of the QoS cgroups was due: {write.explained}",
            expected={},
            recorded={},
            rule=_RULE,
            inputs=(*write.inputs, *logged),
        )
