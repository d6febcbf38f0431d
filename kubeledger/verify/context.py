"""What every verifier works with: frame, profile, settings, pods, and how to say what it found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.bodies.lifecycle import PodConfigChanged, PodListed
from kubeledger.model.bodies.prober import ProbeResult, ProbeType
from kubeledger.model.record import Body, Decision, Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.episodes.pod_stages import PodStages
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.debts import Debt, Debts, Missed
from kubeledger.verify.evidence.coverage import Coverage
from kubeledger.verify.evidence.machine import Alignment, Machine
from kubeledger.verify.evidence.pods import ListedInstances, PodRegister
from kubeledger.verify.evidence.processes import Process
from kubeledger.verify.evidence.timeline import Timeline
from kubeledger.verify.evidence.times import Times
from kubeledger.verify.finding import Contradiction, Finding, PendingFindings, Side, place_of
from kubeledger.verify.variant import RECORDED, Settings, Variant, profile_of

if TYPE_CHECKING:
    from kubeledger.verify.rules.admission.case import AdmissionCase


_ASKED_NS: Final = 3600 * NS_PER_S


class CachedResult(msgspec.Struct, frozen=True, kw_only=True):
    """What is cached for the container that a worker probes, as far as the records show.

    Attributes:
        may_be: (n,) every result that it may be, n >= 1.
        seqs: the ticks that it rests on, newest last.
        missing: what would decide between several; empty for one.
    """

    may_be: frozenset[ProbeResult]
    seqs: tuple[int, ...] = ()
    missing: tuple[str, ...] = ()


class CachedResults:
    """Answers for the time just before the record that is being read; this one knows nothing."""

    def cached(
        self, key: str, container: str, probe_type: ProbeType, ts_ns: int
    ) -> CachedResult | None:
        """The cached result of one worker now, by its pod's key; None where no record shows it."""
        return None

    def hole(self, start_ns: int, end_ns: int) -> bool:
        """Whether a worker that had to tick did not, so that lines are missing in a span."""
        return False


class Pressure(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the node has a pressure condition, as far as the records show.

    Attributes:
        present: None where that is not known.
        seq: the reading that it rests on; 0 for none.
        why: that reading in words, or what is missing.
    """

    present: bool | None = None
    seq: int = 0
    why: str = "the eviction signals at this time (logged from verbosity 3)"


class NodePressure:
    """Answers for the time just before the record that is being read; this one knows nothing.

    Attributes:
        reported: conditions that this kubelet process reported last; None before it did.
    """

    reported: frozenset[str] | None = None

    def pressure(self, condition: str, since_ns: int, until_ns: int) -> Pressure:
        """Whether the node has a condition through the whole of a span.

        Args:
            condition: ``MemoryPressure``, ``DiskPressure`` or ``PIDPressure``.
            since_ns: start of the span; nothing is shown of one before the last signals.
            until_ns: its end.
        """
        return Pressure()


class VerifyContext:
    """What all verifiers of one node share while its decisions are made again.

    Attributes:
        variant: what replaces recorded settings.
        profile: rules of the kubelet that runs now, with its feature gates; None when its
            version is not known, or is one outside of the known range.
        process: the kubelet process that runs; None before the first.
        settings: the effective settings now; ``former_settings`` those of the process before.
        pods: every pod that a list shows, ever.
        recorded_pods: those that the variant changes, as they are recorded.
        instances: what lists show of single instances of containers.
        times: when things can have happened.
        machine: what it has, as several sources show it.
        alignment: hints and affinities of the topology manager.
        stages: what pods did not get past, up to the record that is being read.
        cached_results: results of probes, as their rule believes them.
        node_pressure: conditions of the node, as the rule of evictions believes them.
        on_question: is called for each admission: seq of the decision that it is asked for, and
            what it rests on.
        asked_ns: rules ask for no earlier time; ``gone``: nor for pods of these UIDs, of which
            nothing is known any more since evidence was derived last.
    """

    def __init__(
        self,
        variant: Variant = RECORDED,
        on_question: Callable[[int, AdmissionCase], None] = lambda _, __: None,
    ) -> None:
        self.variant = variant
        self.on_question = on_question
        self.settings = Settings(variant)
        self.former_settings = Settings(variant)
        self.pods = PodRegister()
        self.recorded_pods = PodRegister()
        self.instances = ListedInstances()
        self.coverage = Coverage()
        self.times = Times(self.instances)
        self.timeline = Timeline(self.coverage, self.pods, self.times)
        self.machine = Machine()
        self._notes: dict[type[Body], list[Callable[[Record], None]]] = {
            PodConfigChanged: [self.pods.note_update],
            PodListed: [self.pods.note, self.instances.note],
        }
        for part in (self.coverage, self.times, self.timeline, self.machine):
            for kind in dict.fromkeys(part.KINDS):
                self._notes.setdefault(kind, []).append(part.note)
        self.alignment = Alignment()
        self.stages = PodStages(only_told=True)
        self.cached_results = CachedResults()
        self.node_pressure = NodePressure()
        self.pending = PendingFindings()
        self.debts = Debts(self.coverage, self.convict)
        self.process: Process | None = None
        self._next_process_ns: int | None = None
        self.profile: KubeletProfile | None = None
        self.version_text: str | None = None
        self._recorded_version: str | None = None
        self.asked_ns = 0
        self.gone: set[str] = set()
        self._use_version(None)

    KINDS: tuple[type[Body], ...] = (
        *(*Coverage.KINDS, *Times.KINDS, *Timeline.KINDS, *Machine.KINDS),
    )
    """Kinds of the records that this needs in the first reading."""

    def prescan(self, original: Record) -> Record:
        """Take in a record of the first reading; gives it as it is under the variant."""
        record = self.variant.of(original)
        if record is not original:
            self.recorded_pods.note(original)
        for note in self._notes.get(type(record.body), ()):
            note(record)
        return record

    def settle(self, seen_ns: int | None = None) -> None:
        """Derive all evidence from what was noted of it.

        Args:
            seen_ns: to which the second reading has come: rules ask an hour back from there.
        """
        if seen_ns is not None:
            self.asked_ns = seen_ns - _ASKED_NS
            self.gone = self.timeline.forget(self.asked_ns)
            for each in (self.pods, self.recorded_pods, self.instances, self.coverage):
                each.forget(self.gone)
            self.times.forget(self.asked_ns, self.gone)
        self.pods.settle()
        self.recorded_pods.settle()
        self.times.settle()
        self.coverage.settle(self.times.two_clocks(), unjoined=self.timeline.are_unjoined())
        self.timeline.settle()
        if self.process is not None:
            self._take(self.timeline.processes.known(self.process))
        self._next_process_ns = self.timeline.processes.next_ns(self.process)
        self.machine.settle()

    def observe(self, record: Record) -> None:
        """Take in what concerns all: which kubelet process runs, and what pods are stuck in."""
        self.settings.asked.clear()
        self.stages.take(record)
        disputes = self.machine.disputes
        for dispute in disputes.pop(record.seq, ()) if disputes else ():
            self.pending.add(dispute)
        if self._next_process_ns is not None and record.ts_ns >= self._next_process_ns:
            process = self.timeline.process(record.ts_ns)
            if process is not None and process.has_begun(record):
                self.former_settings = Settings(self.variant, self.process)
                self._next_process_ns = self.timeline.processes.next_ns(process)
                self._take(process)
                self.debts.restart()
        self.debts.observe(record)

    def _take(self, process: Process) -> None:
        self.process = process
        self.settings.use(process)
        self._use_version(process.version)

    def _use_version(self, recorded: str | None) -> None:
        self._recorded_version = recorded
        self.version_text = self.variant.kubelet_version or recorded
        self.profile = profile_of(self.version_text, self.settings.get("featureGates"))

    @property
    def recorded_profile(self) -> KubeletProfile | None:
        """Rules of the kubelet that ran, without the variant."""
        return profile_of(self._recorded_version, self.settings.as_recorded().get("featureGates"))

    @property
    def known_profile(self) -> KubeletProfile:
        """``profile`` where it is known: without it nothing is judged."""
        assert self.profile is not None
        return self.profile

    @property
    def missing_profile(self) -> str:
        """What to name as missing when ``profile`` is None."""
        if self.version_text is None:
            return "the kubelet's version"
        return f"the rules of kubelet {self.version_text}"

    def absent(self, missed: Missed, *, certain: bool = False) -> None:
        """Say that a decision had to follow on an observation, and none was recorded.

        Nothing is said where the log lost lines (the decision's may be among them), unless it
        is ``certain``: it would show elsewhere than in the log. It may show ``by_lines`` between
        two steps of the clock, whatever clock files go by.
        """
        since, ts_ns, by_lines = missed.since, missed.since.ts_ns, missed.by_lines
        if not certain and self.coverage.at(ts_ns, missed.kind, owed=True, by_lines=by_lines):
            return
        self.pending.add(
            Finding(
                seq=since.seq,
                ts_ns=ts_ns,
                kind=missed.kind,
                subject=missed.subject,
                verdict="impossible",
                expected=missed.expected,
                why=missed.why,
                rule=missed.rule,
                inputs=tuple(dict.fromkeys(missed.inputs)),
                **place_of(since),
            )
        )

    def convict(self, debt: Debt) -> None:
        """Say that something had to come and did not."""
        if not debt.of_pod or self.timeline.goes_on(debt.since, debt.due_ns):
            self.absent(debt)

    def contradict(
        self,
        ts_ns: int,
        subject: str,
        why: str,
        *sides: tuple[int, str],
        by_absence: bool = False,
        kind: str = "",
        by_lines: bool = False,
        timeless: bool = False,
    ) -> None:
        """Say that sources disagree; each side is a record's seq and what it says.

        One side ``by_absence`` is what the log does not hold; then nothing is said where the
        log lost lines, or holds none of a class that decisions of a ``kind`` rest on. Nor is where
        they may go by two clocks, but of what is ``timeless`` in lists that nobody changed, or
        ``by_lines`` between two steps.
        """
        is_lost = by_absence and self.coverage.at(ts_ns, kind, by_lines=by_lines) is not None
        if is_lost or self.coverage.is_apart(ts_ns, by_lines=by_lines, timeless=timeless):
            return
        if self.settings.asked and self.settings.seq in {seq for seq, _ in sides}:
            return
        said = tuple(Side(seq=seq, says=says) for seq, says in sides)
        self.pending.add(Contradiction(ts_ns=ts_ns, subject=subject, why=why, sides=said))


# The frame of a verifier: which records it wants to see, and when.
#
#     prescans   first reading, ahead of the second: facts that later records show earlier times
#     derive     the first reading came to the end of a stretch, or of the records
#     sees       second reading, in the order of replay, before the record changes the state
#     settle     after the last record
#
# A verifier of a decision calls ``conclude`` once for it, then or later. Verifiers do not know each
# other: what one needs of another's subsystem is in the node's state, or it looks at the same
# records.

Prescan = Callable[[Record, Any], None]
"""(record, its body)."""
See = Callable[[Record, Any, NodeState], object]
"""(record, its body, the state just before it); the state must not be changed or kept."""


class Verifier:
    """One subject of verification.

    Attributes:
        decides: decisions it gives findings to; no other verifier does.
    """

    decides: ClassVar[tuple[type[Decision], ...]] = ()

    def __init__(self, context: VerifyContext) -> None:
        self.context = context

    def prescans(self) -> Mapping[type[Body], Prescan]:
        """Body type -> what to do with such a record in the first reading."""
        return {}

    def derive(self, state: NodeState) -> None:
        """Make what is asked of what ``prescans`` noted, as often as more of it was."""

    def sees(self) -> Mapping[type[Body], See]:
        """Body type -> what to do with such a record just before it changes the state."""
        return {}

    def settle(self, state: NodeState) -> None:
        """The ledger ended; give findings to what still waits."""
