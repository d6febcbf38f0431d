"""Topology manager set-up: policy, scope and options as configured, or why not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import cast, get_args

import msgspec

from kubeledger.kubelet.kube.gotexts import parse_bool, quoted
from kubeledger.kubelet.kube.maporder import FIRST_ORDER, MapOrder
from kubeledger.kubelet.profile.topology import TopologyFacts
from kubeledger.kubelet.topologymanager.policies import Policy, PolicyName

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
        facts: of the kubelet version, with its feature gates.
        order: of the options.

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
        settings: as configured.
        distances: NUMA node -> its row of the table of distances; None: cAdvisor reports none.
        facts: of the kubelet version, with its feature gates.
        order: of the options.

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
