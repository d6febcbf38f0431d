"""Preemption: who is killed for a critical pod."""

from kubeledger.model.bodies.eviction import InsufficientResource, PodPreempted, PreemptionFailed
from kubeledger.model.bodies.lifecycle import PodAdmitted, PodRejected
from tests.testing.goldens.admission import asking
from tests.testing.goldens.registry import Lie, maker_of
from tests.testing.goldens.world import CRITICAL, World, container, requests

__all__: list[str] = []

golden = maker_of(World)
ALL = ("1.20.2", "1.28.0", "1.36.2")


def preempt(node: World, victim: str, preemptor: str, *missing: tuple[str, int]) -> int:
    """A victim is killed."""
    given, whom = node.of(victim), node.of(preemptor)
    return node.add(
        PodPreempted(
            victim_namespace=given["namespace"],
            victim_pod=victim,
            victim_uid=given["pod_uid"],
            preemptor_namespace=whom["namespace"],
            preemptor_pod=preemptor,
            preemptor_uid=whom["pod_uid"],
            insufficient=tuple(InsufficientResource(resource=r, quantity=q) for r, q in missing),
            evicted=True,
        )
    )


def critical(node: World, cpu: str, *victims: str, missing: int) -> list[int]:
    """A critical pod comes, and room is made for it."""
    node.handed("critical")
    seqs = [preempt(node, victim, "critical", ("cpu", missing)) for victim in victims]
    node.add(PodAdmitted(**node.of("critical")))
    node.listed("critical", asking(cpu), priority=CRITICAL)
    return seqs


@golden("preemption-guaranteed-spared", *ALL)
def guaranteed_spared(node: World) -> Lie:
    """A Burstable pod goes although a Guaranteed one is as near to what is missing."""
    both = container(resources=requests("1", "1Gi", limits=True))
    node.pod("guaranteed", both)
    node.pod("burstable", asking("1"))
    node.pod("large", asking("2"))
    (seq,) = critical(node, "1", "burstable", missing=1000)
    return Lie(seq, _victim(node, "guaranteed"))


@golden("preemption-nearest", *ALL)
def nearest(node: World) -> Lie:
    """In one class the pod whose request is nearest to what is missing goes."""
    node.pod("small", asking("500m"))
    node.pod("fitting", asking("1"))
    node.pod("large", asking("2500m"))
    (seq,) = critical(node, "1", "fitting", missing=1000)
    return Lie(seq, _victim(node, "large"))


@golden("preemption-tie", *ALL)
def tie(node: World) -> Lie:
    """Of two pods as near, the one that asks for less memory goes."""
    node.pod("heavy", asking("1", "2Gi"))
    node.pod("light", asking("1", "1Gi"))
    node.pod("large", asking("2", "3Gi"))
    (seq,) = critical(node, "1", "light", missing=1000)
    return Lie(seq, _victim(node, "heavy"))


@golden("preemption-two-victims")
def two_victims(node: World) -> Lie:
    """No pod is enough: one after the other goes, each the nearest to what is left."""
    node.pod("a", asking("1"))
    node.pod("b", asking("1500m"))
    node.pod("c", asking("1500m", "1Gi"))
    seqs = critical(node, "2", "b", "a", missing=2000)
    return Lie(seqs[1], _victim(node, "c"))


@golden("preemption-failed", "1.20.2", "1.36.2")
def failed(node: World) -> Lie:
    """Only critical pods of the same rank run: nobody may be killed."""
    node.pod("first", asking("3"), priority=CRITICAL)
    node.handed("second")
    error = (
        "preemption: error finding a set of pods to preempt: "
        "no set of running pods found to reclaim resources: [(res: cpu, q: 1000), ]"
    )
    seq = node.add(
        PreemptionFailed(
            preemptor_namespace="default",
            preemptor_pod="second",
            preemptor_uid="uid-second",
            insufficient=(InsufficientResource(resource="cpu", quantity=1000),),
            error=error,
        )
    )
    message = f"Unexpected error while attempting to recover from admission failure: {error}"
    node.add(PodRejected(**node.of("second"), reason="UnexpectedAdmissionError", message=message))
    node.listed("second", asking("2"), priority=CRITICAL)
    return Lie(seq, {"error": error.replace("1000", "2000")})


def _victim(node: World, name: str) -> dict[str, str]:
    return {"victim_pod": name, "victim_uid": node.of(name)["pod_uid"]}
