"""Which pods are killed to let a critical pod in: the kubelet's preemption.go.

Candidates are split by QoS class. Guaranteed pods are chosen as if all others were gone, then
Burstable ones as if all BestEffort and the chosen Guaranteed ones were gone, then BestEffort
ones for what is left. Inside a class the pod nearest to what is missing goes first, and of
equally near ones the one that asks for less memory, then less cpu.

One walk over these turns, by the kubelet's own choice or along a claim, serves :func:`decide`
as well as ``explain``.

Source: v1.20.2 pkg/kubelet/preemption/preemption.go, under the names there
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.kube.podclass import is_critical_pod, pod_qos, preemptable
from kubeledger.kubelet.kube.podtotals import freed_total
from kubeledger.kubelet.kube.resources import NANOS, NotPlainError, from_nanos, whole_amounts
from kubeledger.kubelet.profile.admission import AdmissionFacts
from kubeledger.model.bodies.cgroups import QOSClass
from kubeledger.model.bodies.eviction import InsufficientResource

MESSAGE: Final = "Preempted in order to admit critical pod"
KILL_ORDER: Final[tuple[QOSClass, ...]] = ("BestEffort", "Burstable", "Guaranteed")
_WAIT_MIN_S: Final = 10

Requirements = tuple[InsufficientResource, ...]
"""The kubelet's ``admissionRequirementList``: what is still missing, in order."""

Pick = int
"""Place of a pod among the candidates."""


class PreemptionOutcome(NamedTuple):
    """What preemption came to.

    Attributes:
        victims: UIDs in the order they are killed. A kill that fails is passed over: the pod
            is admitted all the same.
        error: why no pod was killed and this one is not admitted; empty if it is.
    """

    victims: tuple[str, ...] = ()
    error: str = ""


class Candidates:
    """Pods that may be preempted; each is known by its place among them, its *pick*.

    Attributes:
        pods: (n,) in the order the kubelet lists them.
        frees: resource -> (n,) what killing each frees, worked out when first asked for.
    """

    __slots__ = ("_facts", "_qos", "frees", "pods")

    def __init__(self, preemptor: Pod, pods: Iterable[Pod], facts: AdmissionFacts) -> None:
        """Leave out the pods that the preemptor may not preempt."""
        self.pods = [pod for pod in pods if not is_critical_pod(pod) or preemptable(preemptor, pod)]
        self.frees = _Freed(self.pods, facts)
        self._facts = facts
        self._qos: list[QOSClass] = []

    @property
    def qos(self) -> list[QOSClass]:
        """(n,) QoS class of each."""
        if not self._qos:
            facts = self._facts
            wins, whole = facts.qos_class_from_status, facts.pod_level_resources
            self._qos = [pod_qos(pod, status_wins=wins, pod_level=whole) for pod in self.pods]
        return self._qos

    def uid(self, pick: Pick) -> str:
        """UID of a pod; empty where it has none."""
        return self.pods[pick].metadata.uid or ""

    def sizes(self, picks: Iterable[Pick]) -> list[tuple[int, int]]:
        """Memory and cpu of pods: the smaller of two requests is the smaller pair.

        Source: v1.20.2 pkg/kubelet/preemption/preemption.go smallerResourceRequest
        Differs: a key to compare by.
        """
        memory, cpu = self.frees["memory"], self.frees["cpu"]
        return [(memory[pick], cpu[pick]) for pick in picks]

    def subtract(
        self, requirements: Requirements, gone: Sequence[Pick] | None = None
    ) -> Requirements:
        """What is still missing after some pods are gone, or all.

        Differs: no. Requests are not negative, so nothing changes once a requirement is met.
        """
        missing = []
        for requirement in requirements:
            resource, frees = requirement.resource, self.frees[requirement.resource]
            freed = sum(frees) if gone is None else sum([frees[pick] for pick in gone])
            if (left := requirement.quantity - freed) > 0:
                missing.append(InsufficientResource(resource=resource, quantity=left))
        return tuple(missing)

    def distances(self, missing: Requirements, picks: Sequence[Pick]) -> list[float]:
        """How far each pod is from freeing all that is missing: 0 is enough, r is nothing.

        The share of each requirement that is left is squared, and the squares are added in the
        order of the requirements, in 64-bit floats as the kubelet does it.

        Source: v1.20.2 pkg/kubelet/preemption/preemption.go distance
        Differs: all pods at once.
        """
        total: list[float] = []
        for requirement in missing:
            quantity, frees = requirement.quantity, self.frees[requirement.resource]
            whole = float(quantity)
            squares = [
                (share := (quantity - amount) / whole) * share
                if (amount := frees[pick]) < quantity
                else 0.0
                for pick in picks
            ]
            total = [a + b for a, b in zip(total, squares, strict=True)] if total else squares
        return total

    def nearest(self, missing: Requirements, picks: Sequence[Pick]) -> list[Pick]:
        """Of the pods at the smallest distance those that ask for least, in order; n > 0."""
        remote = self.distances(missing, picks)
        least = min(remote)
        near = [pick for pick, distance in zip(picks, remote, strict=True) if distance == least]
        if len(near) == 1:
            return near
        sizes = self.sizes(near)
        smallest = min(sizes)
        return [pick for pick, size in zip(near, sizes, strict=True) if size == smallest]


class Turn(NamedTuple):
    """One victim's turn, or the end of a class.

    Attributes:
        gone: (k,) pods taken as gone when the class is begun, ``killed`` victims of it so far.
        missing: (r,) what is still missing.
        pods: (n,) of the class that are left, as the kubelet's array has them.
        victim: the one that is taken; None: no more of this class.
    """

    qos: QOSClass
    gone: list[Pick]
    killed: list[Pick]
    missing: Requirements
    pods: list[Pick]
    victim: Pick | None


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
        pods: (n,) active pods in the order the kubelet lists them.
        insufficient: (r,) what is missing, in the order the fit check found it.

    Source: v1.20.2 pkg/kubelet/preemption/preemption.go HandleAdmissionFailure,
        evictPodsToFreeRequests
    Differs: the pods are not killed.
    """
    candidates = Candidates(preemptor, pods, facts)
    if unmet := candidates.subtract(insufficient):
        return PreemptionOutcome(
            error="preemption: error finding a set of pods to preempt: "
            f"no set of running pods found to reclaim resources: {to_string(unmet)}"
        )
    turns = pods_to_preempt(candidates, insufficient)
    chosen = [turn.victim for turn in turns if turn.victim is not None]
    chosen.sort(key=lambda victim: KILL_ORDER.index(candidates.qos[victim]))
    return PreemptionOutcome(victims=tuple(map(candidates.uid, chosen)))


def pods_to_preempt(
    candidates: Candidates, requirements: Requirements, claimed: Sequence[Pick] | None = None
) -> Iterator[Turn]:
    """Choose the victims, who together free what is missing: turn by turn, class by class.

    Args:
        candidates: their order decides between equals.
        claimed: victims to take in place of the kubelet's choice, whether or not it could.

    Differs: the caller has made sure that all candidates together free enough.
    """
    qos_of = candidates.qos
    picks = range(len(qos_of))
    by_qos = {qos: [pick for pick in picks if qos_of[pick] == qos] for qos in KILL_ORDER}
    best_effort, burstable = by_qos["BestEffort"], by_qos["Burstable"]

    def by_distance(qos: QOSClass, gone: list[Pick]) -> Generator[Turn, None, list[Pick]]:
        """Take the nearest pod of a class until nothing is missing; gives the victims.

        The last pod of the array moves to where the victim stood. That decides later ties, of
        which the last in the array wins.

        Source: v1.20.2 pkg/kubelet/preemption/preemption.go getPodsToPreemptByDistance
        Differs: the input is not changed.
        """
        claims = [pick for pick in claimed or () if qos_of[pick] == qos]
        pods, missing = by_qos[qos], candidates.subtract(requirements, gone)
        killed: list[Pick] = []
        while True:
            victim = None
            if claimed is not None:
                victim = claims[len(killed)] if len(killed) < len(claims) else None
            elif missing:
                victim = candidates.nearest(missing, pods)[-1]
            yield Turn(qos, gone, killed, missing, pods, victim)
            if victim is None:
                return killed
            killed, missing = [*killed, victim], candidates.subtract(missing, [victim])
            pods = pods.copy()
            pods[pods.index(victim)] = pods[-1]
            pods.pop()

    guaranteed_to_evict = yield from by_distance("Guaranteed", best_effort + burstable)
    burstable_to_evict = yield from by_distance("Burstable", best_effort + guaranteed_to_evict)
    yield from by_distance("BestEffort", burstable_to_evict + guaranteed_to_evict)


def to_string(requirements: Requirements) -> str:
    """As the kubelet's errors and log lines write it."""
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


class _Freed(dict[str, list[int]]):
    """Resource -> what killing each pod frees of it.

    Source: v1.20.2 pkg/api/v1/resource/helpers.go GetResourceRequest
    """

    def __init__(self, pods: Sequence[Pod], facts: AdmissionFacts) -> None:
        self._specs, self._newer = [p.spec for p in pods], facts.victims_counted_with_sidecars
        self["pods"] = [1] * len(pods)

    def __missing__(self, resource: str) -> list[int]:
        newer = self._newer
        try:
            table = whole_amounts(resource)
            freed = [freed_total(spec, resource, table, newer, newer) for spec in self._specs]
        except NotPlainError:
            nanos = [freed_total(spec, resource, NANOS, newer, newer) for spec in self._specs]
            freed = [from_nanos(resource, each) for each in nanos]
        self[resource] = freed
        return freed
