"""Refused containers: would the kubelet have refused, and in these words?

What it says depends on how many devices are free, and on whether the resource is registered. So
the decider is asked in the worlds with the fewest devices, the most, and as many as are known.
What the plugin or the disk answered is in the error alone: such an error is possible
whenever the plugin was asked at all.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from kubeledger.kubelet.devicemanager.plans import Refusal, plans
from kubeledger.model.bodies.devicemanager import NO_HINTS, AllocationFailed
from kubeledger.model.record import Record
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, Ruling, judge, lacks, open_to, same
from kubeledger.verify.rules.devices.evidence import Evidence, Topic
from kubeledger.verify.rules.devices.first_pass import Holder
from kubeledger.verify.rules.devices.grants import RULE, found_with
from kubeledger.verify.rules.devices.model import DeviceTable, surroundings, times

_SHORTAGE = re.compile(
    r"requested number of devices unavailable for \S+\. Requested: (-?\d+), Available: (-?\d+)"
)
_HINTS_RULE: Final = "pkg/kubelet/cm/devicemanager/topology_hints.go GetTopologyHints"
_OPEN: Final[tuple[Topic, ...]] = ("registered", "health", "use")
_ANSWERS = (
    "rpc error: ",
    "endpoint /",
    "endpoint unix",
    "no containers return in allocation response",
    "device plugin GetPreferredAllocation rpc failed",
    "failed to write checkpoint file",
)
"""Errors that are what the plugin, or the disk, answered."""


class _Said(NamedTuple):
    """An error, empty for success, with its counts where it is about these."""

    error: str
    requested: int | None = None
    available: int | None = None


class Refusals(DeviceTable):
    """Judgements of ``AllocationFailed``."""

    def failed(self, record: Record, body: AllocationFailed, state: NodeState) -> None:
        """Judge a refusal."""
        pod, container = self.key(record, state), body.container
        specs = self.specs(record) if container is None and body.resource is not None else []
        asking = [spec.name for spec in specs if spec.limit(body.resource or "")]
        container = asking[0] if len(asking) == 1 else container
        if specs and not asking:
            found = same(False, f"no container of the pod asks for {body.resource}")
        elif body.resource is None or container is None:
            what = "resource" if body.resource is None else "container"
            found = lacks([f"the {what} that was refused"])
        elif body.told_by == "status":
            found = lacks(["the time of the refusal"])
        else:
            holder = (pod, container, body.resource)
            found = self._refused(record, body, holder, state)
            self.answered(record, holder)
            if body.told_by == "event" and found.verdict == "impossible":
                found = lacks(["the instant of the refusal within its second"])
            found = found_with(found, rule=_HINTS_RULE if body.error == NO_HINTS else RULE)
        names = ("error",) if found.expected is None else found.expected
        self.give(record, self.subject(record, pod, container), found, names)

    def _refused(
        self, record: Record, body: AllocationFailed, holder: Holder, state: NodeState
    ) -> Judgement:
        if (wrong := self.wrong_asker(record, holder)) is not None:
            return wrong
        evidence = self.evidence(record, state, holder)
        if not isinstance(evidence, Evidence):
            return evidence
        if body.available is not None and body.hints_available is not None:
            # The line about hints counts all that is needed, and what is to be used again as there.
            there = body.available + len(evidence.reuse)
            if (body.hints_requested, body.hints_available) != (evidence.required, there):
                why = f"the line about hints counts {body.hints_available} devices, not {there}"
                expected = {"hints_requested": None, "hints_available": None}
                return same(False, why, expected=expected)
        found = _ruling(body, evidence)
        opened = found.verdict == "impossible" and _ruling(body, evidence.opened())
        if opened and opened.verdict != "impossible":
            # What it could not refuse by the known devices, it may by what a lost line showed.
            found = open_to(evidence.lost(), denied=found.why)
        return found_with(found, evidence.seqs)


def _ruling(body: AllocationFailed, evidence: Evidence) -> Judgement:
    """Whether the kubelet says so here."""
    counted = body.error == NO_HINTS or _SHORTAGE.fullmatch(body.error)
    given = _Said(body.error, *((body.requested, body.available) if counted else ()))
    said = _said(evidence, given)
    is_answer = body.error.startswith(_ANSWERS)
    asks = f"container {evidence.holder[1]} requests {times(evidence.required, 'device')}"
    if is_answer and _Said("") in said:
        why = (
            f"{asks}: the plugin of {evidence.resource} was called, and the error is its answer, "
            "or that of the disk, which nothing else shows"
        )
        return judge([Ruling(allowed=True, chosen=False, why=why, expected={})])
    # Where no checkpoint names any device, of what the plugin listed nothing is known.
    unnamed = is_answer and not evidence.is_exact() and not evidence.listed.maybe
    around, only = surroundings(evidence), next(iter(said)) if len(said) == 1 else None
    expected: dict[str, Any] | None = None
    if only is not None and only.error:
        expected = {name: value for name, value in only._asdict().items() if value is not None}
    if given not in said and not unnamed:
        errors = " or ".join(sorted({each.error or "no error" for each in said}))
        return same(False, f"the kubelet comes to {errors} here: {around}", expected=expected)
    if only is None or unnamed:
        return lacks(evidence.inputs(evidence.open_topics(_OPEN) or ("health",)))
    why = f"{asks} of {evidence.resource}: {body.error}"
    if counted:
        needed = f"{body.requested} {evidence.resource}"
        why = f"container {evidence.holder[1]} needs {needed}, more than the {around}"
    return same(True, why, expected=expected)


def _said(evidence: Evidence, given: _Said) -> set[_Said]:
    """What the kubelet may say: with the fewest devices free, the most, and those known."""
    listed, in_use, reuse = evidence.listed, evidence.in_use, evidence.reuse
    certain = in_use.certain - reuse
    few, many = listed.healthy, listed.maybe
    perhaps = (in_use.maybe | few if in_use.unknown else in_use.maybe) - reuse
    if not listed.complete:  # stand-ins for devices that no record names, as many as matter
        all_well = listed.count is not None and listed.count == listed.total
        named = many | certain | reuse if all_well else many
        unnamed = evidence.required if listed.count is None else listed.count - len(named)
        many |= _stand_ins(min(unnamed, evidence.required))
        if all_well and not in_use.unknown:
            few |= _stand_ins((listed.count or 0) - len(few | certain | perhaps | reuse))
    worlds = [(few, certain | perhaps), (many, certain)]
    asked_for = given.available if given.error != NO_HINTS else (given.available or 0) - len(reuse)
    most = sorted(many - certain - reuse)
    least = len(few - certain - perhaps - reuse)
    if asked_for is not None and least <= asked_for <= len(most):
        worlds.append((many, certain.union(most[asked_for:])))
    return {
        said
        for healthy, used in worlds
        for registered in ((True, False) if listed.registered is None else (listed.registered,))
        for said in _said_in(evidence, healthy if registered else None, used, given)
    }


def _said_in(
    evidence: Evidence, healthy: frozenset[str] | None, used: frozenset[str], given: _Said
) -> set[_Said]:
    """What it says in one world; ``healthy`` is None where the resource is not registered."""
    required = evidence.required
    if given.error == NO_HINTS:  # all devices are counted, those to be used again as there
        there = len((healthy or frozenset()) - used - evidence.reuse) + len(evidence.reuse)
        return {_Said(NO_HINTS, required, there) if there < required else _Said("")}
    manager = evidence.manager(healthy or frozenset(), used)
    if healthy is None:
        manager.healthy.clear()
    found = set()
    for plan in plans(manager, evidence.request(None)):
        error = plan.error if isinstance(plan, Refusal) else ""
        counts = _SHORTAGE.fullmatch(error)
        found.add(_Said(error, *map(int, counts.groups())) if counts else _Said(error))
    return found


def _stand_ins(count: int) -> frozenset[str]:
    return frozenset(f"<{index}>" for index in range(count))
