"""Findings about the writes of the QoS level: was one due, and with what did it reckon."""

from __future__ import annotations

from typing import Final

from kubeledger.cgroups.records import QOSCgroupsUpdated, QOSReserveComputed
from kubeledger.machine import Record
from kubeledger.units import NS_PER_S, format_ts
from kubeledger.verify.bench import Bench
from kubeledger.verify.cgroups.lives import Lives
from kubeledger.verify.cgroups.pods import Rules
from kubeledger.verify.cgroups.settings import NO_RESERVE
from kubeledger.verify.cgroups.sums import sums_between
from kubeledger.verify.cgroups.writes import PERIOD_NS, Write, Writes

__all__ = ["WriteJudge"]

_RULE: Final = "pkg/kubelet/cm/qos_container_manager_linux.go UpdateCgroups"
_SUBJECT: Final = "node"
_SPAN_NS: Final = 10 * NS_PER_S
_SPANS: Final = 40
_ODD_MAX: Final = 8
_NEAR_NS: Final = 500_000_000
_ORPHANS_NS: Final = 60 * NS_PER_S
"""So long after its start a kubelet may still kill pods that were taken away without it."""


class WriteJudge:
    """Judges one write after the other; one that nothing explains waits for the next beat."""

    def __init__(self, bench: Bench, lives: Lives, writes: Writes) -> None:
        self._bench = bench
        self._lives = lives
        self._writes = writes
        self._reserves: dict[str, tuple[int, int, int]] = {}
        self._odd: list[Write] = []
        self._spans: dict[int, None] = {}
        self._began_with_pods = False

    def active(self, ts_ns: int) -> None:
        """The log goes on: something was told at this time."""
        span = ts_ns // _SPAN_NS
        if span not in self._spans:
            self._spans[span] = None
            if len(self._spans) > _SPANS:
                del self._spans[next(iter(self._spans))]

    def kubelet_started(self, ts_ns: int) -> None:
        """A process begins, with a timer of its own."""
        self._give_up()
        self._reserves.clear()
        self._began_with_pods = next(self._lives.all(), None) is not None
        self._writes.kubelet_started()

    def settle(self) -> None:
        """The ledger ended."""
        self._give_up()

    def reserve(self, record: Record, body: QOSReserveComputed) -> None:
        """What the write that follows reckons with."""
        self._reserves[body.qos_class] = (record.seq, body.requested_bytes, body.reserve_percent)

    def written(self, record: Record, rules: Rules | None) -> None:
        """A write."""
        write = Write(record, rules, self._reserves, self._writes.run)
        self._reserves = {}
        if rules is None:
            self._writes.add(write)
            self._bench.unverifiable(
                record, subject=_SUBJECT, missing=[self._bench.missing_profile], rule=_RULE
            )
            return
        last = self._writes.timer.beats[-1:]
        self._writes.explain(write, self._lives)
        wrong = self._reckoning(write, rules)
        self._writes.add(write)
        if write.cause is None:
            self._odd_one(write)
            return
        if write.cause == "timer":
            self._on_beat(write, last)
        if not rules.settings.per_qos:
            wrong = "cgroupsPerQOS is off, so there are no QoS cgroups to write"
        self._say(write, wrong)

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
        if sums.missing:
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
        odd, self._odd = self._odd, []
        for other in odd:
            self._judge_odd(other, write)
        recent = self._writes.recent
        if not last or odd or any(other.ts_ns > last[0] and other is not write for other in recent):
            return
        minutes = round((write.ts_ns - last[0]) / PERIOD_NS)
        missed = [last[0] + n * PERIOD_NS for n in range(1, minutes)]
        for due in missed[:1]:
            if all((due + d * _SPAN_NS) // _SPAN_NS in self._spans for d in (-1, 0, 1)):
                self._bench.absent(
                    write.record,
                    QOSCgroupsUpdated.kind,
                    subject=_SUBJECT,
                    expected={},
                    why=f"the QoS cgroups had to be written at {format_ts(due)}, one minute after "
                    f"the write at {format_ts(last[0])}, and the log that goes on tells of none",
                    rule=_RULE,
                    inputs=(write.record.seq,),
                )

    def _odd_one(self, write: Write) -> None:
        """Neither on a beat nor explained by a pod."""
        timer = self._writes.timer
        for other in self._odd:
            minutes = round((write.ts_ns - other.ts_ns) / PERIOD_NS)
            late = write.ts_ns - other.ts_ns - minutes * PERIOD_NS
            if minutes >= 1 and abs(late) <= _NEAR_NS * minutes:
                self._rebase(other, write)
                return
        self._odd.append(write)
        if len(self._odd) > _ODD_MAX or (not timer.beats and not self._odd):
            self._unknown(self._odd.pop(0))

    def _rebase(self, first: Write, second: Write) -> None:
        """Two writes a whole number of minutes apart: that is the timer."""
        timer = self._writes.timer
        stepped = bool(timer.beats)
        timer.beats = [second.ts_ns]
        self._odd.remove(first)
        for write in (first, second):
            write.cause = "timer"
            write.explained = (
                "it and the writes whole minutes from it are beats of the minute timer"
                + (", whose beat the node's clock moved" if stepped else "")
            )
            self._say(write, None)
        odd, self._odd = self._odd, []
        for other in odd:
            self._judge_odd(other, second)

    def _judge_odd(self, write: Write, beat: Write) -> None:
        if not self._complete(write):
            self._unknown(write)
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
        lives, started = self._lives, self._lives.started_ns
        if not (lives.configured or started is not None):
            return False
        if started is None:
            return True
        return not self._began_with_pods or write.ts_ns > started + _ORPHANS_NS

    def _give_up(self) -> None:
        for write in self._odd:
            self._unknown(write)
        self._odd.clear()

    def _unknown(self, write: Write) -> None:
        missing = (
            ["the next beat of the minute timer"]
            if self._writes.timer.beats
            else ["the start of the minute timer"]
        )
        self._bench.unverifiable(write.record, subject=_SUBJECT, missing=missing, rule=_RULE)

    def _say(self, write: Write, wrong: str | None) -> None:
        logged = tuple(seq for seq, _, _ in write.reserves.values())
        inputs = (*write.inputs, *logged)
        self._bench.find(
            write.record,
            "match" if wrong is None else "impossible",
            subject=_SUBJECT,
            why=wrong or f"a write of the QoS cgroups was due: {write.explained}",
            expected={},
            recorded={},
            rule=_RULE,
            inputs=inputs,
        )
