"""The static policy of the kubelet that runs: what it would give, refuse, or not start with.

Machine, reserved CPUs and options are those that the process logged when it started; under a
variant, those that its settings would have led to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

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


def told_by(error: str, asked: int) -> tuple[int | None, bool] | None:
    """How many CPUs were free by the error of an allocation, and whether it counts whole cores.

    Of those only the CPUs of cores without a reserved one are counted.

    Args:
        error: its text.
        asked: CPUs that the container asks for. The text has what was left of them once those on
            the affinity's NUMA nodes were taken.

    Returns:
        None: the error tells nothing of that kind; no number: it does not say it.
    """
    if (match := _SHORT.match(error)) is not None:
        requested, available = match["requested"], match["available"]
        return None if available is None else asked - int(requested) + int(available), False
    match = _PHYSICAL.match(error)
    return None if match is None else (int(match["available"]), True)


# What the static policy of one process does.


def order_of(policy: StaticPolicy | None) -> str:
    """By what CPUs are chosen, in words."""
    options = () if policy is None else policy.options.names
    names = [name for name in options if name != FULL_PCPUS_ONLY]
    return f"by {' and '.join(names)}" if names else "by NUMA node, socket and core"


def give(
    policy: StaticPolicy, pool: CPUSet, count: int, affinity: int | None, reusable: CPUSet
) -> CPUSet | str:
    """The CPUs that a container gets of the pool and of ``reusable`` ones, or why none."""
    state = State(pool)
    try:
        policy.enforce_smt_alignment(state, count)
        return policy.allocate_cpus(state, count, affinity, reusable)
    except AllocationError as error:
        return str(error)


def refusal(policy: StaticPolicy, pool: CPUSet, count: int) -> str:
    """Why a container that has so many CPUs is refused them; empty if it is not."""
    try:
        policy.enforce_smt_alignment(State(pool), count)
    except AllocationError as error:
        return str(error)
    return ""


def hints_of(
    policy: StaticPolicy, state: State, pod: Pod, container: Container | None, reusable: CPUSet
) -> Mapping[str, Hints | None]:
    """Hints for a container, or for a pod as a whole; it may reuse CPUs of its containers."""
    policy.cpus_to_reuse = {pod.metadata.uid or "": reusable}
    if container is None:
        return policy.get_pod_topology_hints(state, pod) or {}
    return policy.get_topology_hints(state, pod, container) or {}


def state_errors(policy: StaticPolicy, pool: CPUSet, held: Assignments) -> list[str]:
    """What it may say of a state file that does not fit; empty if it does."""

    def error(order: MapOrder) -> str:
        try:
            policy.validate_state(State(pool, held), order)
        except StateError as fault:
            return str(fault)
        return ""

    return list(dict.fromkeys(filter(None, explore(error))))


def cpu_policy_of(
    start: CpuManagerStarted | None, context: VerifyContext
) -> tuple[StaticPolicy | None, list[str]]:
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
            return _of_settings(topology, reserved, context, profile), []
        except PolicyError as error:
            return None, [f"a kubelet that starts with these settings ({error})"]
    options = _options(start, context, profile)
    if options is None:
        return None, ["the options of the static policy"]
    return StaticPolicy(topology, reserved, options, profile), []


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
