"""Cases of the eviction manager: settings, pods, and a series of rounds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import Final

from kubeledger.kubelet.cases.fields import Strict, Subsystem, most_alike, shortened
from kubeledger.kubelet.eviction.decisions import (
    Decision,
    EvictionConfig,
)
from kubeledger.kubelet.eviction.messages import REASON, Event
from kubeledger.kubelet.eviction.ranking import candidates, rank
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


def decide(case_input: EvictionInput, profile: KubeletProfile) -> Outcome:
    """The outcome; of thresholds and pods that may come first the first listed does."""
    return _rounds(case_input, profile, None)


def nearest(
    case_input: EvictionInput, profile: KubeletProfile, decided: Outcome, claimed: Outcome
) -> Outcome:
    """Follow a claimed outcome round by round."""
    return _rounds(case_input, profile, claimed)


def _rounds(case_input: EvictionInput, profile: KubeletProfile, claimed: Outcome | None) -> Outcome:
    """What the kubelet does, or can do that is most like a claim."""
    _check_pods(case_input.pods)
    times = [_time(step.at, at) for at, step in enumerate(case_input.steps)]
    config = _config(case_input.config, profile)
    if isinstance(config, tuple):
        known = claimed is not None and claimed.config_error in config
        error = claimed.config_error if claimed is not None and known else config[0]
        return Outcome(config_error=error, steps=[])
    manager, pods = EvictionManager(config, profile), case_input.pods
    claims = () if claimed is None else claimed.steps
    steps: list[StepOutcome] = []
    for step, now_ns, claim in zip_longest(case_input.steps, times, claims[: len(times)]):
        found = manager.observe(now_ns, step.summary, pods)
        ranks = _ranks(step, pods, profile)
        possible = manager.possible(found, _reclaim(step))
        outcomes = (_outcome(found.node_conditions, each, ranks) for each in possible)
        steps.append(most_alike(outcomes, claim))
        if claimed is not None and steps[-1] != claim:
            break
        pods = _left(pods, [each.pod for each in steps[-1].evicted])
    return Outcome(config_error="", steps=steps)


def _config(config: Config, profile: KubeletProfile) -> EvictionConfig | tuple[str, ...]:
    """The settings; or with what the kubelet refuses them, of several one."""
    transition_ns = _transition_ns(config.pressure_transition_period)
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
        return tuple(error.texts)
    return EvictionConfig(
        thresholds=thresholds,
        pressure_transition_period_ns=transition_ns,
        max_pod_grace_period_s=config.max_pod_grace_period_seconds,
        layout=_LAYOUTS[config.dedicated_image_fs, config.split_container_fs],
        local_storage_isolation=config.local_storage_capacity_isolation,
    )


def _ranks(step: Step, pods: Sequence[Pod], profile: KubeletProfile) -> dict[str, list[list[str]]]:
    """For some signals: UIDs of pods that come equally soon, in order."""
    stats = {each.pod_ref.uid or "": each for each in step.summary.pods or ()}
    return {
        name: [
            [group[0].uid] if len(group) == 1 else sorted(each.uid for each in group)
            for group in rank(candidates(pods, stats, signal, layout, profile), signal)
        ]
        for name, signal, layout in _RANKS
    }


def _outcome(
    node_conditions: Sequence[str], decision: Decision, ranks: dict[str, list[list[str]]]
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
        rank=ranks,
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


EVICTION = Subsystem(EvictionInput, Outcome, decide, nearest)
