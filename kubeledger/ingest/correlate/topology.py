"""Topology hints and affinities, as 1.19 to 1.36 log them: one admission after another.

For a container (or, in pod scope, a pod) each hint provider's hints are logged, then what
the policy finds in them, then the merged hint twice, and then, if the policy admits it, the
affinity that is stored. Admission is serial, so at most one is open. That no affinity
follows shows nothing, as a line may be lost: it takes the refusal's own line, event or status
to know that the policy refused. These come from other goroutines, perhaps after the lines of
the next admission.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from kubeledger.ingest.correlate.assembler import Assembler, reads, reads_events, takes
from kubeledger.ingest.correlate.context import Subject
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import WAIT_NS, Waiting, shown
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.correlate.rejections import rejection_in_status
from kubeledger.ingest.klog.forms import split_pod
from kubeledger.ingest.messages.container_manager import Hints, hint_of, hints_of
from kubeledger.ingest.messages.noise import HEARTBEAT
from kubeledger.ingest.sources.items import Fact, KubeletConfigFile
from kubeledger.model.bodies.resourcemanagers import AffinityDecided, Hint, HintsGenerated
from kubeledger.model.patterns import regex
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S

_REASON = "TopologyAffinityError"
_REFUSAL = "Resources cannot be allocated with Topology locality"
_EVENT_NS = 5 * NS_PER_S
_UNANSWERED_MAX = 64
_NO_PREFERENCE = "Hint Provider has no preference for NUMA affinity with resource"
_IMPOSSIBLE = "Hint Provider has no possible NUMA affinities for resource"
_CONFIGURED = regex(r"TopologyManagerPolicy[\"']?: ?[\"']?([\w-]+)")
_WITH_POLICY = "Creating topology manager with policy per scope"


class _Open(msgspec.Struct):
    """The open admission.

    Attributes:
        unclear: resources whose empty list may be nil.
        generated: the fact of the hints, once they are complete.
        decided: the place of the decision, once there is one.
        merged: the policy's line about the merged hint was read.
    """

    subject: Subject
    ts_ns: int
    hints: Hints = {}
    unclear: set[str] = set()
    evidence: tuple[Evidence, ...] = ()
    generated: Fact | None = None
    decided: Waiting[AffinityDecided] | None = None
    merged: bool = False


class TopologyAssembler(Assembler):
    """Hints and affinities, by container or by pod."""

    time_passes = HEARTBEAT

    def __init__(self, registers: Registers) -> None:
        super().__init__(registers)
        self._policy: str | None = None
        self._policy_by: Literal["log", "process", "file"] | None = None
        self._pid: int | None = None
        self._open: _Open | None = None
        self._unanswered: list[_Open] = []

    def waiting_since(self) -> int | None:
        """Time of the oldest fact that is held back; None when nothing is."""
        since = (self._hints_since(), super().waiting_since())
        return min((ts_ns for ts_ns in since if ts_ns is not None), default=None)

    def before(self, ts_ns: int, pid: int | None = None) -> None:
        """Hints that nothing has been said about for a while are complete.

        What a process answered before another one wrote lines is not that one's policy.
        """
        if pid is not None and pid != self._pid:
            if self._policy_by == "process":
                self._policy = self._policy_by = None
            self._pid = pid
        since_ns = self._hints_since()
        if since_ns is not None and ts_ns - since_ns > WAIT_NS:
            self._generate()
        while self._unanswered and self._is_due(self._unanswered[0], ts_ns):
            self._ask_elsewhere(self._unanswered.pop(0))

    def end(self, ts_ns: int) -> None:
        """The log ends."""
        self._generate()
        for current in self._unanswered:
            self._ask_elsewhere(current)

    # -- the policy -----------------------------------------------------------------------

    @takes(KubeletConfigFile)
    def _config(self, item: KubeletConfigFile) -> None:
        # The log shows what is in force; the file is only asked when the log does not, and one
        # that says nothing may be laid over another one.
        policy = item.config.get("topologyManagerPolicy")
        if self._policy_by != "log" and (policy or item.served):
            self._policy = str(policy or "none")
            self._policy_by = "process" if item.served else "file"

    @reads(_WITH_POLICY, "Creating topology manager with none policy")
    def _created(self, entry: Entry) -> None:
        self._policy, self._policy_by = entry.get("topologyPolicyName") or "none", "log"

    @reads("Creating Container Manager object based on Node Config")
    def _configured(self, entry: Entry) -> None:
        policy = _CONFIGURED.search(str(entry.values.get("nodeConfig")))
        if policy is not None:
            self._policy, self._policy_by = policy[1], "log"

    # -- hints ----------------------------------------------------------------------------

    @reads("TopologyHints")
    def _offered(self, entry: Entry) -> None:
        """A provider's hints."""
        hints, unclear = hints_of(entry.values.get("hints"))
        current, subject = self._open, self._subject(entry)
        if current is None or current.generated or current.subject != subject:
            self._generate()
            current = self._open = _Open(subject, entry.ts_ns)
        current.hints.update(hints)
        current.unclear |= unclear
        current.evidence += (entry.evidence,)

    @reads(_NO_PREFERENCE, _IMPOSSIBLE)
    def _found(self, entry: Entry) -> None:
        """The policy finds no preference for a resource, or no possible affinity."""
        current, resource = self._open, entry.text("resource")
        if current is None or current.generated or resource not in current.unclear:
            return
        current.unclear.discard(resource)
        current.hints[resource] = None if entry.message == _NO_PREFERENCE else ()
        current.evidence += (entry.evidence,)

    def _hints_since(self) -> int | None:
        """Time of hints that are not known to be complete; None when there are none."""
        current = self._open
        if current is None or current.generated is not None or not current.evidence:
            return None
        return current.ts_ns

    def _generate(self) -> None:
        """The hints are complete."""
        current = self._open
        if current is not None and self._hints_since() is not None:
            who = self.context.completed(current.subject, current.ts_ns)
            body = HintsGenerated(**who.names, hints=dict(sorted(current.hints.items())))
            fact = Fact(current.ts_ns, body, current.evidence)
            current.generated = self.queue.add(fact)

    # -- the decision ---------------------------------------------------------------------

    @reads("ContainerTopologyHint")
    def _hinted(self, entry: Entry) -> None:
        hint, subject, current = _hint(entry), self._subject(entry), self._open
        if hint is None or (current is not None and current.merged and subject == Subject()):
            return  # a second one that names nobody is another container's, whose lines are lost
        self._merged(entry, subject, hint)
        if self._open is not None:
            self._open.merged = True

    def _merged(self, entry: Entry, subject: Subject, hint: Hint) -> None:
        """The merged hint; the first of several lines that say it makes the decision."""
        current = self._open
        if current is None or not current.subject.may_be(subject):
            if subject == Subject(container=subject.container):
                # Free text that names nobody, after hints that were not logged.
                return
            self._generate()
            current = self._open = _Open(subject, entry.ts_ns)
        self._generate()
        if current.decided is None:
            current.decided = self._decide(entry, current, hint)
        else:
            _again(current.decided, hint)
            current.decided.join(entry.evidence)

    def _decide(self, entry: Entry, current: _Open, hint: Hint) -> Waiting[AffinityDecided]:
        who = self.context.completed(current.subject, entry.ts_ns)
        body = AffinityDecided(**who.names, hint=hint, policy=self._policy, admit=None)
        # A refusal of the pod is that of its last container: the others were admitted.
        pod = current.subject.of_pod
        others = [other for other in self._unanswered if other.subject.of_pod != pod]
        self._unanswered = [*others[-_UNANSWERED_MAX:], current]
        return self.queue.hold(shown(entry, body, cause=current.generated))

    @reads("Topology Affinity")
    def _stored(self, entry: Entry) -> None:
        """The affinity is stored for a container: the policy admits it.

        In pod scope one decision is followed by one such line a container.
        """
        hint, subject, current = _hint(entry), self._subject(entry), self._open
        if hint is None:
            return
        scope = subject
        if current is not None and current.subject.container is None:
            scope = subject.of_pod
        if current is None or not current.subject.may_be(scope):
            self._merged(entry, subject, hint)
        elif current.decided is None:
            self._merged(entry, scope, hint)
        else:
            _again(current.decided, hint)
        self._settle(entry, scope)

    def _settle(self, entry: Entry, subject: Subject) -> None:
        current = self._open
        if current is None or current.decided is None:
            return
        own = current.subject
        both = Subject(
            own.namespace or subject.namespace, own.pod or subject.pod, own.uid or subject.uid
        )
        who = self.context.completed(both, entry.ts_ns)
        current.decided.learn(admit=True, namespace=who.namespace, pod=who.pod, pod_uid=who.uid)
        current.decided.join(entry.evidence)
        current.decided.settle()

    # -- the refusal ----------------------------------------------------------------------

    @reads("Status Manager: adding pod", "Status Manager: syncing pod")
    def _status(self, entry: Entry) -> None:
        if _REFUSAL in entry.text("status"):
            self._refused(entry, Subject(uid=entry.get("podUID")))

    @reads("Pod Admit Result", "Pod admission denied")
    def _result(self, entry: Entry) -> None:
        if _REFUSAL in entry.text("message"):
            self._refused(entry, self._subject(entry))

    @reads_events(_REASON)
    def _event(self, entry: Entry) -> None:
        if entry.values.get("kind") == "Pod":
            self._refused(entry, entry.event_subject)

    def _refused(self, entry: Entry, subject: Subject) -> None:
        """The pod was refused for its topology: so was what was decided for it last."""
        for current in reversed(self._unanswered):
            if self.context.completed(current.subject.of_pod, entry.ts_ns).may_be(subject):
                _refuse(current, entry.evidence)
                return

    def _ask_elsewhere(self, current: _Open) -> None:
        """Whether an API event or the pod's status shows that it was refused."""
        pod = self.context.completed(current.subject, current.ts_ns)
        status = rejection_in_status(self.context.status_of(pod.uid))
        if status is not None and status[0] == _REASON:
            _refuse(current)
        key = ("Pod", pod.namespace or "", pod.pod or "", _REASON, _REFUSAL)
        event = self.context.events.get(key)
        if event is not None and (
            event.first_ts_ns - _EVENT_NS <= current.ts_ns <= event.last_ts_ns + _EVENT_NS
        ):
            _refuse(current, *event.evidence)

    def _is_due(self, current: _Open, now_ns: int) -> bool:
        """Its decision leaves now, or has left."""
        waiting = current.decided
        return waiting is None or not waiting.is_open or waiting.due_ns <= now_ns

    def _subject(self, entry: Entry) -> Subject:
        """Whom a line names; free text that names the pod whole teaches its UID."""
        subject = entry.subject
        namespace, pod, uid = subject.namespace, subject.pod, subject.uid
        in_text = split_pod(entry.get("pod")) == (None, None)
        if in_text and namespace is not None and pod is not None and uid is not None:
            self.context.learn_uid(namespace, pod, uid, entry.ts_ns, entry.evidence)
        return subject


def _hint(entry: Entry) -> Hint | None:
    return hint_of(entry.values.get("bestHint", entry.values.get("affinity")))


def _again(decided: Waiting[AffinityDecided], hint: Hint) -> None:
    """One more line about the decision holds a hint: it is the same variable's value."""
    if decided.body.hint != hint:
        decided.learn(disputed=hint)


def _refuse(current: _Open, *evidence: Evidence) -> None:
    if current.decided is not None and current.decided.body.admit is not True:
        current.decided.learn(admit=False)
        current.decided.join(*evidence)
