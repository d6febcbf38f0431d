"""The topology manager of a simulated kubelet: settings, admissions, and what it writes down."""

from __future__ import annotations

from kubeledger.kubelet.topologymanager.bitmask import bits_of
from kubeledger.kubelet.topologymanager.hint import TopologyHint
from kubeledger.kubelet.topologymanager.options import PREFER_CLOSEST
from kubeledger.kubelet.topologymanager.policies import Policy
from kubeledger.kubelet.topologymanager.scope import AFFINITY_REASON, Aligned, Scope
from kubeledger.model.bodies.topologymanager import AffinityDecided, Hint, HintsGenerated
from kubeledger.simulate.engine.kubelet import Kubelet, Simulation
from kubeledger.simulate.engine.world import SimPod

_NEAR, _FAR = 10, 21
"""Distances as the firmware of most machines with two or more nodes has them."""


def policy_of(sim: Simulation) -> tuple[Policy, str]:
    """The policy with what it knows of the machine, and the scope."""
    nodes = sim.world.numa_nodes
    options = sim.setting("topologyManagerPolicyOptions") or {}
    closest = str(options.get(PREFER_CLOSEST, "")).lower() in ("1", "t", "true")
    distances = {a: [_NEAR if a == b else _FAR for b in nodes] for a in nodes}
    policy = Policy(
        name=sim.setting("topologyManagerPolicy") or "none",
        numa_nodes=nodes,
        distances=distances if closest else None,
    )
    scope = sim.setting("topologyManagerScope") or "container"
    return policy, scope if sim.profile.topology.pod_scope else "container"


def admit(kubelet: Kubelet, pod: SimPod) -> tuple[str, str] | None:
    """Align and allocate for a pod; reason and message of a refusal."""
    sim, devices = kubelet.sim, kubelet.devices.provider(pod)
    policy, name = policy_of(sim)
    scope = Scope(policy, name, [devices, kubelet.cpus], sim.profile)
    for step in scope.walk(pod.api):
        if isinstance(step, Aligned):
            _write_affinity(sim, pod, step, policy)
        refusal = scope.refusal(pod.api, step)
        if refusal is not None:
            if refusal.reason == AFFINITY_REASON and devices.shortages:
                # The first one is the recorded reason of the refusal.
                sim.journal.write(devices.shortages[0])
            return refusal.reason, refusal.message
    return None


def _write_affinity(sim: Simulation, pod: SimPod, step: Aligned, policy: Policy) -> None:
    """Write down the hints of all managers, and what the policy makes of them."""
    container = None if step.container is None else step.container.name
    generated = HintsGenerated(
        **pod.identity,
        container=container,
        hints={
            resource: None if each is None else tuple(map(_hint, each))
            for offered in step.hints
            for resource, each in (offered or {}).items()
        },
    )
    cause = sim.journal.write(generated)
    decided = AffinityDecided(
        **pod.identity,
        container=container,
        hint=_hint(step.best),
        policy=policy.name,
        admit=step.fits,
    )
    sim.journal.write(decided, cause=cause)


def _hint(hint: TopologyHint) -> Hint:
    nodes = None if hint.affinity is None else tuple(bits_of(hint.affinity))
    return Hint(numa_nodes=nodes, preferred=hint.preferred)
