"""Cases of one probe worker: a pod, a container, a probe type and its ticks.

The recorder of a case keeps no events: an event needs a reference to the pod by its kind,
which only a whole kubelet knows. So ``events`` is empty in what is decided, and a claim with
an event is impossible.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubeledger.kubelet.cases.instants import check_pod_times, check_status_times
from kubeledger.kubelet.cases.judgement import MATCH, Judgement, impossible
from kubeledger.kubelet.prober.causes import cause
from kubeledger.kubelet.prober.decider import Tick, TickOutcome, difference
from kubeledger.kubelet.prober.decider import decide as decide_ticks
from kubeledger.kubelet.prober.instants import ZERO_TIME_NS, instant_ns
from kubeledger.kubelet.prober.objects import Container, Pod
from kubeledger.kubelet.prober.results import Results
from kubeledger.kubelet.prober.worker import ProbeWorker, new_worker
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.bodies.prober import ProbeType
from kubeledger.model.errors import BadInputError

_NAMES = {
    "keep_going": "continue",
    "on_hold": "onHold",
    "result_run": "resultRun",
}


class ProberCase(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """One case.

    Attributes:
        container: name of the container; an app container before an init container.
        kubelet_started_at: RFC 3339; None where the version does not ask.
    """

    pod: Pod
    container: str
    probe_type: ProbeType
    ticks: list[Tick]
    kubelet_started_at: str | None = None


class Outcome(msgspec.Struct, forbid_unknown_fields=True):
    """The worker after each tick."""

    ticks: Sequence[TickOutcome]


INPUT = ProberCase
OUTCOME = Outcome


def decide(case_input: ProberCase, profile: KubeletProfile) -> Outcome:
    """Step the worker through all ticks.

    Raises:
        BadInputError: no such container or probe, a time that is none, or an execution that
            is not given.
    """
    check_pod_times(case_input.pod)
    for tick in case_input.ticks:
        check_status_times(tick.pod_status)
    return Outcome(decide_ticks(_worker(case_input, profile), case_input.ticks))


def judge(
    case_input: ProberCase, profile: KubeletProfile, decided: Outcome, claimed: Outcome
) -> Judgement:
    """Compare a claim tick by tick."""
    if len(claimed.ticks) != len(decided.ticks):
        counts = f"there are {len(decided.ticks)} ticks, but {len(claimed.ticks)} in the outcome"
        return impossible(counts)
    for index, (ours, theirs) in enumerate(zip(decided.ticks, claimed.ticks, strict=True)):
        name = difference(ours, theirs)
        if name is not None:
            return impossible(_why(case_input, profile, index, name, ours, theirs))
        if theirs.events:
            return impossible(
                f"tick {index + 1} has events {list(theirs.events)}, but a worker without a "
                "kubelet keeps none, because the recorder cannot refer to its pod"
            )
    return MATCH


def _worker(case: ProberCase, profile: KubeletProfile) -> ProbeWorker:
    spec = case.pod.spec
    container = _named(spec.containers, case.container) or _named(
        spec.init_containers or [], case.container
    )
    if container is None:
        raise BadInputError(f"input.container: the pod has no container {case.container!r}")
    started_at = case.kubelet_started_at
    worker = new_worker(
        case.pod,
        container,
        case.probe_type,
        Results(),
        profile.prober,
        ZERO_TIME_NS if started_at is None else instant_ns(started_at),
    )
    if worker is None:
        raise BadInputError(
            f"input.probeType: container {case.container!r} has no {case.probe_type}Probe"
        )
    return worker


def _named(containers: list[Container], name: str) -> Container | None:
    return next((container for container in containers if container.name == name), None)


def _why(
    case: ProberCase,
    profile: KubeletProfile,
    index: int,
    name: str,
    ours: TickOutcome,
    theirs: TickOutcome,
) -> str:
    """One sentence about the first difference."""
    because = cause(_worker(case, profile), case.ticks[: index + 1], name)
    encode = msgspec.json.encode
    expected, claimed = (encode(getattr(outcome, name)).decode() for outcome in (ours, theirs))
    return (
        f"after tick {index + 1} ({case.ticks[index].at}) the {case.probe_type} worker has "
        f"{_NAMES.get(name, name)} {expected}, not {claimed}, because {because}"
    )
