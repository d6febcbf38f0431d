"""Refused containers: would the kubelet have refused, and in these words?

What the plugin or the disk answered stands in the error alone. Such an error is possible
whenever the plugin was asked at all, and nothing more can be said about it.
"""

from __future__ import annotations

import re
from typing import Any, Final

from kubeledger.model.bodies.devicemanager import NO_HINTS, AllocationFailed
from kubeledger.model.record import Record
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, Ruling, judge, lacks, open_to, same
from kubeledger.verify.rules.devices.desk import Desk
from kubeledger.verify.rules.devices.foresight import Holder
from kubeledger.verify.rules.devices.grants import RULE, found_with
from kubeledger.verify.rules.devices.specs import asks_of
from kubeledger.verify.rules.devices.words import surroundings, times
from kubeledger.verify.rules.devices.worlds import Evidence, Topic, errors_in

__all__ = ["failed"]

_SHORTAGE = re.compile(
    r"requested number of devices unavailable for \S+\. Requested: -?\d+, Available: -?\d+"
)
_HINTS_RULE: Final = "pkg/kubelet/cm/devicemanager/topology_hints.go GetTopologyHints"
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

_LEAKS = ("no containers return", "device plugin GetPreferredAllocation rpc failed")
"""Those after which what was picked stays in use."""


def failed(
    desk: Desk, record: Record, body: AllocationFailed, state: NodeState
) -> tuple[Judgement, str]:
    """Judge a refusal; gives the subject as well."""
    pod, container = desk.key(record, state), body.container
    if container is None and body.resource is not None:
        asks = asks_of(desk.pod(record))
        asking = asks.asking(body.resource) if asks is not None else []
        container = asking[0] if len(asking) == 1 else None
    subject = desk.subject(record, pod, container)
    unknown = {
        "the resource that was refused": body.resource is None,
        "the container that was refused": container is None,
        "the time of the refusal": body.told_by == "status",
    }
    missing = [name for name, is_unknown in unknown.items() if is_unknown]
    if container is None or body.resource is None or missing:
        return lacks(missing[:1]), subject
    holder = (pod, container, body.resource)
    found = _judge(desk, record, body, holder, state)
    desk.answered(record, holder)
    if body.told_by == "event" and found.verdict == "impossible":
        found = lacks(["the instant of the refusal within its second"])
    rule = _HINTS_RULE if body.error == NO_HINTS else RULE
    return found_with(found, rule=rule), subject


def _judge(
    desk: Desk, record: Record, body: AllocationFailed, holder: Holder, state: NodeState
) -> Judgement:
    set_up = desk.set_up(record, state, holder)
    if (wrong := desk.wrong_asker(record, holder, set_up)) is not None:
        return wrong
    evidence = set_up.evidence
    if evidence is None:
        return lacks(set_up.missing)
    # The line about hints counts all that is needed, and what is to be used again as there.
    counts = body.hints_requested, body.hints_available
    known = None not in counts and body.available is not None
    if known and counts != (evidence.required, (body.available or 0) + len(evidence.reuse)):
        why = f"the line about hints counts {counts[0]} as needed and {counts[1]} as there"
        expected = {"hints_requested": None, "hints_available": None}
        return same(False, f"{why}, against the error {body.error!r}", expected=expected)
    if body.error.startswith(_ANSWERS):
        told = desk.foresight.rejections.get(holder[0], ())
        if told and not any(body.error in message for message in told):
            return same(False, f"the pod's rejection tells another error: {told[-1]!r}")
    found = _ruling(body, evidence)
    if body.error.startswith(_LEAKS) and found.verdict == "admissible":
        desk.holdings.suspect(body.resource or "")
    if found.verdict == "impossible" and _ruling(body, evidence.opened()).verdict != "impossible":
        # What it could not refuse by what is told, it may by what a lost line told.
        lost = " and ".join(evidence.inputs(evidence.lost()))
        found = open_to(lost, denied=found.why)
    return found_with(found, set_up.seqs)


def _ruling(body: AllocationFailed, evidence: Evidence) -> Judgement:
    """The judgement of an error's kind: counts, a plugin's answer, or the words of another."""
    low, high = _span(evidence)
    reuse, required = len(evidence.reuse), evidence.required
    if body.error == NO_HINTS:  # all devices are counted, those to be used again as there
        return _counts(body, evidence, NO_HINTS, required, (low + reuse, high + reuse))
    counted = _SHORTAGE.fullmatch(body.error) or body.requested is not None
    if counted and evidence.held is None and evidence.listed.registered is not False:
        return _counts(body, evidence, None, required - reuse, (low, high))
    return _words(body, evidence)


def _span(evidence: Evidence) -> tuple[int, int]:
    """The least and the most devices that may have been free."""
    listed, least, most = evidence.listed, len(evidence.free), len(evidence.perhaps_free)
    if evidence.is_exact():
        return least, least
    named = evidence.in_use.unknown or evidence.in_use.maybe or listed.known
    if listed.count is not None and listed.count == listed.total and not named:
        least = most = listed.count - len(evidence.in_use.certain | evidence.reuse)
    elif not listed.complete:
        # Without a count, devices that no checkpoint names may have been there.
        most = max(most, _UNCOUNTED if listed.count is None else listed.count)
    return least, most


def _counts(
    body: AllocationFailed,
    evidence: Evidence,
    text: str | None,
    needed: int,
    there: tuple[int, int],
) -> Judgement:
    (low, high), resource, around = there, evidence.resource, surroundings(evidence)
    exact = low == high
    needs = f"{needed} {resource} {'is' if needed == 1 else 'are'} needed"
    if exact and low >= needed:
        why = f"{needs}, and enough are there, so the kubelet does not refuse: {around}"
        return same(False, why)
    available = low if exact else body.available
    error = text or (
        f"requested number of devices unavailable for {resource}. "
        f"Requested: {needed}, Available: {available}"
    )
    expected: dict[str, Any] = {"requested": needed, "available": available, "error": error}
    told = {"requested": body.requested, "available": body.available, "error": body.error}
    possible = body.available is not None and low <= body.available <= min(high, needed - 1)
    if expected != told or not possible:
        are = f"{low}" if exact else f"{low} to {high}" if high < _UNCOUNTED else f"{low} or more"
        why = f"{needs} and {are} {'is' if are == '1' else 'are'} there: {around}"
        return same(False, why, expected=expected if exact else None)
    if not exact:
        return lacks(evidence.inputs(_open(evidence)))
    why = f"container {evidence.holder[1]} needs {needed} {resource}, more than the {around}"
    return same(True, why, expected=expected)


def _words(body: AllocationFailed, evidence: Evidence) -> Judgement:
    """Errors without counts: registration, health, a changed request; or a plugin's answer."""
    texts, only = errors_in(evidence)
    is_answer = body.error.startswith(_ANSWERS)
    expected = {"error": min(texts)} if only and "" not in texts else None
    asks = f"container {evidence.holder[1]} asks for {times(evidence.required, 'device')}"
    if is_answer and "" in texts:
        why = (
            f"{asks}: the plugin of {evidence.resource} was asked, and the error is its answer, or "
            "that of the disk, which nothing else shows"
        )
        return judge([Ruling(allowed=True, chosen=False, why=why, expected={})])
    # Where no checkpoint names any device, of what the plugin listed nothing is known.
    unnamed = is_answer and not only and not evidence.listed.maybe
    if body.error not in texts and not unnamed:
        said = " or ".join(sorted(text or "no error" for text in texts))
        why = f"the kubelet comes to {said} here: {surroundings(evidence)}"
        return same(False, why, expected=expected)
    if len(texts) > 1 or unnamed:
        return lacks(evidence.inputs(_open(evidence)))
    return same(True, f"{asks} of {evidence.resource}: {body.error}", expected=expected)


def _open(evidence: Evidence) -> tuple[Topic, ...]:
    topics: list[Topic] = []
    if evidence.listed.registered is None:
        topics.append("registered")
    if not evidence.listed.complete:
        topics.append("health")
    if evidence.in_use.unknown or evidence.in_use.maybe:
        topics.append("use")
    return tuple(topics) or ("health",)
