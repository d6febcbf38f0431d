"""The topology manager as configured, and admission, per container or for the pod as a whole."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Protocol, cast, get_args

import msgspec

from kubeledger.kubelet.kube.containermanager import AllocationError
from kubeledger.kubelet.kube.gotexts import atoi, parse_bool, quoted
from kubeledger.kubelet.kube.maporder import FIRST_ORDER, MapOrder
from kubeledger.kubelet.kube.pod import Container, Pod, containers_of
from kubeledger.kubelet.kube.podtotals import is_pod_level
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.kubelet.profile.resourcemanagers import TopologyFacts
from kubeledger.kubelet.topologymanager.policy import (
    Policy,
    PolicyName,
    ProviderHints,
    TopologyHint,
    merge,
)

NODES_MAX = 8
"""NUMA nodes that policies other than none accept by default."""

PREFER_CLOSEST = "prefer-closest-numa-nodes"
MAX_ALLOWABLE = "max-allowable-numa-nodes"


class ConfigurationError(ValueError):
    """A configuration the kubelet does not start with; the text is the kubelet's."""


class PolicyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a policy, read."""

    prefer_closest_numa: bool = False
    max_allowable_numa_nodes: int = NODES_MAX


class TopologySettings(msgspec.Struct, frozen=True, kw_only=True):
    """``topologyManagerPolicy``, ``topologyManagerScope``, ``topologyManagerPolicyOptions``."""

    policy: str
    scope: str = "container"
    options: Mapping[str, str] = {}


def policy_options(
    options: Mapping[str, str], facts: TopologyFacts, order: MapOrder = FIRST_ORDER
) -> PolicyOptions:
    """Read ``topologyManagerPolicyOptions``.

    Args:
        options: as configured; of several faults the first is raised.

    Raises:
        ConfigurationError: an option that is unknown, gated off or has a bad value.

    Source: v1.36.2 pkg/kubelet/cm/topologymanager/policy_options.go NewPolicyOptions
    """
    read = PolicyOptions()
    allowed = {"alpha": facts.alpha_options, "beta": facts.beta_options, "stable": True}
    for name in order.of(options):
        level, value = _level(name, facts), options[name]
        if level is None:
            raise ConfigurationError(f"unknown Topology Manager Policy option: {quoted(name)}")
        if not allowed[level]:
            raise ConfigurationError(_gated_off(name, level, facts))
        if name == PREFER_CLOSEST:
            read = msgspec.structs.replace(read, prefer_closest_numa=_boolean(name, value))
        else:
            read = msgspec.structs.replace(read, max_allowable_numa_nodes=_node_count(value))
    return read


def new_policy(
    settings: TopologySettings,
    distances: Mapping[int, Sequence[int] | None],
    facts: TopologyFacts,
    order: MapOrder = FIRST_ORDER,
) -> Policy:
    """The policy of a machine.

    Args:
        distances: NUMA node -> its row of the table of distances; None: cAdvisor reports none.

    Raises:
        ConfigurationError: the kubelet does not start with it.

    Source: v1.36.2 pkg/kubelet/cm/topologymanager/topology_manager.go NewManager; numa_info.go
        NewNUMAInfo
    """
    name, nodes = settings.policy, tuple(distances)
    if name == "none" and facts.none_needs_nothing:
        return Policy(name="none", numa_nodes=nodes)
    options = policy_options(settings.options, facts, order)
    rows: dict[int, Sequence[int]] | None = None
    if options.prefer_closest_numa:
        rows = {node: row for node, row in distances.items() if row is not None}
        if len(rows) < len(nodes):
            raise ConfigurationError(
                "cannot discover NUMA topology: error getting NUMA distances from cadvisor"
            )
    limit = options.max_allowable_numa_nodes
    if name != "none" and len(nodes) > limit:
        raise ConfigurationError(f"unsupported on machines with more than {limit} NUMA Nodes")
    if name not in get_args(PolicyName):
        raise ConfigurationError(f'unknown policy: "{name}"')
    scope = settings.scope
    if scope != "container" and not (scope == "pod" and facts.pod_scope):
        raise ConfigurationError(f'unknown scope: "{scope}"')
    return Policy(name=cast(PolicyName, name), numa_nodes=nodes, distances=rows)


def _level(name: str, facts: TopologyFacts) -> str | None:
    if name == PREFER_CLOSEST and facts.policy_options:
        if facts.prefer_closest_stable:
            return "stable"
        return "beta" if facts.prefer_closest_beta else "alpha"
    if name == MAX_ALLOWABLE and facts.max_allowable_nodes_option:
        return "stable" if facts.max_allowable_nodes_stable else "beta"
    return None


def _gated_off(name: str, level: str, facts: TopologyFacts) -> str:
    if facts.option_errors_in_lower_case:
        return (
            f"topology manager policy {level}-level options not enabled, "
            f'but option "{name}" provided'
        )
    return (
        f"Topology Manager Policy {level.capitalize()}-level Options not enabled, "
        f'but option "{name}" provided'
    )


def _boolean(name: str, value: str) -> bool:
    try:
        return parse_bool(value)
    except ValueError as error:
        raise ConfigurationError(f'bad value for option "{name}": {error}') from None


def _node_count(value: str) -> int:
    try:
        count = atoi(value)
    except ValueError as error:
        raise ConfigurationError(
            f'unable to convert policy option to integer "{MAX_ALLOWABLE}": {error}'
        ) from None
    if count < NODES_MAX:
        raise ConfigurationError(
            f'the minimum value of "{MAX_ALLOWABLE}" should not be less than {NODES_MAX}'
        )
    return count


AFFINITY_REASON = "TopologyAffinityError"
AFFINITY_MESSAGE = "Resources cannot be allocated with Topology locality"
POD_LEVEL_MESSAGES = tuple(
    f"Pod Scope pod with pod-level resources failed admission {under} topology manager"
    for under in ("with a container-level", "under pod-scope")
)
"""What is said instead of a pod that is managed as a whole, in scope container and in scope pod."""

NO_AFFINITY = TopologyHint(affinity=None, preferred=False)
"""What is stored for a container for which nothing was stored."""

Affinities = dict[tuple[str, str], TopologyHint]
"""Pod UID and container -> what the topology manager stored for it."""


class HintProvider(Protocol):
    """Device, CPU or memory manager as the topology manager sees it."""

    def get_topology_hints(self, pod: Pod, container: Container) -> ProviderHints:
        """Where a container's resources fit."""

    def get_pod_topology_hints(self, pod: Pod) -> ProviderHints:
        """Where those of a pod as a whole do."""

    def allocate(self, pod: Pod, container: Container, affinity: TopologyHint) -> None:
        """Give a container its resources.

        Raises:
            AllocationError: there are none for it.
        """

    def allocate_pod(self, pod: Pod, affinity: TopologyHint) -> None:
        """Give a pod that asks for resources as a whole what it asks for."""


class Aligned(msgspec.Struct, frozen=True):
    """Hints were merged.

    Attributes:
        container: None for the pod as a whole.
        hints: (p,) of the providers.
    """

    container: Container | None
    hints: Sequence[ProviderHints]
    best: TopologyHint
    fits: bool


class Allocated(msgspec.Struct, frozen=True):
    """A provider was asked to allocate.

    Attributes:
        container: None for the pod as a whole.
        error: why it did not; None where it did.
    """

    container: Container | None
    provider: int
    error: AllocationError | None


Step = Aligned | Allocated


class AdmitResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the topology manager answers for a pod; ``reason`` and ``message`` say why not."""

    admit: bool
    reason: str = ""
    message: str = ""


class Scope:
    """The topology manager of one kubelet process.

    Attributes:
        name: ``container`` or ``pod``; with policy none it does not matter.
        affinities: what is stored; what is stored of a pod that is gone stays until its containers
            are removed.

    Source: v1.36.2 pkg/kubelet/cm/topologymanager/scope.go, scope_container.go, scope_pod.go,
        scope_none.go
    Differs: the providers are asked with the affinity, where they ask for it.
    """

    def __init__(
        self, policy: Policy, name: str, providers: Sequence[HintProvider], profile: KubeletProfile
    ) -> None:
        self.policy, self.name, self.affinities = policy, name, Affinities()
        self._providers, self._profile = providers, profile

    def admit(self, pod: Pod) -> AdmitResult:
        """Align and allocate each container in turn; the first error ends it.

        Grants made before an error stay.
        """
        for step in self.walk(pod):
            if refusal := self.refusal(pod, step):
                return refusal
        return AdmitResult(admit=True)

    def walk(self, pod: Pod) -> Iterator[Step]:
        """The steps of an admission; the last one is the one that failed, if any did.

        With policy none nothing is merged or stored, so every provider allocates without an
        affinity.
        """
        if self.policy.name == "none":
            for container in containers_of(pod):
                if not (yield from self._allocate(pod, container)):
                    return
        elif self.name == "pod":
            yield from self._walk_pod(pod)
        else:
            for container in containers_of(pod):
                step = self._align(pod, container)
                yield step
                if not step.fits:
                    return
                self._store(pod, container, step.best)
                if not (yield from self._allocate(pod, container)):
                    return

    def _walk_pod(self, pod: Pod) -> Iterator[Step]:
        step = self._align(pod, None)
        yield step
        if not step.fits:
            return
        as_a_whole = self._is_managed_as_a_whole(pod)
        for container in containers_of(pod):
            self._store(pod, container, step.best)
            if not as_a_whole and not (yield from self._allocate(pod, container)):
                return
        if as_a_whole:
            yield from self._allocate(pod, None)

    def affinity(self, pod: str, container: str) -> TopologyHint:
        """What is stored for a container."""
        return self.affinities.get((pod, container), NO_AFFINITY)

    def refusal(self, pod: Pod, step: Step) -> AdmitResult | None:
        """What a pod is refused with if a step of its admission failed; None if it did not."""
        if isinstance(step, Allocated):
            error = step.error
            if error is None:
                return None
            return AdmitResult(admit=False, reason=error.reason, message=error.message)
        if step.fits:
            return None
        message = AFFINITY_MESSAGE
        if self._is_managed_as_a_whole(pod):
            message = POD_LEVEL_MESSAGES[self.name == "pod"]
        return AdmitResult(admit=False, reason=AFFINITY_REASON, message=message)

    def _align(self, pod: Pod, container: Container | None) -> Aligned:
        hints = [
            each.get_pod_topology_hints(pod)
            if container is None
            else each.get_topology_hints(pod, container)
            for each in self._providers
        ]
        best, fits = merge(self.policy, hints, self._profile.topology)
        return Aligned(container, hints, best, fits)

    def _allocate(self, pod: Pod, container: Container | None) -> Generator[Allocated, None, bool]:
        """Ask the providers in turn; whether all allocated."""
        of = containers_of(pod)[0] if container is None else container
        affinity = self.affinity(pod.metadata.uid or "", of.name or "")
        for index, provider in enumerate(self._providers):
            error = None
            try:
                if container is None:
                    provider.allocate_pod(pod, affinity)
                else:
                    provider.allocate(pod, container, affinity)
            except AllocationError as raised:
                error = raised
            yield Allocated(container, index, error)
            if error is not None:
                return False
        return True

    def _store(self, pod: Pod, container: Container, best: TopologyHint) -> None:
        self.affinities[pod.metadata.uid or "", container.name or ""] = best

    def _is_managed_as_a_whole(self, pod: Pod) -> bool:
        facts = self._profile.resourcemanagers
        return facts.pod_level_managers and is_pod_level(pod.spec.resources)
