"""Refused containers: would the kubelet have refused, and in these words?

What the plugin or the disk answered stands in the error alone. Such an error is possible
whenever the plugin was asked at all, and nothing more can be said about it.
"""

from __future__ import annotations

import re
from typing import Any, Final

from kubeledger.devicemanager.records import NO_HINTS, AllocationFailed
from kubeledger.machine import Record
from kubeledger.node.state import NodeState
from kubeledger.verify.belief import Judgement, Ruling, judge, lacks, same
from kubeledger.verify.rules.devices.account import surroundings
from kubeledger.verify.rules.devices.desk import Desk
from kubeledger.verify.rules.devices.grants import RULE, found_with
from kubeledger.verify.rules.devices.words import times
from kubeledger.verify.rules.devices.worlds import Evidence, Topic, errors_in

__all__ = ["Refusals", "rule_of"]

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


class Refusals:
    """Judgements of ``AllocationFailed``."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def failed(
        self, record: Record, body: AllocationFailed, state: NodeState
    ) -> tuple[Judgement, str]:
        """Judge a refusal; gives the subject as well."""
        desk = self._desk
        pod = desk.key(state, body.pod_uid, body.namespace, body.pod)
        container = body.container or self._only_asker(record, body, pod)
        name = f"{body.namespace}/{body.pod}" if body.pod else desk.name(state, pod)
        subject = f"container/{name}/{container}" if container else f"pod/{name}"
        found = self._judge(record, body, (pod, container, body.resource), state)
        desk.requests.pop(record.cause or 0, None)
        if body.told_by == "event" and found.verdict == "impossible":
            found = lacks(["the instant of the refusal within its second"])
        return self._against_rejection(record, body, found, subject), subject

    def _only_asker(self, record: Record, body: AllocationFailed, pod: str) -> str | None:
        asks = self._desk.asks(self._desk.pod(record), pod)
        asking = asks.asking(body.resource) if asks is not None and body.resource else []
        return asking[0] if len(asking) == 1 else None

    def _judge(
        self,
        record: Record,
        body: AllocationFailed,
        whose: tuple[str, str | None, str | None],
        state: NodeState,
    ) -> Judgement:
        desk, (pod, container, resource) = self._desk, whose
        if resource is None:
            return lacks(["the resource that was refused"])
        if container is None:
            return lacks(["the container that was refused"])
        if body.told_by == "status":
            return lacks(["the time of the refusal"])
        holder = (pod, container, resource)
        set_up = desk.of_record(record, holder, state)
        if set_up.asked is not None:
            desk.requests.pop(set_up.asked.seq, None)
            desk.requests[record.cause or 0] = set_up.asked
        if (wrong := desk.wrong_asker(record, holder, set_up)) is not None:
            return same(False, wrong[0], expected=wrong[1], inputs=set_up.seqs)
        evidence = set_up.evidence
        if evidence is None:
            return lacks(set_up.missing)
        if (odd := self._hint_counts(record, body, evidence)) is not None:
            return odd
        told = _ruling(body, evidence)
        if body.error.startswith(_LEAKS) and told.verdict == "admissible":
            desk.holdings.suspect(resource)
        if (
            told.verdict == "impossible"
            and _ruling(body, evidence.opened()).verdict != told.verdict
        ):
            # What it could not refuse by what is told, it may by what a lost line told.
            lost = evidence.inputs(evidence.lost())
            told = judge(
                [Ruling(allowed=False, why=told.why), Ruling(allowed=True, why="", assumes=lost)]
            )
        return found_with(told, set_up.seqs)

    def _hint_counts(
        self, record: Record, body: AllocationFailed, evidence: Evidence
    ) -> Judgement | None:
        """Whether the line about hints counts otherwise than the error of one admission.

        That line counts all devices that are needed, and those to be used again as there.
        """
        counts = body.hints_requested, body.hints_available
        if None in counts or body.available is None:
            return None
        if counts == (evidence.required, body.available + len(evidence.reuse)):
            return None
        counted = f"{counts[0]} as needed and {counts[1]} as there"
        what = f"two lines count the devices of {evidence.resource} differently at one admission"
        self._desk.bench.contradict(
            record.ts_ns,
            f"container/{body.namespace}/{body.pod}/{evidence.holder[1]}",
            what,
            (record.seq, f"the line about hints: {counted}"),
            (record.seq, f"the error: {body.requested} and {body.available}"),
        )
        why = f"the line about hints counts {counted}, against the error {body.error!r}"
        expected = {"hints_requested": None, "hints_available": None}
        return same(False, f"{why}: {surroundings(evidence)}", expected=expected)

    def _against_rejection(
        self, record: Record, body: AllocationFailed, found: Judgement, subject: str
    ) -> Judgement:
        """The pod's rejection tells the same error; both sides are shown where it does not."""
        told = self._desk.foresight.rejections.get(body.pod_uid or "", ())
        same_error = any(body.error in message for _, message in told)
        if not told or body.error == NO_HINTS or same_error or found.verdict == "unverifiable":
            return found
        right = found.verdict == "match"
        self._desk.bench.contradict(
            record.ts_ns,
            f"pod/{body.namespace}/{body.pod}" if right else subject,
            "the device manager's error and the pod's rejection are different",
            (record.seq, body.error),
            told[-1],
        )
        if found.verdict != "admissible":
            return found
        # Only the error itself tells of the plugin's answer.
        why = f"the pod's rejection says {told[-1][1]!r}; {found.why}"
        return same(False, why, expected=found.expected, inputs=found.inputs)


def rule_of(body: AllocationFailed) -> str:
    """The kubelet's function that refuses so."""
    return _HINTS_RULE if body.error == NO_HINTS else RULE


def _ruling(body: AllocationFailed, evidence: Evidence) -> Judgement:
    """The judgement of an error's kind: counts, a plugin's answer, or the words of another."""
    low, high = _span(evidence)
    reuse, required = len(evidence.reuse), evidence.required
    if body.error == NO_HINTS:  # all devices are counted, those to be used again as there
        return _counts(body, evidence, NO_HINTS, required, low + reuse, high + reuse)
    if body.error.startswith(_ANSWERS):
        return _answer(evidence)
    counted = _SHORTAGE.fullmatch(body.error) or body.requested is not None
    if counted and evidence.held is None and evidence.listed.registered is not False:
        return _counts(body, evidence, None, required - reuse, low, high)
    return _words(body, evidence)


def _span(evidence: Evidence) -> tuple[int, int]:
    """The least and the most devices that may have been free."""
    listed, in_use = evidence.listed, evidence.in_use
    if evidence.is_exact():
        return len(evidence.free), len(evidence.free)
    all_healthy = listed.count is not None and listed.count == listed.total
    if all_healthy and not (in_use.unknown or in_use.maybe or listed.known):
        free = (listed.count or 0) - len(in_use.certain | evidence.reuse)
        return free, free
    most = len(evidence.perhaps_free)
    if not listed.complete:
        # Without a count, devices that no checkpoint names may have been there.
        most = max(most, _UNCOUNTED if listed.count is None else listed.count)
    return len(evidence.free), most


def _counts(
    body: AllocationFailed,
    evidence: Evidence,
    text: str | None,
    needed: int,
    low: int,
    high: int,
) -> Judgement:
    resource, around, exact = evidence.resource, surroundings(evidence), low == high
    there = f"{needed} {resource} {'is' if needed == 1 else 'are'} needed"
    if exact and low >= needed:
        why = f"{there}, and enough are there, so the kubelet does not refuse: {around}"
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
        are = f"{low} {'is' if low == 1 else 'are'}"
        if not exact:
            are = f"{low} to {high} are" if high < _UNCOUNTED else f"{low} or more are"
        why = f"{there} and {are} there: {around}"
        return same(False, why, expected=expected if exact else None)
    if not exact:
        return lacks(evidence.inputs(_open(evidence)))
    why = f"container {evidence.holder[1]} needs {needed} {resource}, more than the {around}"
    return same(True, why, expected=expected)


def _answer(evidence: Evidence) -> Judgement:
    texts, only = errors_in(evidence)
    if "" in texts:
        why = (
            f"the plugin of {evidence.resource} was asked for {times(evidence.required, 'device')}"
            " and the error is its answer, or that of the disk, which nothing else shows"
        )
        return judge([Ruling(allowed=True, chosen=False, why=why, expected={})])
    if not only and not evidence.listed.maybe:
        # No checkpoint names any device: of what the plugin listed nothing is known.
        return lacks(evidence.inputs(_open(evidence)))
    error = min(texts)
    why = f"the plugin was not asked, because the kubelet refuses before with: {error}"
    return same(False, why, expected={"error": error} if only else None)


def _words(body: AllocationFailed, evidence: Evidence) -> Judgement:
    """Errors without counts: registration, health, a changed request."""
    texts, only = errors_in(evidence)
    if body.error not in texts:
        said = " or ".join(sorted(text or "no error" for text in texts))
        why = f"the kubelet comes to {said} here: {surroundings(evidence)}"
        expected = {"error": min(texts)} if only and "" not in texts else None
        return same(False, why, expected=expected)
    if len(texts) > 1:
        return lacks(evidence.inputs(_open(evidence)))
    asks = f"container {evidence.holder[1]} asks for {times(evidence.required, 'device')}"
    why = f"{asks} of {evidence.resource}: {body.error}"
    return same(True, why, expected={"error": body.error})


def _open(evidence: Evidence) -> tuple[Topic, ...]:
    topics: list[Topic] = []
    if evidence.listed.registered is None:
        topics.append("registered")
    if not evidence.listed.complete:
        topics.append("health")
    if evidence.in_use.unknown or evidence.in_use.maybe:
        topics.append("use")
    return tuple(topics) or ("health",)
