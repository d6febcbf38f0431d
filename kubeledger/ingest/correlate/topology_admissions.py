"""One admission after another, as the topology manager logs them.

For a container (or, in pod scope, a pod) each hint provider's hints are logged, then what
the policy finds in them, then the merged hint twice, and then, if the policy admits it, the
affinity that is stored. Admission is serial, so at most one is open. That no affinity
follows shows nothing, as a line may be lost: it takes the refusal's own line, event or status
to know that the policy refused. These come from other goroutines, perhaps after the lines of
the next admission.
"""

from __future__ import annotations

import msgspec

from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.holdback import WAIT_NS, Holdback, Waiting
from kubeledger.ingest.correlate.rejections import rejection_in_status
from kubeledger.ingest.messages.topology_hints import Hints
from kubeledger.ingest.sources.facts import Fact
from kubeledger.model.bodies.topologymanager import AffinityDecided, Hint, HintsGenerated
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S

__all__ = ["REASON", "REFUSAL", "Admissions", "Subject"]

REASON = "TopologyAffinityError"
REFUSAL = "Resources cannot be allocated with Topology locality"

_EVENT_NS = 5 * NS_PER_S
_UNANSWERED_MAX = 64


class Subject(msgspec.Struct, frozen=True):
    """Whom an admission line is about, as far as it says; ``container`` None in pod scope."""

    namespace: str | None = None
    pod: str | None = None
    uid: str | None = None
    container: str | None = None

    def may_be(self, other: Subject) -> bool:
        """No part that both name differs; of a pod's container, the pod alone will do."""
        pairs = (
            (self.namespace, other.namespace),
            (self.pod, other.pod),
            (self.uid, other.uid),
            (self.container, other.container),
        )
        return all(None in pair or pair[0] == pair[1] for pair in pairs)

    def with_parts_of(self, other: Subject) -> Subject:
        """This subject, completed by the other; the container stays as it is."""
        return Subject(
            self.namespace or other.namespace,
            self.pod or other.pod,
            self.uid or other.uid,
            self.container,
        )


class _Open(msgspec.Struct):
    """The open admission.

    Attributes:
        unclear: resources whose empty list may be nil.
        generated: the fact of the hints, once they are complete.
        decided: the place of the decision, once there is one.
    """

    subject: Subject
    ts_ns: int
    hints: Hints = {}
    unclear: set[str] = set()
    evidence: tuple[Evidence, ...] = ()
    generated: Fact | None = None
    decided: Waiting | None = None


class Admissions:
    """What the lines add up to.

    Attributes:
        policy: name of the topology policy; None when no source shows it.
    """

    def __init__(self, context: BundleContext, queue: Holdback) -> None:
        self.policy: str | None = None
        self._context = context
        self._queue = queue
        self._open: _Open | None = None
        self._unanswered: list[_Open] = []

    def offered(
        self, entry: Entry, subject: Subject, hints: Hints, unclear: frozenset[str]
    ) -> None:
        """A provider's hints."""
        current = self._open
        if current is None or current.generated or current.subject != subject:
            self._generate()
            current = self._open = _Open(subject, entry.ts_ns)
        current.hints.update(hints)
        current.unclear |= unclear
        current.evidence += (entry.evidence,)

    def found(self, entry: Entry, resource: str, *, possible: bool) -> None:
        """The policy finds no preference for a resource, or no possible affinity."""
        current = self._open
        if current is None or current.generated or resource not in current.unclear:
            return
        current.unclear.discard(resource)
        current.hints[resource] = None if possible else ()
        current.evidence += (entry.evidence,)

    def merged(self, entry: Entry, subject: Subject, hint: Hint) -> None:
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
            self._again(current, hint)
            current.decided.join(entry.evidence)

    def _again(self, current: _Open, hint: Hint) -> None:
        """One more line about the decision holds a hint: it is the same variable's value."""
        fact = current.decided.fact if current.decided is not None else None
        if fact is not None and isinstance(fact.body, AffinityDecided) and fact.body.hint != hint:
            fact.body = msgspec.structs.replace(fact.body, disputed=hint)

    def stored(self, entry: Entry, subject: Subject, hint: Hint) -> None:
        """The affinity is stored for a container: the policy admits it.

        In pod scope one decision is followed by one such line a container.
        """
        current = self._open
        scope = subject
        if current is not None and current.subject.container is None:
            scope = Subject(subject.namespace, subject.pod, subject.uid)
        if current is None or not current.subject.may_be(scope):
            self.merged(entry, subject, hint)
        elif current.decided is None:
            self.merged(entry, scope, hint)
        else:
            self._again(current, hint)
        self._settle(entry, scope)

    def _settle(self, entry: Entry, subject: Subject) -> None:
        current = self._open
        if current is None or current.decided is None or current.decided.fact is None:
            return
        body = current.decided.fact.body
        assert isinstance(body, AffinityDecided)
        named = self._named(current.subject.with_parts_of(subject), entry.ts_ns)
        current.decided.fact.body = msgspec.structs.replace(
            body, admit=True, namespace=named.namespace, pod=named.pod, pod_uid=named.uid
        )
        current.decided.join(entry.evidence)
        current.decided.settle()

    def refused(self, entry: Entry, subject: Subject) -> None:
        """The pod was refused for its topology: so was what was decided for it last."""
        for current in reversed(self._unanswered):
            pod = msgspec.structs.replace(current.subject, container=None)
            if self._named(pod, entry.ts_ns).may_be(subject):
                self._refuse(current, entry.evidence)
                return

    def _refuse(self, current: _Open, *evidence: Evidence) -> None:
        fact = current.decided.fact if current.decided is not None else None
        if current.decided is None or fact is None or not isinstance(fact.body, AffinityDecided):
            return
        if fact.body.admit is not True:
            fact.body = msgspec.structs.replace(fact.body, admit=False)
            current.decided.join(*evidence)

    def _ask_elsewhere(self, current: _Open) -> None:
        """Whether an API event or the pod's status shows that it was refused."""
        pod = self._named(current.subject, current.ts_ns)
        status = rejection_in_status(self._context.status_of(pod.uid))
        if status is not None and status[0] == REASON:
            self._refuse(current)
        key = ("Pod", pod.namespace or "", pod.pod or "", REASON, REFUSAL)
        event = self._context.events.get(key)
        if event is not None and (
            event.first_ts_ns - _EVENT_NS <= current.ts_ns <= event.last_ts_ns + _EVENT_NS
        ):
            self._refuse(current, *event.evidence)

    def waiting_since(self) -> int | None:
        """Time of hints that are not known to be complete; None when there are none."""
        current = self._open
        if current is None or current.generated is not None or not current.evidence:
            return None
        return current.ts_ns

    def release(self, now_ns: int) -> None:
        """Hints that nothing has been said about for a while are complete."""
        since_ns = self.waiting_since()
        if since_ns is not None and now_ns - since_ns > WAIT_NS:
            self._generate()
        while self._unanswered and self._is_due(self._unanswered[0], now_ns):
            self._ask_elsewhere(self._unanswered.pop(0))

    def _is_due(self, current: _Open, now_ns: int) -> bool:
        """Its decision leaves now, or has left."""
        waiting = current.decided
        return waiting is None or waiting.fact is None or waiting.due_ns <= now_ns

    def finish(self) -> None:
        """The log ends."""
        self._generate()
        for current in self._unanswered:
            self._ask_elsewhere(current)

    def _generate(self) -> None:
        """The hints are complete."""
        current = self._open
        if current is None or self.waiting_since() is None:
            return
        subject = self._named(current.subject, current.ts_ns)
        body = HintsGenerated(
            namespace=subject.namespace,
            pod=subject.pod,
            pod_uid=subject.uid,
            container=subject.container,
            hints=dict(sorted(current.hints.items())),
        )
        current.generated = self._queue.add(Fact(current.ts_ns, body, current.evidence))

    def _decide(self, entry: Entry, current: _Open, hint: Hint) -> Waiting:
        subject = self._named(current.subject, entry.ts_ns)
        body = AffinityDecided(
            namespace=subject.namespace,
            pod=subject.pod,
            pod_uid=subject.uid,
            container=subject.container,
            hint=hint,
            policy=self.policy,
            admit=None,
        )
        fact = Fact(entry.ts_ns, body, (entry.evidence,), current.generated)
        self._await_answer(current)
        return self._queue.hold(fact)

    def _await_answer(self, current: _Open) -> None:
        """A refusal of the pod is that of its last container: the others were admitted."""
        pod = msgspec.structs.replace(current.subject, container=None)
        others = [
            other
            for other in self._unanswered
            if msgspec.structs.replace(other.subject, container=None) != pod
        ]
        self._unanswered = [*others[-_UNANSWERED_MAX:], current]

    def _named(self, subject: Subject, ts_ns: int) -> Subject:
        """The subject, with what the rest of the bundle knows of its pod."""
        namespace, pod, uid = subject.namespace, subject.pod, subject.uid
        if uid is None and namespace and pod:
            uid = self._context.uid_of(namespace, pod, ts_ns)
        known = self._context.pods.get(uid or "")
        if known is not None:
            namespace, pod = known.namespace, known.name
        return Subject(namespace, pod, uid, subject.container)
