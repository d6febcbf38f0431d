"""What was to become of a resize: allocated, deferred or infeasible, and in these words?

A resize is admitted like a new pod, beside all others with what is allocated to them; before that
it is seen whether it could ever be. What the runtime made of it follows from what was allocated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from kubeledger.kubelet.allocation.handlers import (
    DEFERRED,
    INFEASIBLE,
    NodeConfig,
    Refusal,
    infeasible,
)
from kubeledger.kubelet.allocation.state import allocation_from_pod, same_resources
from kubeledger.kubelet.kube.pod import Pod, ResourceRequirements, containers_of
from kubeledger.kubelet.kube.podclass import is_critical_pod
from kubeledger.kubelet.kube.resources import ResourceList
from kubeledger.kubelet.lifecycle.nodeinfo import pod_request
from kubeledger.kubelet.preemption.explain import amount, listing
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.bodies.cgroups import PodResources, PodsStateRead
from kubeledger.model.bodies.lifecycle import PodResized
from kubeledger.model.errors import BadInputError
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import Judgement, Ruling, judge, lacks, open_to, same
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.pod_objects import PodObject
from kubeledger.verify.evidence.pods import ListedPod, key_of_pod
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.admission.case import AdmissionCase, AdmissionOutcome, capacities
from kubeledger.verify.rules.admission.inputs import AdmissionInputs
from kubeledger.verify.rules.admission.judging import (
    RULE_EVICTION,
    by_its_numbers,
    fits_because,
    freely,
)
from kubeledger.verify.rules.admission.nodes import absolute_at
from kubeledger.verify.rules.admission.refused import CONDITION_MESSAGE, OUT_OF
from kubeledger.verify.variant import UNKNOWN

RULE_RESIZE: Final = "pkg/kubelet/allocation manager.handlePodResourcesResize"
_SETTLED_NS: Final = 10 * NS_PER_S
"""A snapshot is named by the second it began in, and takes a while to be made."""
_ASKED: Final = "what the pod asked for"
_NOTHING: Final = ResourceRequirements()
_Resources = dict[str, ResourceRequirements]
_SWAP: Final = "which of its containers may swap"
_OUTCOMES: Final = {DEFERRED: "deferred", INFEASIBLE: "infeasible"}


class Resizes:
    """Judges what records say of resizes."""

    def __init__(self, context: VerifyContext, inputs: AdmissionInputs) -> None:
        self._context = context
        self._inputs = inputs
        self._allocated: dict[str, list[tuple[Record, PodResized]]] = {}
        self._told: dict[str, list[tuple[Record, PodResized]]] = {}
        self._file: tuple[Record, PodsStateRead] | None = None

    def judged(self, record: Record, body: PodResized, state: NodeState) -> Judgement:
        """The judgement of one record; what it says is noted for later ones."""
        given = self._allocated.setdefault(key_of_pod(body), [])
        # What is actuated was allocated, though that line may be lost.
        is_new = all(each.resources != body.resources for _, each in given)
        if body.outcome == "allocated" or (body.outcome == "actuated" and is_new):
            self._told.setdefault(key_of_pod(body), []).append((record, body))
        if body.outcome == "actuated" or body.reason == "Error":
            return self._followed(record, body)
        judgement = self._judged(record, body, state)
        if body.outcome == "allocated":
            given.append((record, body))
        return judgement

    def state_read(self, record: Record, body: PodsStateRead, state: NodeState) -> None:
        """What the state file shows that was allocated, against what records say of resizes."""
        if body.which != "allocated" or body.checksum_ok is False:
            return
        before, self._file = self._file, (record, body)
        if before is None:
            return
        until_ns, since_ns = record.ts_ns - _SETTLED_NS, before[0].ts_ns - _SETTLED_NS
        for uid, given in body.pods.items():
            told = [each for each in self._told.get(uid, ()) if each[0].ts_ns >= since_ns]
            fresh = [each for each in told if each[0].ts_ns >= until_ns]
            may_be = [*told[: len(told) - len(fresh)][-1:], *fresh]
            had = before[1].pods.get(uid)
            if len(may_be) == len(fresh) and had in (None, given):
                continue
            wants = (each.resources or {} for _, each in may_be)
            if any(_shows(given, msgspec.convert(each, _Resources)) for each in wants):
                continue
            if self._context.coverage.missing(since_ns, record.ts_ns) is not None:
                continue  # another resize may be in a line that is lost
            listed = self._context.pods.at(record.ts_ns, uid)
            if listed is None:
                continue
            if not may_be and not self._is_news(listed, since_ns, record.ts_ns, given):
                continue  # of a resize that the file shows alone the line is lost
            last = (before[0].seq, "it showed something else, and no list shows this")
            last = (may_be[0][0].seq, "a resize was allocated") if may_be else last
            sides = last, (record.seq, "allocated_pods_state shows another allocation")
            subject, kind = f"pod/{listed.namespace}/{listed.name}", PodResized.kind
            why, at_ns = "allocated_pods_state and what is told of its resizes differ", record.ts_ns
            self._context.contradict(at_ns, subject, why, *sides, by_absence=True, kind=kind)

    def _is_news(
        self, listed: ListedPod, since_ns: int, until_ns: int, given: PodResources
    ) -> bool:
        """Whether a pod never asked, as lists of before and the next one show, for what it has."""
        pods = self._context.pods
        versions = pods.versions(listed)
        later = sum(each.ts_ns <= until_ns for each in versions)
        shown = [each.pod for each in versions[: later + 1]]
        asked = (
            {c.name or "": c.resources or _NOTHING for c in containers_of(pod)}
            for pod in filter(None, shown)
        )
        if None in shown or any(_shows(given, each) for each in asked):
            return False
        return pods.is_unchanged(listed, since_ns, until_ns)

    def _followed(self, at: Record, body: PodResized) -> Judgement:
        """What the runtime made of it: of what was allocated and not before what was done.

        A sync goes on with what was allocated when it began, whatever is since.
        """
        given = self._allocated[key_of_pod(body)]
        if not given:
            return lacks(("what was allocated to the pod before",))
        for record, allocated in reversed(given):
            one, other = allocated.resources, body.resources
            if one is None or other is None or one == other:
                if body.outcome == "actuated":
                    del given[: given.index((record, allocated))]
                return same(True, "the resize was allocated before", inputs=(record.seq,))
        last, allocated = given[-1]
        why = "what was allocated last to the pod is something else"
        if self._was_asked_for(at, body, last, allocated):
            lost = "the line of the last allocation, which may be lost"
            return open_to(lost, denied=why, inputs=(last.seq,))
        return same(False, why, expected={"resources": allocated.resources}, inputs=(last.seq,))

    def _was_asked_for(
        self, record: Record, body: PodResized, since: Record, last: PodResized
    ) -> bool:
        """Whether lists show the pod to ask for these resources since others were allocated."""
        assert body.resources is not None
        assert last.resources is not None
        objects, ts_ns = self._inputs.objects, record.ts_ns
        if (interval := self._context.timeline.interval_of(record)) is None:
            return False
        now, new = (objects.asking(ts_ns, interval, r) for r in (last.resources, body.resources))
        asked = () if now is None else objects.asked(ts_ns, interval, now)
        later = (each.pod.spec for each in asked if each.seq > since.seq)
        return new is not None and new.pod.spec in later

    def _judged(self, record: Record, body: PodResized, state: NodeState) -> Judgement:
        context, profile = self._context, self._context.profile
        if profile is None:
            return lacks((context.missing_profile,))
        if not profile.kuberuntime.resizes_in_place:
            return lacks(("resizes in place by the rules of this kubelet",))
        if (interval := context.timeline.interval_of(record)) is None:
            return lacks(("the line that hands the pod to the kubelet (SyncLoop ADD)",))
        now = self._inputs.objects.at(record.ts_ns, interval, record.node)
        if now is None:
            return lacks(("the pod's spec",))
        config = self._config(record.ts_ns, now.pod, state)
        if isinstance(config, str):
            return lacks((config,))
        if body.resources is None:
            wants = self._inputs.objects.asked(record.ts_ns, interval, now)
        else:
            asking = self._inputs.objects.asking(record.ts_ns, interval, body.resources)
            wants = [] if asking is None else [asking]
            shown = [self._inputs.objects.denied(record.ts_ns, interval, want) for want in wants]
            if denied := [seq for seq in shown if seq is not None]:
                why = "the lists around show that the pod did not ask for these resources"
                return same(False, why, inputs=denied)
        rulings: list[Ruling] = []
        unknown: tuple[str, ...] = () if body.resources is not None else (_ASKED,)
        last: AdmissionCase | None = None
        for want in wants:
            case = self._inputs.case_of_resize(interval, want, record.ts_ns, record.node, state)
            if isinstance(case, tuple):
                return lacks(case)
            last = case
            try:
                rulings += _rulings(case, now, config, profile, body)
            except BadInputError:
                return lacks(("readable quantities of all pods",))
            unknown += (*_left_open(case, body), *case.unknown_inputs)
            unknown += (_SWAP,) if config.swap_behavior else ()
        if last is None:
            return lacks((_ASKED,))
        if unknown == (_ASKED,) and all(ruling.allowed for ruling in rulings):
            return judge(rulings)
        if body.message is None and any(ruling.allowed for ruling in rulings):
            return judge(rulings)  # it shows no numbers
        return by_its_numbers(last, rulings, dict.fromkeys(unknown))

    def _config(self, ts_ns: int, pod: Pod, state: NodeState) -> NodeConfig | str:
        """What of the node counts besides its pods; or the name of what is missing."""
        settings = self._context.settings
        policies: list[str] = []
        for name in ("cpuManagerPolicy", "memoryManagerPolicy"):
            value = settings.get(name)
            if value is UNKNOWN:
                return f"the setting {name}"
            policies.append(str(value or ""))
        capacity: ResourceList = {}
        if not self._context.known_profile.allocation.resize_is_an_admission:
            amounts = absolute_at(self._inputs.nodes, ts_ns, settings, state)
            if amounts is None:
                return "the node's capacity of cpu and memory"
            capacity = {name: amount.canonical() for name, amount in amounts.items()}
        swap = settings.get("memorySwap")
        behavior = swap.get("swapBehavior") if isinstance(swap, dict) else None
        every = {container.name or "": "LimitedSwap" for container in containers_of(pod)}
        swaps = {} if behavior in (None, "", "NoSwap") else every
        return NodeConfig(policies[0], policies[1], capacity, swaps)


def _rulings(
    case: AdmissionCase,
    now: PodObject,
    config: NodeConfig,
    profile: KubeletProfile,
    body: PodResized,
) -> Iterator[Ruling]:
    """What the kubelet makes of the resize, world by world."""
    facts = profile.allocation
    if not (facts.resize_is_an_admission or facts.capacity_ignores_eviction_threshold):
        allocatable = case.nodes[0].status.allocatable or {}
        config = config._replace(capacity=allocatable)
    info = allocation_from_pod(now.pod, profile.kuberuntime)
    refusal = infeasible(case.pod, now.pod, info, config, profile)
    if refusal is not None:
        yield _ruling(case, body, refusal, None)
        return
    if case.pressure is not None and not is_critical_pod(case.pod):
        yield _under_pressure(case, body, *case.pressure)
        return
    for choices in case.outcomes():
        yield freely(_in_world(case, body, each) for each in choices)


def _under_pressure(case: AdmissionCase, body: PodResized, seq: int, says: str) -> Ruling:
    said = body.message is None or CONDITION_MESSAGE.fullmatch(body.message) is not None
    return Ruling(
        allowed=body.outcome == "deferred" and said,
        why=f"the pod is not critical, and the node was short: {says}",
        expected={"outcome": "deferred", "reason": "Evicted"},
        inputs=(*case.inputs, seq),
        rule=RULE_EVICTION,
    )


def _left_open(case: AdmissionCase, body: PodResized) -> Iterator[str]:
    """What no record shows and may have led to it."""
    reasons = {each.result.reason for choices in case.outcomes() for each in choices}
    if body.outcome == "deferred" and body.message is not None:
        if CONDITION_MESSAGE.fullmatch(body.message):
            yield "whether the node was short"
        elif (short := OUT_OF.fullmatch(body.message)) is not None:
            yield from case.unknown_capacity(short[1])
        elif not body.message.startswith("Predicate "):
            yield "what the other admit handlers found"
    yield from case.unknown_of_node(reasons)
    yield from capacities(case.unsized)


def _in_world(case: AdmissionCase, body: PodResized, outcome: AdmissionOutcome) -> Ruling:
    result = outcome.result
    refusal = None if result.admit else Refusal(result.reason, result.message)
    return replace(_ruling(case, body, refusal, outcome), assumes=outcome.assumes)


def _ruling(
    case: AdmissionCase, body: PodResized, refusal: Refusal | None, outcome: AdmissionOutcome | None
) -> Ruling:
    expected: Fields = {"outcome": "allocated"}
    reasons: list[str | None] = [None]
    if refusal is not None:
        reason = INFEASIBLE if refusal.check is not None else DEFERRED
        expected = {"outcome": _OUTCOMES[reason], "message": refusal.message}
        reasons += [reason, refusal.reason]
    same_words = body.message in (None, expected.get("message"))
    return Ruling(
        allowed=expected["outcome"] == body.outcome and same_words and body.reason in reasons,
        why=_why(case, refusal, outcome),
        expected=expected,
        inputs=(*case.inputs, *(outcome.specs if outcome is not None else ())),
        rule=RULE_RESIZE,
    )


def _why(case: AdmissionCase, refusal: Refusal | None, outcome: AdmissionOutcome | None) -> str:
    if refusal is None:
        assert outcome is not None
        return f"the resize fits: {fits_because(case, outcome)}"
    if refusal.check is not None:
        return f"it can never be: {refusal.message}"
    if beyond := _larger_than_node(case):
        return f"it is tried for ever, but the node has only {beyond}: {refusal.message}"
    return f"no room now: {refusal.message}"


def _larger_than_node(case: AdmissionCase) -> str:
    """What of the node the pod asks for more of than there is in all, in words; empty: nothing."""
    info, asked = next(case.outcomes())[0].info, pod_request(case.pod.spec, case.facts)
    over = [name for name in ("cpu", "memory") if asked.get(name, 0) > info.allocatable(name)]
    return listing(amount(name, info.allocatable(name)) for name in over)


def _shows(given: PodResources, wanted: _Resources) -> bool:
    """Whether a state file shows what containers ask for, or were told to have."""
    shown = ((given.containers[n], of) for n, of in wanted.items() if n in given.containers)
    return all(
        same_resources(of, ResourceRequirements({**(has.requests or {})}, {**(has.limits or {})}))
        for has, of in shown
    )
