"""Refused containers: would the kubelet have refused, and in these words?

What the plugin or the disk answered stands in the error alone. Such an error is possible
whenever the plugin was asked at all, and nothing more can be said about it.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from kubeledger.devicemanager.records import NO_HINTS, AllocationFailed
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.verify.devices.account import open_inputs, surroundings
from kubeledger.verify.devices.desk import Desk, SetUp, when_of
from kubeledger.verify.devices.grants import RULE
from kubeledger.verify.devices.words import times
from kubeledger.verify.devices.worlds import Evidence, Topic, lost_topics, refusals
from kubeledger.verify.finding import Verdict
from kubeledger.verify.pods import ListedPod

__all__ = ["Refusals"]

_SHORTAGE = re.compile(
    r"requested number of devices unavailable for (?P<resource>\S+)\. "
    r"Requested: (?P<requested>-?\d+), Available: (?P<available>-?\d+)"
)
_HINTS_RULE = "pkg/kubelet/cm/devicemanager/topology_hints.go GetTopologyHints"
_UNCOUNTED = 1 << 30
_ANSWERS = (
    "rpc error: ",
    "endpoint /",
    "endpoint unix",
    "no containers return in allocation response",
    "device plugin GetPreferredAllocation rpc failed",
    "failed to write checkpoint file",
)
"""Errors that are what the plugin, or the disk, answered."""

_OF_REJECTIONS = ("Status Manager: adding pod", "Pod admission denied", "Event occurred")
"""Lines of a pod's rejection, which name the manager's error."""

_LEAKS = ("no containers return", "device plugin GetPreferredAllocation rpc failed")
"""Those after which what was picked stays in use."""


class Refusals:
    """Findings for ``AllocationFailed``."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def failed(self, record: Record, body: AllocationFailed, state: NodeState) -> None:
        """Judge a refusal."""
        desk, when = self._desk, when_of(record)
        pod = desk.key(state, body.pod_uid, body.namespace, body.pod)
        listed = desk.pod(when, body.pod_uid, body.namespace, body.pod)
        asks = desk.asks(listed, pod)
        container = body.container
        if container is None and asks is not None and body.resource is not None:
            asking = asks.asking(body.resource)
            container = asking[0] if len(asking) == 1 else None
        name = (
            f"{body.namespace}/{body.pod}" if body.namespace and body.pod else desk.name(state, pod)
        )
        case = _Case(record, body, f"container/{name}/{container}" if container else f"pod/{name}")
        request = desk.requests.pop(record.cause or 0, None)
        if body.resource is None:
            self._unverifiable(case, "the resource that was refused")
        elif container is None:
            self._unverifiable(case, "the container that was refused")
        elif body.told_by == "status":
            self._unverifiable(case, "the time of the refusal")
        else:
            holder = (pod, container, body.resource)
            request = request or desk.request_of(holder)
            case.listed = listed
            case.set_up = desk.set_up(state, when, holder, listed, request)
            self._judge(case, holder)
            if request is not None:
                desk.requests.pop(request.seq, None)
        self._tell(case)

    def _judge(self, case: _Case, holder: tuple[str, str, str]) -> None:
        body, set_up = case.body, case.set_up
        request = set_up.request
        named = self._desk.misnamed(case.listed, body.pod_uid, body.namespace, body.pod)
        if named is not None:
            name = f"{named['namespace']}/{named['pod']}"
            self._impossible(case, f"pod {body.pod_uid} is {name} in the pod list", named)
        elif request is not None and request.holder != holder:
            pod, asking, resource = request.holder
            expected = {"pod_uid": pod, "container": asking, "resource": resource}
            self._impossible(case, f"container {asking} asked for {resource} just then", expected)
        elif set_up.limit == 0 or (set_up.asks is not None and set_up.limit is None):
            has = f"container {holder[1]} has no limit on {body.resource}"
            self._impossible(case, f"{has}, so the device manager has nothing to refuse", None)
        elif request is not None and set_up.limit not in (None, request.needed):
            needs = f"the log says that container {holder[1]} needs {request.needed}"
            self._impossible(case, f"{needs} of {body.resource}, its spec {set_up.limit}", None)
        elif set_up.evidence is None:
            self._unverifiable(case, *set_up.missing)
        else:
            self._by_evidence(case, set_up.evidence)

    def _by_evidence(self, case: _Case, evidence: Evidence) -> None:
        """What it could not refuse by what is told, it may by what a lost line told."""
        self._decide(case, evidence)
        found, disputes = case.outcome, case.disputes
        if found is None or found.verdict != "impossible":
            return
        self._decide(case, evidence.opened())
        if case.outcome is not None and case.outcome.verdict != "impossible":
            self._unverifiable(case, *open_inputs(evidence, lost_topics(evidence), frozenset()))
            return
        case.outcome, case.disputes = found, disputes

    def _decide(self, case: _Case, evidence: Evidence) -> None:
        body = case.body
        case.disputes = []
        if body.error == NO_HINTS:
            self._hints(case, evidence)
        elif body.error.startswith(_ANSWERS):
            self._answer(case, evidence)
        elif _SHORTAGE.fullmatch(body.error) or body.requested is not None:
            self._shortage(case, evidence)
        else:
            self._other(case, evidence)

    def _hints(self, case: _Case, evidence: Evidence) -> None:
        """Too few devices for hints: counted with those that may be used again."""
        low = len(evidence.free | evidence.reuse)
        high = max(_most(evidence) + len(evidence.reuse), low)
        case.rule = _HINTS_RULE
        text = NO_HINTS
        self._counts(case, evidence, text, evidence.required, low, high)

    def _shortage(self, case: _Case, evidence: Evidence) -> None:
        """Fewer devices are free than needed besides those that may be used again."""
        needed = evidence.required - len(evidence.reuse)
        counted = _counted(evidence)
        low = counted if counted is not None else len(evidence.free)
        high = counted if counted is not None else _most(evidence)
        if evidence.held is not None or evidence.listed.registered is False:
            self._other(case, evidence)
            return
        self._counts(case, evidence, None, needed, low, high)

    def _counts(
        self, case: _Case, evidence: Evidence, text: str | None, needed: int, low: int, high: int
    ) -> None:
        body, resource = case.body, evidence.resource
        exact = low == high
        there = f"{needed} {resource} {'is' if needed == 1 else 'are'} needed"
        around = surroundings(evidence, self._desk)
        if exact and low >= needed:
            why = f"{there}, and enough are there, so the kubelet does not refuse: {around}"
            self._impossible(case, why, None)
            return
        if exact and self._told_wrong(case, evidence, (needed, low)):
            around = f"by the line about hints {there}, of {low} free: {around}"
            counts = {"hints_requested": body.hints_requested}
            counts["hints_available"] = body.hints_available
            self._find(case, "match", around, counts, counts)
            return
        if (wrong := self._hint_counts(case, evidence)) is not None:
            why = f"{wrong}: {around}"
            fields = {"hints_requested": None, "hints_available": None}
            recorded = {name: getattr(body, name) for name in fields}
            self._find(case, "impossible", why, fields, recorded)
            return
        available = low if exact else body.available
        error = text or (
            f"requested number of devices unavailable for {resource}. "
            f"Requested: {needed}, Available: {available}"
        )
        expected = {"requested": needed, "available": available, "error": error}
        recorded = {"requested": body.requested, "available": body.available, "error": body.error}
        possible = body.available is not None and low <= body.available <= min(high, needed - 1)
        if expected != recorded or not possible:
            why = f"{there} and {_span(low, high)} there: {around}"
            self._find(case, "impossible", why, expected if exact else None, recorded)
        elif not exact:
            self._unverifiable(case, *open_inputs(evidence, _open(evidence), frozenset()))
        else:
            why = f"container {evidence.container} needs {needed} {resource}"
            why = f"{why}, more than the {around}"
            self._find(case, "match", why, expected, recorded)

    def _hint_counts(self, case: _Case, evidence: Evidence) -> str | None:
        """Why the counts of the line about hints cannot be; None where they can.

        That line counts all devices that are needed, and those to be used again as there.
        """
        body = case.body
        requested, available = body.hints_requested, body.hints_available
        if requested is None or available is None or body.available is None:
            return None
        reuse = len(evidence.reuse)
        if (requested, available) == (evidence.required, body.available + reuse):
            return None
        counted = f"{requested} as needed and {available} as there"
        case.disputes = [
            f"two lines count the devices of {evidence.resource} differently at one admission",
            f"the line about hints: {counted}",
            f"the error: {body.requested} and {body.available}",
        ]
        return f"the line about hints counts {counted}, against the error {body.error!r}"

    @staticmethod
    def _told_wrong(case: _Case, evidence: Evidence, right: tuple[int, int]) -> bool:
        """Whether only the line of the pod's rejection, which is judged with that, is wrong.

        The line about hints counts what is needed and there.
        """
        body, reuse = case.body, len(evidence.reuse)
        if (body.hints_requested, body.hints_available) != (evidence.required, right[1] + reuse):
            return False
        telling = next((e.text for e in case.record.evidence if body.error in (e.text or "")), None)
        return (
            (body.requested, body.available) != right
            and telling is not None
            and any(word in telling for word in _OF_REJECTIONS)
        )

    def _answer(self, case: _Case, evidence: Evidence) -> None:
        texts, only = refusals(evidence)
        if "" not in texts and not only and not evidence.listed.maybe:
            # No checkpoint names any device: of what the plugin listed nothing is known.
            topics = _open(evidence) or lost_topics(evidence)
            self._unverifiable(case, *open_inputs(evidence, topics, frozenset()))
            return
        if "" not in texts:
            error = min(texts)
            why = f"the plugin was not asked, because the kubelet refuses before with: {error}"
            self._impossible(case, why, {"error": error} if only else None)
            return
        why = (
            f"the plugin of {evidence.resource} was asked for {times(evidence.required, 'device')}"
            " and the error is its answer, or that of the disk, which nothing else shows"
        )
        self._find(case, "admissible", why, {}, {})
        if case.body.error.startswith(_LEAKS):
            self._desk.holdings.leak(evidence.resource)

    def _other(self, case: _Case, evidence: Evidence) -> None:
        """Errors without counts: registration, health, a changed request."""
        texts, only = refusals(evidence)
        error = case.body.error
        around = surroundings(evidence, self._desk)
        recorded = {"error": error}
        if error not in texts:
            said = sorted(text or "no error" for text in texts)
            why = f"the kubelet comes to {' or '.join(said)} here: {around}"
            expected = {"error": min(texts)} if only and "" not in texts else None
            self._find(case, "impossible", why, expected, recorded)
        elif len(texts) > 1:
            topics = _open(evidence)
            self._unverifiable(case, *open_inputs(evidence, topics, frozenset()))
        else:
            why = f"container {evidence.container} asks for {times(evidence.required, 'device')}"
            self._find(case, "match", f"{why} of {evidence.resource}: {error}", recorded, recorded)

    def _impossible(self, case: _Case, why: str, expected: dict[str, Any] | None) -> None:
        fields = expected if expected is not None else {"error": None}
        recorded = {name: getattr(case.body, name) for name in fields}
        self._find(case, "impossible", why, expected, recorded)

    def _find(
        self,
        case: _Case,
        verdict: Verdict,
        why: str,
        expected: dict[str, Any] | None,
        recorded: dict[str, Any],
    ) -> None:
        case.outcome = _Outcome(verdict, why, expected, recorded)

    def _tell(self, case: _Case) -> None:
        """Give the finding."""
        if case.outcome is None:
            return
        verdict, why, expected, recorded, missing = case.outcome
        if case.body.told_by == "event" and verdict == "impossible":
            missing = ("the instant of the refusal within its second",)
        if missing:
            self._desk.bench.unverifiable(
                case.record, subject=case.subject, missing=missing, rule=case.rule
            )
            return
        if case.disputes:
            what, *sides = case.disputes
            seq = case.record.seq
            said = [(seq, side) for side in sides]
            self._desk.bench.contradict(case.record.ts_ns, case.subject, what, *said)
        told = self._desk.foresight.rejections.get(case.body.pod_uid or "", ())
        error = case.body.error
        if told and error != NO_HINTS and not any(error in message for _, message in told):
            if verdict == "admissible":  # only the error itself tells of it
                verdict = "impossible"
                why = f"the pod's rejection says {told[-1][1]!r}; {why}"
            self._desk.bench.contradict(
                case.record.ts_ns,
                f"pod/{case.body.namespace}/{case.body.pod}"
                if verdict == "match"
                else case.subject,
                "the device manager's error and the pod's rejection are different",
                (case.record.seq, error),
                told[-1],
            )
        self._desk.bench.find(
            case.record,
            verdict,
            subject=case.subject,
            why=why,
            expected=expected,
            recorded=recorded,
            rule=case.rule,
            inputs=case.set_up.seqs,
        )

    def _unverifiable(self, case: _Case, *missing: str) -> None:
        case.outcome = _Outcome("unverifiable", "", None, {}, missing)


class _Outcome(NamedTuple):
    verdict: Verdict
    why: str
    expected: dict[str, Any] | None
    recorded: dict[str, Any]
    missing: tuple[str, ...] = ()


class _Case:
    """A refusal under judgement."""

    def __init__(self, record: Record, body: AllocationFailed, subject: str) -> None:
        self.record = record
        self.body = body
        self.subject = subject
        self.rule = RULE
        self.outcome: _Outcome | None = None
        self.disputes: list[str] = []
        self.listed: ListedPod | None = None
        self.set_up = SetUp(None, (), None, None, None, ())


def _most(evidence: Evidence) -> int:
    """The most devices that may have been free."""
    if evidence.listed.complete:
        return len(evidence.perhaps_free)
    count = evidence.listed.count
    # Without a count, devices that no checkpoint names may have been there.
    return max(len(evidence.perhaps_free), _UNCOUNTED if count is None else count)


def _counted(evidence: Evidence) -> int | None:
    """Free devices by the kubelet's own count, where no device was unhealthy."""
    listed, in_use = evidence.listed, evidence.in_use
    if in_use.unknown or in_use.maybe:
        return None
    if evidence.is_exact():
        return len(evidence.free)
    if listed.all_healthy and listed.count is not None and not listed.known:
        return listed.count - len(in_use.certain | evidence.reuse)
    return None


def _open(evidence: Evidence) -> tuple[Topic, ...]:
    topics: list[Topic] = []
    if evidence.listed.registered is None:
        topics.append("registered")
    if not evidence.listed.complete:
        topics.append("health")
    if evidence.in_use.unknown or evidence.in_use.maybe:
        topics.append("use")
    return tuple(topics) or ("health",)


def _span(low: int, high: int) -> str:
    if low == high:
        return f"{low} {'is' if low == 1 else 'are'}"
    return f"{low} to {high} are" if high < _UNCOUNTED else f"{low} or more are"
