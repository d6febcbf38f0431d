"""The topology manager's settings, and what it writes down of a merge."""

from __future__ import annotations

from kubeledger.kubelet.topologymanager.bitmask import bits_of
from kubeledger.kubelet.topologymanager.hint import TopologyHint
from kubeledger.kubelet.topologymanager.options import PREFER_CLOSEST
from kubeledger.kubelet.topologymanager.policies import Policy
from kubeledger.kubelet.topologymanager.scope import Aligned
from kubeledger.model.bodies.topologymanager import AffinityDecided, Hint, HintsGenerated
from kubeledger.simulate.engine.kubelet import Simulation
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


def write_affinity(sim: Simulation, pod: SimPod, step: Aligned, policy: Policy) -> None:
    """Write down the hints of the device manager, and what the policy makes of all hints."""
    container = None if step.container is None else step.container.name
    offered = HintsGenerated(
        **pod.identity,
        container=container,
        hints={
            resource: None if each is None else tuple(map(_hint, each))
            for resource, each in (step.hints[0] or {}).items()
        },
    )
    cause = sim.journal.write(offered)
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
