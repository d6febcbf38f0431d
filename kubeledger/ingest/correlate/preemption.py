"""Preemption: whom the kubelet chose so that a critical pod fits, and what came of it.

1.20 names all victims in one line, as Go dumps of their objects, and not whom they make
room for; that is the pod whose admission is under way, because admission and preemption
run inside the sync loop, one pod after the other. Since 1.33 or so a line a victim names
both. Killing blocks that loop, so its next turn ends the wait for outcomes. Where the log
lost these lines, a victim's status or event reports it.
"""

from __future__ import annotations

from kubeledger.ingest.correlate.assembler import PodAssembler, about_pod, reads, reads_if
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import Waiting, shown
from kubeledger.ingest.correlate.registers import Pod, Registers
from kubeledger.ingest.correlate.rejections import PREEMPTING, RECOVERY, failed_status
from kubeledger.ingest.messages.podref import PodRef, shown_uid, structured_pod
from kubeledger.model.bodies.eviction import InsufficientResource, PodPreempted, PreemptionFailed
from kubeledger.model.patterns import regex
from kubeledger.model.units import NS_PER_S

_DUMPED = regex(
    r"(?:^|\} )&Pod\{ObjectMeta:\{(?P<name>\S+) (?P<generate>\S*) (?P<namespace>\S*) "
    r"(?P<link>\S*) (?P<uid>\S*) (?P<version>\S*) (?P<generation>\d+) "
)
_RESOURCE = regex(r"\(res: (?P<resource>[^,\s]+), q: (?P<quantity>-?\d+)\)")
_CRITICAL_PRIORITY = 2_000_000_000
_MESSAGE = "Preempted in order to admit critical pod"
"""Of the status that the kubelet sets for a victim, and of the event that it sends."""
_OUTCOME_WAIT_NS = 3600 * NS_PER_S
"""A bound only: the outcome comes within the victim's grace period and a half."""


class PreemptionAssembler(PodAssembler):
    """Victims, and preemptions that found none."""

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._awaited: dict[Pod, Waiting[PodPreempted]] = {}
        self._announced: dict[Pod, Waiting[PodPreempted]] = {}

    # -- the choice -----------------------------------------------------------------------

    @reads("Attempting to evict pods in order to free up resources")
    def _attempt(self, entry: Entry) -> None:
        dumped = _DUMPED.finditer(entry.text("pods"))
        victims = [
            PodRef(each["namespace"], each["name"], shown_uid(each["uid"])) for each in dumped
        ]
        self._preempt(entry, victims or entry.pods, entry.get("insufficientResources"))

    @reads("Preempting pod to free up resources")
    def _preempting(self, entry: Entry) -> None:
        requesting = structured_pod(entry.values.get("requestingPod"))
        if entry.pod is not None:
            named = None if requesting is None else self._pods.named(requesting, entry)
            self._preempt(entry, [entry.pod], entry.text("insufficientResources"), named)

    def _preempt(
        self,
        entry: Entry,
        victims: list[PodRef],
        missing: str | None,
        named: Pod | None = None,
    ) -> None:
        """Pods are chosen; ``missing``: resources that lack, None where the line was cut."""
        preemptor = named or self._preemptor()
        inferred = named is None and preemptor is not None
        for ref in dict.fromkeys(victims):  # the lines of a dump may stand twice
            victim = self._pods.named(ref, entry)
            waiting = self._choose(entry, victim, preemptor, missing or "", reported=ref)
            waiting.learn(preemptor_inferred=inferred, cut=missing is None)

    def _choose(
        self,
        entry: Entry,
        victim: Pod,
        preemptor: Pod | None,
        missing: str = "",
        reported: PodRef | None = None,
    ) -> Waiting[PodPreempted]:
        named = reported or victim
        body = PodPreempted(
            # The name in the line, even where its UID is another pod's: that is for verify.
            victim_namespace=named.namespace,
            victim_pod=named.name,
            victim_uid=victim.uid,
            preemptor_namespace=None if preemptor is None else preemptor.namespace,
            preemptor_pod=None if preemptor is None else preemptor.name,
            preemptor_uid=None if preemptor is None else preemptor.uid,
            preemptor_inferred=preemptor is not None,
            insufficient=tuple(
                InsufficientResource(resource=match["resource"], quantity=int(match["quantity"]))
                for match in _RESOURCE.finditer(missing)
            ),
            evicted=None,
        )
        cause = None if preemptor is None else preemptor.added
        waiting = self._announced.pop(victim, None)
        if waiting is not None and waiting.is_open:
            # The event came first, from a goroutine of its own.
            waiting.fact.body, waiting.fact.cause = body, cause
            waiting.lead(entry.evidence)
            for other in self._admissions.adding:
                if waiting.fact in other.made_room:
                    other.made_room.remove(waiting.fact)
        else:
            waiting = self.queue.hold(shown(entry, body, cause=cause), _OUTCOME_WAIT_NS)
            self._sync_loop.await_iteration(waiting)
        self._awaited[victim] = waiting
        victim.preempted = waiting.fact
        if preemptor is not None:
            preemptor.made_room.append(waiting.fact)
        return waiting

    def _preemptor(self) -> Pod | None:
        """Whose admission is under way: the only one, or the only critical one."""
        pods = self._admissions.adding
        if len(pods) == 1:
            return pods[0]
        critical = [pod for pod in pods if self._is_critical(pod)]
        return critical[0] if len(critical) == 1 else None

    def _is_critical(self, pod: Pod) -> bool:
        priority = self.context.spec_of(pod.uid).get("priority")
        return pod.is_static or (isinstance(priority, int) and priority >= _CRITICAL_PRIORITY)

    # -- the outcome ----------------------------------------------------------------------

    @about_pod("Pod evicted successfully", "Failed to evict pod")
    def _outcome(self, entry: Entry, victim: Pod) -> None:
        waiting = self._awaited.pop(victim, None)
        if waiting is not None and not waiting.is_open and waiting.fact is victim.preempted:
            return  # it was told already, and a line out of order seemed to end its wait
        if waiting is None or not waiting.is_open:
            # At low verbosity the outcome is the only line.
            waiting = self._choose(entry, victim, self._preemptor())
            self._awaited.pop(victim, None)
        waiting.learn(evicted=entry.message == "Pod evicted successfully")
        waiting.join(entry.evidence)
        waiting.settle()

    @reads_if(
        lambda values: _is_victim_status(values.get("reason"), values.get("message")),
        "Event occurred",
    )
    def _event(self, entry: Entry) -> None:
        event = entry.event()
        if event is not None:
            victim = self._pods.named(event.pod, entry)
            victim.is_told_victim = True
            self._victim_status(entry, victim)

    @about_pod("Status Manager: adding pod")
    def _status_added(self, entry: Entry, pod: Pod) -> None:
        reported = failed_status(entry.text("status"))
        if reported is not None and _is_victim_status(*reported):
            self._victim_status(entry, pod)

    def _victim_status(self, entry: Entry, victim: Pod) -> None:
        """Of a victim that a line reports, or whose lines are lost or still to come."""
        if victim in self._awaited:
            self._awaited[victim].join(entry.evidence)
        elif victim.preempted is not None:
            return
        elif self._survives(victim):
            # It is about somebody else, of whom it was not told yet, or wrong.
            open_now = [
                w
                for pod, w in self._awaited.items()
                if w.is_open and w.due_ns and not pod.is_told_victim
            ]
            for waiting in open_now[-1:]:
                waiting.join(entry.evidence)
        else:
            self._announced[victim] = self._choose(entry, victim, self._preemptor())

    def _survives(self, pod: Pod) -> bool:
        """Whether lists show the pod, and neither they nor an event of the API a victim."""
        statuses = self.context.status_of(pod.uid)
        if ("Pod", pod.namespace, pod.name, PREEMPTING, _MESSAGE) in self.context.events:
            return False
        return bool(statuses) and all(status.get("reason") != PREEMPTING for status in statuses)

    # -- no choice ------------------------------------------------------------------------

    @about_pod(
        "Predicate failed on Pod",
        "Failed to admit pod, unexpected error while attempting to recover from admission failure",
    )
    def _failed(self, entry: Entry, pod: Pod) -> None:
        """No set of victims was found; the line also shows the refusal, which names this fact."""
        message = entry.text("message")
        of_predicate = entry.message.startswith("Predicate") and not message.startswith(RECOVERY)
        if of_predicate or pod.no_room is not None:
            return
        body = PreemptionFailed(
            preemptor_namespace=pod.namespace,
            preemptor_pod=pod.name,
            preemptor_uid=pod.uid,
            # The text holds what would still be missing with all victims gone, which is not
            # what was missing at admission.
            insufficient=(),
            error=(entry.get("err") or message.removeprefix(RECOVERY)).rstrip("\n"),
        )
        pod.no_room = self.queue.add(shown(entry, body, cause=pod.added))


def _is_victim_status(reason: str | None, message: str | None) -> bool:
    """Whether a status or an event is that of a victim, even with one wrong word."""
    return reason == PREEMPTING or message == _MESSAGE
