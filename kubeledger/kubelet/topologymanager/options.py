"""Topology manager set-up: policy, scope and options as configured, or why not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import get_args

import msgspec

from kubeledger.kubelet.kube.gotexts import parse_bool
from kubeledger.kubelet.profile.topology import TopologyFacts
from kubeledger.kubelet.topologymanager.policies import PolicyName

NODES_MAX = 8
"""NUMA nodes that policies other than none accept by default."""

PREFER_CLOSEST = "prefer-closest-numa-nodes"
MAX_ALLOWABLE = "max-allowable-numa-nodes"


class ConfigurationError(ValueError):
    """A configuration the kubelet does not start with; the text is the kubelet's."""


class PolicyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a policy, read.

    Attributes:
        prefer_closest_numa: weigh the distance of nodes.
        max_allowable_numa_nodes: most NUMA nodes a machine may have.
    """

    prefer_closest_numa: bool = False
    max_allowable_numa_nodes: int = NODES_MAX


def policy_options(
    options: Mapping[str, str], facts: TopologyFacts, *, alpha_gate: bool, beta_gate: bool
) -> PolicyOptions:
    """Read ``topologyManagerPolicyOptions``.

    Args:
        options: as configured; of several faults the first by name is raised.
        facts: of the kubelet version.
        alpha_gate: TopologyManagerPolicyAlphaOptions is on (default: off).
        beta_gate: TopologyManagerPolicyBetaOptions is on (default: on since 1.28).

    Raises:
        ConfigurationError: an option that is unknown, gated off or has a bad value.

    Source: v1.36.2 pkg/kubelet/cm/topologymanager/policy_options.go NewPolicyOptions
    Differs: options are looked at by name, not in map order.
    """
    read = PolicyOptions()
    for name, value in sorted(options.items()):
        level = _level(name, facts)
        if level is None:
            raise ConfigurationError(f'unknown Topology Manager Policy option: "{name}"')
        if (level == "alpha" and not alpha_gate) or (level == "beta" and not beta_gate):
            raise ConfigurationError(_gated_off(name, level, facts))
        if name == PREFER_CLOSEST:
            read = msgspec.structs.replace(read, prefer_closest_numa=_boolean(name, value))
        else:
            read = msgspec.structs.replace(read, max_allowable_numa_nodes=_node_count(value))
    return read


def check_setup(
    policy: str, scope: str, nodes: int, options: PolicyOptions, facts: TopologyFacts
) -> None:
    """Refuse what the topology manager refuses at start.

    Raises:
        ConfigurationError: too many NUMA nodes, an unknown policy or scope.

    Source: v1.20.2 pkg/kubelet/cm/topologymanager/topology_manager.go NewManager
    Differs: no
    """
    limit = options.max_allowable_numa_nodes
    if policy != "none" and nodes > limit:
        raise ConfigurationError(f"unsupported on machines with more than {limit} NUMA Nodes")
    if policy not in get_args(PolicyName):
        raise ConfigurationError(f'unknown policy: "{policy}"')
    if scope != "container" and not (scope == "pod" and facts.pod_scope):
        raise ConfigurationError(f'unknown scope: "{scope}"')


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
    if not re.fullmatch(r"[+-]?[0-9]+", value):
        raise ConfigurationError(
            f'unable to convert policy option to integer "{MAX_ALLOWABLE}": '
            f'strconv.Atoi: parsing "{value}": invalid syntax'
        )
    if int(value) < NODES_MAX:
        raise ConfigurationError(
            f'the minimum value of "{MAX_ALLOWABLE}" should not be less than {NODES_MAX}'
        )
    return int(value)
