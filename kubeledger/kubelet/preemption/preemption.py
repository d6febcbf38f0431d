"""Which pods are killed to let a critical pod in: the kubelet's preemption.go.

Candidates are split by QoS class. Guaranteed pods are chosen as if all others were gone, then
Burstable ones as if all BestEffort and the chosen Guaranteed ones were gone, then BestEffort
ones for what is left. Inside a class the pod nearest to what is missing goes first, and of
equally near ones the one that asks for less memory, then less cpu.

One walk over these turns, by the kubelet's own choice or along a claim, serves :func:`decide`
as well as ``explain``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from kubeledger.kubelet.kube.amounts import NANOS, NotPlainError, from_nanos, whole_amounts
from kubeledger.kubelet.kube.critical import is_critical_pod, preemptable
from kubeledger.kubelet.kube.pod import Pod, PodSpec
from kubeledger.kubelet.kube.podqos import QOSClass, pod_qos
from kubeledger.kubelet.kube.podtotals import freed_total
from kubeledger.kubelet.profile.admission import AdmissionFacts
from kubeledger.model.bodies.preemption import InsufficientResource

MESSAGE: Final = "Preempted in order to admit critical pod"
KILL_ORDER: Final[tuple[QOSClass, ...]] = ("BestEffort", "Burstable", "Guaranteed")
_WAIT_MIN_S: Final = 10

Requirements = tuple[InsufficientResource, ...]
"""The kubelet's ``admissionRequirementList``: what is still missing, in order."""


class PreemptionOutcome(NamedTuple):
    """What preemption came to.

    Attributes:
        victims: UIDs in the order they are killed. A kill that fails is passed over: the pod
            is admitted all the same.
        error: why no pod was killed and this one is not admitted; empty if it is.
    """

    victims: tuple[str, ...] = ()
    error: str = ""


class Candidate:
    """A pod that may be preempted.

    Attributes:
        place: among the candidates, in the order the kubelet lists them.
        frees: resource -> what killing it frees, worked out when first asked for.
    """

    __slots__ = ("frees", "place", "pod", "qos")

    def __init__(self, place: int, pod: Pod, facts: AdmissionFacts) -> None:
        self.place, self.pod = place, pod
        self.frees = _Freed(pod.spec, facts.victims_counted_with_sidecars)
        self.qos = pod_qos(
            pod, status_wins=facts.qos_class_from_status, pod_level=facts.pod_level_resources
        )

    @property
    def uid(self) -> str:
        """Its UID; empty where it has none."""
        return self.pod.metadata.uid or ""

    @property
    def size(self) -> tuple[int, int]:
        """Memory and cpu: the smaller of two requests is the smaller pair.

        Source: v1.20.2 pkg/kubelet/preemption/preemption.go smallerResourceRequest
        Differs: a key to compare by.
        """
        return self.frees["memory"], self.frees["cpu"]


class Turn(NamedTuple):
    """One victim's turn, or the end of a class.

    Attributes:
        gone: (k,) pods taken as gone when the class is begun, ``killed`` victims of it so far.
        missing: (r,) what is still missing.
        pods: (n,) of the class that are left, as the kubelet's array has them.
        victim: the one that is taken; None: no more of this class.
    """

    qos: QOSClass
    gone: Sequence[Candidate]
    killed: Sequence[Candidate]
    missing: Requirements
    pods: Sequence[Candidate]
    victim: Candidate | None


def recovery(
    preemptor: Pod, pods: Sequence[Pod], facts: AdmissionFacts
) -> Callable[[Requirements], PreemptionOutcome] | None:
    """:func:`decide` for what will be missing; None: others are killed only for critical pods."""
    return partial(decide, preemptor, pods, facts) if is_critical_pod(preemptor) else None


def decide(
    preemptor: Pod, pods: Sequence[Pod], facts: AdmissionFacts, insufficient: Requirements
) -> PreemptionOutcome:
    """Choose victims for a critical pod that only lacks resources.

    Args:
        preemptor: the critical pod.
        pods: (n,) active pods in the order the kubelet lists them.
        facts: the kubelet's version.
        insufficient: (r,) what is missing, in the order the fit check found it.

    Source: v1.20.2 pkg/kubelet/preemption/preemption.go HandleAdmissionFailure,
        evictPodsToFreeRequests
    Differs: the pods are not killed.
    """
    candidates = candidates_of(preemptor, pods, facts)
    if unmet := subtract(insufficient, candidates):
        return PreemptionOutcome(
            error="preemption: error finding a set of pods to preempt: "
            f"no set of running pods found to reclaim resources: {to_string(unmet)}"
        )
    chosen = [turn.victim for turn in pods_to_preempt(candidates, insufficient) if turn.victim]
    chosen.sort(key=lambda victim: KILL_ORDER.index(victim.qos))
    return PreemptionOutcome(victims=tuple(victim.uid for victim in chosen))


def candidates_of(preemptor: Pod, pods: Iterable[Pod], facts: AdmissionFacts) -> list[Candidate]:
    """The pods that the preemptor may preempt."""
    allowed = (pod for pod in pods if not is_critical_pod(pod) or preemptable(preemptor, pod))
    return [Candidate(place, pod, facts) for place, pod in enumerate(allowed)]


def pods_to_preempt(
    candidates: Sequence[Candidate],
    requirements: Requirements,
    claimed: Sequence[Candidate] | None = None,
) -> Iterator[Turn]:
    """Choose the victims, who together free what is missing: turn by turn, class by class.

    Args:
        candidates: (n,) in the order the kubelet lists them, which decides between equals.
        requirements: (r,) what is missing.
        claimed: victims to take in place of the kubelet's choice, whether or not it could.

    Source: v1.20.2 pkg/kubelet/preemption/preemption.go getPodsToPreempt
    Differs: the caller has made sure that all candidates together free enough.
    """
    by_qos = {qos: [each for each in candidates if each.qos == qos] for qos in KILL_ORDER}
    best_effort, burstable = by_qos["BestEffort"], by_qos["Burstable"]

    def to_evict(qos: QOSClass, gone: list[Candidate]) -> Generator[Turn, None, list[Candidate]]:
        claims = None if claimed is None else [each for each in claimed if each.qos == qos]
        return _by_distance(qos, by_qos[qos], gone, requirements, claims)

    guaranteed_to_evict = yield from to_evict("Guaranteed", best_effort + burstable)
    burstable_to_evict = yield from to_evict("Burstable", best_effort + guaranteed_to_evict)
    yield from to_evict("BestEffort", burstable_to_evict + guaranteed_to_evict)


def _by_distance(
    qos: QOSClass,
    pods: list[Candidate],
    gone: list[Candidate],
    requirements: Requirements,
    claims: list[Candidate] | None,
) -> Generator[Turn, None, list[Candidate]]:
    """Take the nearest pod of a class until nothing is missing; gives the victims.

    The last pod of the array moves to where the victim stood. That decides later ties, of which
    the last in the array wins.

    Source: v1.20.2 pkg/kubelet/preemption/preemption.go getPodsToPreemptByDistance
    Differs: the input is not changed.
    """
    missing = subtract(requirements, gone)
    killed: list[Candidate] = []
    while True:
        victim = None
        if claims is not None:
            victim = claims[len(killed)] if len(killed) < len(claims) else None
        elif missing:
            victim = nearest(missing, pods)[-1]
        yield Turn(qos, gone, killed, missing, pods, victim)
        if victim is None:
            return killed
        index = pods.index(victim)
        pods = [*pods]
        pods[index] = pods[-1]
        pods.pop()
        missing, killed = subtract(missing, [victim]), [*killed, victim]


def nearest(missing: Requirements, pods: Sequence[Candidate]) -> list[Candidate]:
    """Of the pods at the smallest distance those that ask for least, in order; n > 0."""
    remote = distances(missing, pods)
    least = min(remote)
    near = [pod for pod, distance in zip(pods, remote, strict=True) if distance == least]
    if len(near) == 1:
        return near
    sizes = [pod.size for pod in near]
    smallest = min(sizes)
    return [pod for pod, size in zip(near, sizes, strict=True) if size == smallest]


def distances(missing: Requirements, pods: Sequence[Candidate]) -> list[float]:
    """How far each pod is from freeing all that is missing: 0 is enough, r is nothing.

    The share of each requirement that is left is squared, and the squares are added in the
    order of the requirements, in 64-bit floats as the kubelet does it.

    Source: v1.20.2 pkg/kubelet/preemption/preemption.go distance
    Differs: all pods at once.
    """
    total = [0.0] * len(pods)
    for requirement in missing:
        resource, quantity = requirement.resource, requirement.quantity
        whole = float(quantity)
        for index, pod in enumerate(pods):
            if (amount := pod.frees[resource]) < quantity:
                share = (quantity - amount) / whole
                total[index] += share * share
    return total


def subtract(requirements: Requirements, pods: Sequence[Candidate]) -> Requirements:
    """What is still missing after some pods are gone.

    Source: v1.20.2 pkg/kubelet/preemption/preemption.go subtract
    Differs: no. Requests are not negative, so nothing changes once a requirement is met.
    """
    return tuple(
        InsufficientResource(resource=r.resource, quantity=left)
        for r in requirements
        if (left := r.quantity - sum([pod.frees[r.resource] for pod in pods])) > 0
    )


def to_string(requirements: Requirements) -> str:
    """As the kubelet's errors and log lines write it.

    Source: v1.20.2 pkg/kubelet/preemption/preemption.go toString
    Differs: no.
    """
    entries = (f"(res: {r.resource}, q: {r.quantity}), " for r in requirements)
    return f"[{''.join(entries)}]"


def kill_wait_s(grace_s: int | None) -> int:
    """How long the kubelet waits for a pod to be down: half as long again as its grace, or 10 s.

    Source: v1.36.2 pkg/kubelet/pod_workers.go killPodNow; v1.20.2
    Differs: a grace period of centuries does not overflow.
    """
    grace = grace_s or 0
    # Go halves towards zero; below zero the least holds anyway.
    return max(grace + grace // 2, _WAIT_MIN_S)


class _Freed(dict[str, int]):
    """Resource -> what killing a pod frees of it.

    Source: v1.20.2 pkg/api/v1/resource/helpers.go GetResourceRequest
    Differs: no.
    """

    __slots__ = ("_sidecars", "_spec")

    def __init__(self, spec: PodSpec, sidecars: bool) -> None:
        self._spec, self._sidecars = spec, sidecars
        self["pods"] = 1

    def __missing__(self, resource: str) -> int:
        spec, sidecars = self._spec, self._sidecars
        try:
            freed = freed_total(spec, resource, whole_amounts(resource), sidecars, sidecars)
        except NotPlainError:
            freed = from_nanos(resource, freed_total(spec, resource, NANOS, sidecars, sidecars))
        self[resource] = freed
        return freed
