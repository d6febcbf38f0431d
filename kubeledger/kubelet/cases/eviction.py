"""Cases of the eviction manager: settings, pods, and a series of rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

import msgspec

from kubeledger.kubelet.cases.fields import ADMISSIBLE, Judgement, Strict, impossible, shortened
from kubeledger.kubelet.eviction.decisions import (
    Decision,
    EvictionConfig,
    Round,
    condition_reason,
    observed_text,
    outrank_text,
    why_nobody,
)
from kubeledger.kubelet.eviction.messages import REASON, Event
from kubeledger.kubelet.eviction.ranking import Candidate, candidates, rank
from kubeledger.kubelet.eviction.signals import MEMORY, PIDS, DiskLayout, ReclaimFunction, Summary
from kubeledger.kubelet.eviction.synchronize import EvictionManager, Reclaim
from kubeledger.kubelet.eviction.thresholds import (
    ThresholdConfigError,
    ThresholdSettings,
    parse_threshold_config,
)
from kubeledger.kubelet.kube.gotexts import parse_duration
from kubeledger.kubelet.kube.pod import Int32, Pod, lists_of_pods
from kubeledger.kubelet.kube.quantity import Quantity, QuantityError
from kubeledger.kubelet.kube.resources import check_asked
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import parse_api_ts

Ranked = tuple[str, Sequence[Sequence[Candidate]]]
"""A signal, and groups of equal pods in the order of their eviction for it."""


class EvictedPod(Strict, frozen=True, kw_only=True):
    """A pod and what its status says."""

    pod: str
    grace_period_seconds: int
    reason: str
    message: str
    condition_message: str


class StepOutcome(Strict, frozen=True, kw_only=True):
    """What one round did; ``rank`` is of the pods that were active before it."""

    evicted: list[EvictedPod]
    node_conditions: list[str]
    node_level_reclaim: list[str]
    events: list[str]
    rank: dict[str, list[list[str]]]


def why_not_so(
    claim: StepOutcome,
    outcomes: Sequence[StepOutcome],
    found: Round,
    decisions: Sequence[Decision],
    manager: EvictionManager,
    ranks: Mapping[str, Ranked],
) -> str:
    """The first difference to what can have been, with the reason."""
    decided = outcomes[0]
    for condition in sorted(set(claim.node_conditions) ^ set(decided.node_conditions)):
        return condition_reason(condition, found, manager.thresholds)
    if claim.node_conditions != decided.node_conditions:
        return f"the node's conditions are {decided.node_conditions}, each once and sorted"
    if claim.rank != decided.rank:
        return _wrong_rank(claim, ranks)
    uids = [each.pod for each in claim.evicted]
    same = [i for i, o in enumerate(outcomes) if [e.pod for e in o.evicted] == uids]
    if not same:
        return _wrong_pods(uids, found, decisions)
    reclaimed = [i for i in same if outcomes[i].node_level_reclaim == claim.node_level_reclaim]
    if not reclaimed:
        return _wrong_reclaim(outcomes[same[0]], decisions[same[0]])
    return _wrong_words(claim, outcomes[reclaimed[0]], decisions[reclaimed[0]])


def _wrong_rank(claim: StepOutcome, ranks: Mapping[str, Ranked]) -> str:
    """The first order that is another, and two pods misplaced in it."""
    if claim.rank.keys() != ranks.keys():
        return f"the orders are of {', '.join(ranks)}"
    for name, (signal, groups) in ranks.items():
        claimed = claim.rank[name]
        if claimed == uids_of(groups):
            continue
        place = {c.uid: (at, c) for at, group in enumerate(groups) for c in group}
        flat = [(uid, at) for at, group in enumerate(claimed) for uid in group]
        if sorted(uid for uid, _ in flat) != sorted(place):
            return f"the order for {name} holds each of the {len(place)} active pods once"
        for (one, one_at), (other, other_at) in pairwise(flat):
            (first_at, first), (second_at, second) = place[one], place[other]
            if first_at == second_at and one_at != other_at:
                return f"for {name} pods {one} and {other} are equal, so of one group"
            if first_at < second_at and one_at == other_at:
                return f"for {name} {outrank_text(first, second, signal)}"
            if first_at > second_at:
                return f"for {name} {outrank_text(second, first, signal)}"
        return f"the groups for {name} are not empty, and each is sorted by UID"
    return ""


def uids_of(groups: Sequence[Sequence[Candidate]]) -> list[list[str]]:
    """Groups as an outcome shows them."""
    return [
        [group[0].uid] if len(group) == 1 else sorted(candidate.uid for candidate in group)
        for group in groups
    ]


def _wrong_pods(uids: Sequence[str], found: Round, decisions: Sequence[Decision]) -> str:
    """Other pods are evicted."""
    decision = decisions[0]
    if not decision.evicted:
        return f"no pod is evicted: {why_nobody(found, decision)}"
    evicted = [each.pod.metadata.uid or "" for each in decision.evicted]
    threshold = decision.threshold
    if threshold is None:
        causes = "; ".join(
            f"pod {each.pod.metadata.uid}: {each.message.text.strip()}" for each in decision.evicted
        )
        return f"pods over their own limits go first, and no other: {causes}"
    short = observed_text(threshold, found.observations.get(threshold.signal))
    if len(uids) != 1:
        return f"pod {evicted[0]} is evicted, and no other: {short}"
    ranked: dict[str, Candidate] = {c.uid: c for group in decision.ranking for c in group}
    if uids[0] not in ranked:
        return f"pod {uids[0]} is not active, pod {evicted[0]} is evicted: {short}"
    if uids[0] in decision.passed_over:
        return f"pod {uids[0]} is critical, so pod {evicted[0]} is evicted: {short}"
    why = outrank_text(ranked[evicted[0]], ranked[uids[0]], threshold.signal)
    return f"{short}, and {why}"


def _wrong_reclaim(decided: StepOutcome, decision: Decision) -> str:
    called = ", ".join(decided.node_level_reclaim) or "nothing"
    if decision.threshold is None:
        return f"no threshold is acted on, so {called} is reclaimed before"
    return f"for {decision.threshold.signal} {called} is reclaimed on these disks"


def _wrong_words(claim: StepOutcome, decided: StepOutcome, decision: Decision) -> str:
    """The same pods, but with another grace period or in other words."""
    for claimed_pod, pod, eviction in zip(
        claim.evicted, decided.evicted, decision.evicted, strict=True
    ):
        if claimed_pod.grace_period_seconds != pod.grace_period_seconds:
            kind = "hard" if decision.threshold is None or decision.threshold.is_hard else "soft"
            return (
                f"pod {pod.pod} is given {pod.grace_period_seconds} s, as for a {kind} eviction "
                f"for {eviction.cause}, not {claimed_pod.grace_period_seconds} s"
            )
        for name in msgspec.structs.fields(EvictedPod):
            value = getattr(pod, name.name)
            if getattr(claimed_pod, name.name) != value:
                return f"the {name.encode_name} of pod {pod.pod} is {value!r}"
    return f"the events are {decided.events}"


_LAYOUTS: Final[dict[tuple[bool, bool], DiskLayout]] = {
    (False, False): "shared",
    (True, False): "dedicated",
    (True, True): "split",
    (False, True): "containers",
}
_RANKS: Final[tuple[tuple[str, str, DiskLayout], ...]] = (
    ("memory", MEMORY, "shared"),
    ("pid", PIDS, "shared"),
    ("nodefs", "nodefs.available", "shared"),
    ("nodefs-dedicated-imagefs", "nodefs.available", "dedicated"),
)
_RECLAIMS: Final = {ReclaimFunction.CONTAINERS: "containers", ReclaimFunction.IMAGES: "images"}


class Config(Strict, frozen=True, kw_only=True):
    """Settings of the manager and the disks it finds; null and absent maps are empty."""

    eviction_hard: dict[str, str] | None = None
    eviction_soft: dict[str, str] | None = None
    eviction_soft_grace_period: dict[str, str] | None = None
    eviction_minimum_reclaim: dict[str, str] | None = None
    enforce_node_allocatable: tuple[str, ...] | None = None
    pressure_transition_period: str = "5m0s"
    max_pod_grace_period_seconds: Int32 = 0
    dedicated_image_fs: bool = False
    split_container_fs: bool = False
    local_storage_capacity_isolation: bool = True


class Step(Strict, frozen=True, kw_only=True):
    """A round, and what the statistics say before and after a reclaim."""

    at: str
    summary: Summary
    after: Summary | None = None


class EvictionInput(Strict, frozen=True, kw_only=True):
    """A case's input; pods are in the kubelet's order."""

    config: Config
    pods: tuple[Pod, ...]
    steps: tuple[Step, ...]


class Outcome(Strict, frozen=True, kw_only=True):
    """A case's outcome."""

    config_error: str
    steps: list[StepOutcome]


INPUT = EvictionInput
OUTCOME = Outcome


def decide(case_input: EvictionInput, profile: KubeletProfile) -> Outcome:
    """The outcome; of thresholds and pods that may come first the first listed does."""
    return _Case(case_input, profile).decide()


def judge(
    case_input: EvictionInput, profile: KubeletProfile, decided: Outcome, claimed: Outcome
) -> Judgement:
    """Follow a claimed outcome round by round."""
    why = _Case(case_input, profile).why_not(claimed)
    return impossible(why) if why else ADMISSIBLE


class _Case:
    """A checked case."""

    def __init__(self, case_input: EvictionInput, profile: KubeletProfile) -> None:
        self._input = case_input
        self._profile = profile
        config = case_input.config
        _check_pods(case_input.pods)
        self._transition_ns = _transition_ns(config.pressure_transition_period)
        self._times = [_time(step.at, at) for at, step in enumerate(case_input.steps)]
        self._config: EvictionConfig | None = None
        self._errors: tuple[str, ...] = ()
        settings = ThresholdSettings(
            eviction_hard=config.eviction_hard or {},
            eviction_soft=config.eviction_soft or {},
            eviction_soft_grace_period=config.eviction_soft_grace_period or {},
            eviction_minimum_reclaim=config.eviction_minimum_reclaim or {},
            enforce_node_allocatable=config.enforce_node_allocatable or (),
        )
        try:
            thresholds = parse_threshold_config(settings, profile)
        except ThresholdConfigError as error:
            self._errors = error.texts
            return
        self._config = EvictionConfig(
            thresholds=thresholds,
            pressure_transition_period_ns=self._transition_ns,
            max_pod_grace_period_s=config.max_pod_grace_period_seconds,
            layout=_LAYOUTS[config.dedicated_image_fs, config.split_container_fs],
            local_storage_isolation=config.local_storage_capacity_isolation,
        )

    def decide(self) -> Outcome:
        """The outcome without any choice of another."""
        if self._config is None:
            return Outcome(config_error=self._errors[0], steps=[])
        manager = EvictionManager(self._config, self._profile)
        pods = self._input.pods
        steps: list[StepOutcome] = []
        for step, now_ns in zip(self._input.steps, self._times, strict=True):
            _, decision = manager.synchronize(now_ns, step.summary, pods, _reclaim(step))
            ranks = self._ranks(step, pods)
            steps.append(_outcome(manager.node_conditions, decision, ranks))
            pods = _left(pods, [e.pod for e in steps[-1].evicted])
        return Outcome(config_error="", steps=steps)

    def why_not(self, claimed: Outcome) -> str:
        """Why no run of the kubelet gives a claim; empty when one does."""
        if self._config is None:
            if claimed.config_error not in self._errors or claimed.steps:
                return f"the kubelet does not start with these settings: {self._errors[0]}"
            return ""
        if claimed.config_error:
            return "the kubelet takes these settings"
        if len(claimed.steps) != len(self._input.steps):
            return f"{len(self._input.steps)} rounds have {len(claimed.steps)} outcomes"
        manager = EvictionManager(self._config, self._profile)
        pods = self._input.pods
        for at, (step, claim) in enumerate(zip(self._input.steps, claimed.steps, strict=True)):
            found = manager.observe(self._times[at], step.summary, pods)
            decisions = list(manager.possible(found, _reclaim(step)))
            ranks = self._ranks(step, pods)
            outcomes = [_outcome(found.node_conditions, each, ranks) for each in decisions]
            if claim not in outcomes:
                why = why_not_so(claim, outcomes, found, decisions, manager, ranks)
                return f"step {at}: {why}"
            pods = _left(pods, [each.pod for each in claim.evicted])
        return ""

    def _ranks(self, step: Step, pods: Sequence[Pod]) -> dict[str, Ranked]:
        stats = {each.pod_ref.uid or "": each for each in step.summary.pods or ()}
        return {
            name: (signal, rank(candidates(pods, stats, signal, layout, self._profile), signal))
            for name, signal, layout in _RANKS
        }


def _outcome(
    node_conditions: Sequence[str], decision: Decision, ranks: Mapping[str, Ranked]
) -> StepOutcome:
    return StepOutcome(
        evicted=[
            EvictedPod(
                pod=each.pod.metadata.uid or "",
                grace_period_seconds=each.grace_period_s,
                reason=REASON,
                message=each.message.text,
                condition_message=each.condition_message,
            )
            for each in decision.evicted
        ],
        node_conditions=list(node_conditions),
        node_level_reclaim=[_RECLAIMS[function] for function in decision.reclaimed],
        events=[_event_line(event) for event in decision.events],
        rank={name: uids_of(groups) for name, (_, groups) in ranks.items()},
    )


def _left(pods: tuple[Pod, ...], evicted: Sequence[str]) -> tuple[Pod, ...]:
    gone = set(evicted)
    return tuple(pod for pod in pods if (pod.metadata.uid or "") not in gone) if gone else pods


def _reclaim(step: Step) -> Reclaim:
    return lambda _threshold, _functions: step.after or step.summary


def _event_line(event: Event) -> str:
    """As Go prints the annotations: a sorted map, after the message."""
    line = f"{event.type} {event.reason} {event.message}"
    if not event.annotations:
        return line
    pairs = " ".join(f"{key}:{event.annotations[key]}" for key in sorted(event.annotations))
    return f"{line} map[{pairs}]"


def _check_pods(pods: Sequence[Pod]) -> None:
    check_asked(lists_of_pods(pods))
    for at, pod in enumerate(pods):
        for place, volume in enumerate(pod.spec.volumes or ()):
            size = volume.empty_dir.size_limit if volume.empty_dir is not None else None
            try:
                Quantity.from_api(size)
            except QuantityError as error:
                field = f"input.pods[{at}].spec.volumes[{place}].emptyDir.sizeLimit"
                raise BadInputError(f"{field}: {shortened(size)}: {error}") from None


@lru_cache(maxsize=256)
def _transition_ns(text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError:
        raise BadInputError(
            f"input.config.pressureTransitionPeriod: no Go duration: {shortened(text)}"
        ) from None


def _time(text: str, at: int) -> int:
    try:
        return parse_api_ts(text)
    except ValueError:
        raise BadInputError(
            f"input.steps[{at}].at: not an RFC 3339 time: {shortened(text)}"
        ) from None
