"""Admission by predicates: the node with its pods, put before the deciders."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.kube.critical import is_critical_pod
from kubeledger.kubelet.kube.pod import Node, NodeSpec, NodeStatus, ObjectMeta, Pod, Taint
from kubeledger.kubelet.kube.requests import ResourceList
from kubeledger.kubelet.lifecycle import predicate as lifecycle
from kubeledger.kubelet.lifecycle.nodeinfo import NodeInfo
from kubeledger.kubelet.lifecycle.predicate import PodAdmitResult
from kubeledger.kubelet.preemption import preemption
from kubeledger.kubelet.preemption.preemption import PreemptionOutcome, Requirements
from kubeledger.simulate.engine.draws import Draws
from kubeledger.simulate.engine.kubelet import Kubelet
from kubeledger.simulate.engine.world import SimPod


class Answer(msgspec.Struct, kw_only=True):
    """What came of the predicates.

    Attributes:
        result: with the victims of a preemption.
        insufficient: what was missing, where preemption was asked.
        error: why preemption found no pod; empty if it did, or did not run.
    """

    result: PodAdmitResult
    insufficient: Requirements = ()
    error: str = ""


def counted_pods(kubelet: Kubelet, pod: SimPod) -> list[SimPod]:
    """Pods that count when ``pod`` is admitted; it is not among them."""
    sim = kubelet.sim
    others = [other for other in sim.world.active_pods() if other.uid != pod.uid]
    if sim.plan.shuffle:
        _shuffle(others, sim.draws.stream(f"pods/{kubelet.run}/{pod.uid}"))
    return others


def node_object(kubelet: Kubelet) -> Node:
    """The node as the kubelet's own status has it, devices in use included."""
    sim = kubelet.sim
    allocatable: ResourceList = {**sim.machine.allocatable, **kubelet.devices.listed()}
    return Node(
        metadata=ObjectMeta(name=sim.plan.node.name, labels=dict(sim.machine.labels)),
        status=NodeStatus(allocatable=allocatable),
        spec=NodeSpec(taints=msgspec.convert(sim.plan.node.taints, tuple[Taint, ...])),
    )


def predicates(kubelet: Kubelet, pod: SimPod, wanted: Pod | None = None) -> Answer:
    """Whether a pod fits, and for a critical one which pods to kill.

    Args:
        kubelet: that asks.
        wanted: as it is to be, where it is to be resized; None: as it is.

    Raises:
        BadInputError: a quantity of a pod cannot be asked for.
    """
    facts, api = kubelet.sim.profile.admission, wanted or pod.api
    others = [other.counted for other in counted_pods(kubelet, pod)]
    info = NodeInfo(node_object(kubelet), others, facts)
    answer = Answer(result=PodAdmitResult(True, "", "", ()))

    def recover(missing: Requirements) -> PreemptionOutcome:
        answer.insufficient = missing
        outcome = preemption.decide(api, others, facts, missing)
        answer.error = outcome.error
        return outcome

    recovery = recover if is_critical_pod(api) else None
    answer.result = lifecycle.decide(api, info, recovery)
    return answer


def _shuffle(pods: list[SimPod], draws: Draws) -> None:
    for index in range(len(pods) - 1, 0, -1):
        other = draws.below(index + 1)
        pods[index], pods[other] = pods[other], pods[index]
