"""The static policy of the kubelet that runs: what it would give, refuse, or not start with.

Machine, reserved CPUs and options are those that the process logged when it started; under a
variant, those that its settings would have led to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from kubeledger.kubelet.cpumanager.policy_options import (
    FULL_PCPUS_ONLY,
    PolicyOptionError,
    StaticPolicyOptions,
    new_static_policy_options,
)
from kubeledger.kubelet.cpumanager.policy_static import PolicyError, StaticPolicy, new_static_policy
from kubeledger.kubelet.cpumanager.state_checkpoint import Assignments, State, StateError
from kubeledger.kubelet.cpumanager.topology import CPUTopology, machine_of
from kubeledger.kubelet.kube.containermanager import AllocationError, CPUSet, parse
from kubeledger.kubelet.kube.maporder import FIRST_ORDER, MapOrder, explore
from kubeledger.kubelet.kube.pod import Container, Pod
from kubeledger.kubelet.kube.quantity import Quantity, QuantityError
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.kubelet.topologymanager.policy import Hints
from kubeledger.model.bodies.resourcemanagers import CpuManagerStarted
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.variant import UNKNOWN

_OPTIONS: Final = "cpuManagerPolicyOptions"
_RESERVED: Final = "reservedSystemCPUs"
_RESERVES: Final = ("kubeReserved", "systemReserved")
_SHORT: Final = re.compile(
    r"not enough cpus available to satisfy request"
    r"(?:: requested=(?P<requested>\d+), available=(?P<available>\d+))?$"
)
_PHYSICAL: Final = re.compile(
    r"SMT Alignment Error: not enough free physical CPUs: available physical CPUs = "
    r"(?P<available>\d+), requested CPUs = (?P<requested>\d+), CPUs per core = \d+$"
)


class Told(NamedTuple):
    """What an error tells of how many CPUs were free.

    Attributes:
        free: so many; None where it does not say.
        physical: of them, those of cores without a reserved CPU.
    """

    free: int | None
    physical: bool


def told_by(error: str, asked: int) -> Told | None:
    """What the error of an allocation tells; None: nothing of that kind.

    Args:
        error: its text.
        asked: CPUs that the container asks for. The text has what was left of them once those on
            the affinity's NUMA nodes were taken.
    """
    if (match := _SHORT.match(error)) is not None:
        if match["available"] is None:
            return Told(None, physical=False)
        return Told(asked - int(match["requested"]) + int(match["available"]), physical=False)
    if (match := _PHYSICAL.match(error)) is not None:
        return Told(int(match["available"]), physical=True)
    return None


class CpuPolicy:
    """The policy of one process.

    Attributes:
        exact: which CPUs it takes is known for this version.
    """

    def __init__(self, static: StaticPolicy, profile: KubeletProfile) -> None:
        self.static = static
        self.exact = profile.resourcemanagers.units_sorted_by_free_cpus

    @property
    def order(self) -> str:
        """By what CPUs are chosen, in words."""
        names = [name for name in self.static.options.names if name != FULL_PCPUS_ONLY]
        return f"by {' and '.join(names)}" if names else "by NUMA node, socket and core"

    @property
    def asks_for_whole_cores(self) -> bool:
        """Whether a container that has its CPUs may be refused them."""
        return self.static.options.full_physical_cpus_only

    def affinities(self) -> list[int | None]:
        """All that the topology manager may have stored."""
        return [None, *(hint.affinity for *_, hint in self.static.topology.node_masks)]

    def give(
        self, pool: CPUSet, count: int, affinity: int | None, reusable: CPUSet
    ) -> CPUSet | str:
        """The CPUs that a container gets of the pool and of ``reusable`` ones, or why none."""
        state = State(pool)
        try:
            self.static.enforce_smt_alignment(state, count)
            return self.static.allocate_cpus(state, count, affinity, reusable)
        except AllocationError as error:
            return str(error)

    def refusal(self, pool: CPUSet, count: int) -> str:
        """Why a container that has so many CPUs is refused them; empty if it is not."""
        try:
            self.static.enforce_smt_alignment(State(pool), count)
        except AllocationError as error:
            return str(error)
        return ""

    def hints(
        self, state: State, pod: Pod, container: Container | None, reusable: CPUSet
    ) -> Mapping[str, Hints | None]:
        """Hints for a container, or for a pod as a whole; it may reuse CPUs of its containers."""
        self.static.cpus_to_reuse = {pod.metadata.uid or "": reusable}
        if container is None:
            return self.static.get_pod_topology_hints(state, pod) or {}
        return self.static.get_topology_hints(state, pod, container) or {}

    def free(self, pool: CPUSet, reusable: CPUSet, *, physical: bool) -> CPUSet:
        if physical:
            return pool & ~self.static.reserved_physical
        return pool & ~self.static.reserved | reusable

    def state_errors(self, pool: CPUSet, held: Assignments) -> list[str]:
        """What it may say of a state file that does not fit; empty if it does."""

        def error(order: MapOrder) -> str:
            try:
                self.static.validate_state(State(pool, held), order)
            except StateError as fault:
                return str(fault)
            return ""

        return list(dict.fromkeys(filter(None, explore(error))))


def cpu_policy_of(
    start: CpuManagerStarted | None, context: VerifyContext
) -> tuple[CpuPolicy | None, list[str]]:
    """The policy of the process that runs, or what is missing to know it."""
    profile = context.profile
    known: dict[str, Any] = {
        context.missing_profile: profile,
        "the cores of the machine": start and start.cpus,
        "the reserved CPUs": None if start is None else start.reserved_cpu_set,
    }
    if missing := [name for name, value in known.items() if value is None]:
        return None, missing
    assert profile is not None
    assert start is not None
    assert start.cpus is not None
    topology = CPUTopology(machine_of(start.cpus), profile.resourcemanagers)
    reserved = parse(start.reserved_cpu_set or "")
    if is_varied(context):
        try:
            static = _of_settings(topology, reserved, context, profile)
        except PolicyError as error:
            return None, [f"a kubelet that starts with these settings ({error})"]
        return CpuPolicy(static, profile), []
    options = _options(start, context, profile)
    if options is None:
        return None, ["the options of the static policy"]
    return CpuPolicy(StaticPolicy(topology, reserved, options, profile), profile), []


def is_varied(
    context: VerifyContext, names: Iterable[str] = (_OPTIONS, _RESERVED, *_RESERVES)
) -> bool:
    """Whether a variant changes any of these settings, all of them on which a policy rests."""
    return any(map(context.settings.is_varied, names))


def _options(
    start: CpuManagerStarted, context: VerifyContext, profile: KubeletProfile
) -> StaticPolicyOptions | None:
    """Those logged, or those of the settings; None where neither says."""
    facts = profile.resourcemanagers
    if not facts.cpu_policy_options:
        return StaticPolicyOptions()
    if start.options is not None:
        return StaticPolicyOptions.of_logged(start.options)
    configured = context.settings.get(_OPTIONS)
    if configured is UNKNOWN:
        return None
    with suppress(PolicyOptionError):
        return new_static_policy_options(_texts(configured), facts, FIRST_ORDER)
    return None


def _of_settings(
    topology: CPUTopology, reserved: CPUSet, context: VerifyContext, profile: KubeletProfile
) -> StaticPolicy:
    """The policy that a variant's settings lead to; PolicyError if no kubelet starts with them."""
    get, count = context.settings.get, reserved.bit_count()
    if is_varied(context, [_RESERVED]):
        reserved = parse(str(get(_RESERVED) or ""))
        count = reserved.bit_count() or count
    elif is_varied(context, _RESERVES) and not get(_RESERVED):
        amounts = [each for name in _RESERVES if isinstance(each := get(name), dict)]
        with suppress(QuantityError):
            milli = sum(Quantity.from_api(each.get("cpu", "0")).milli_value() for each in amounts)
            reserved, count = 0, -(-milli // 1000)
    options, policy = _texts(get(_OPTIONS)), str(get("topologyManagerPolicy") or "none")
    return new_static_policy(topology, count, reserved, options, policy, profile, FIRST_ORDER)


def _texts(options: object) -> dict[str, str]:
    """Options as they are configured; none where they are no map."""
    pairs = options.items() if isinstance(options, dict) else ()
    return {str(name): str(value) for name, value in pairs}
