"""Version differences of the topology subsystem."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.profile.facts import fact


class TopologyFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a kubelet version does in this subsystem."""

    pod_scope: bool = fact(
        since=20,
        text="One merged hint for the whole pod is possible; before, only per container.",
        source="topologymanager scope_pod.go",
        proof="source",
    )
    preferred_needs_equal_masks: bool = fact(
        since=24,
        text="A merged hint is preferred only if all masks that went into it are equal.",
        source="policy.go mergePermutation, PR 108052",
        proof="conformance",
    )
    fits_the_widest_need: bool = fact(
        since=24,
        text=(
            "Of hints that are not preferred, one with as many nodes as the resource that needs "
            "most of them wins; before, the narrowest."
        ),
        source="policy.go compareHints, PR 108154",
        proof="conformance",
    )
    policy_options: bool = fact(
        since=26,
        text="Policies take options; prefer-closest-numa-nodes weighs the distance of nodes.",
        source="policy_options.go, numa_info.go Closest",
        proof="conformance",
    )
    none_needs_nothing: bool = fact(
        since=28,
        text="Under policy none neither scope nor options nor the number of NUMA nodes are looked "
        "at.",
        source="topology_manager.go NewManager: v1.27.14 and v1.28.0 differ",
        proof="source",
    )
    alpha_options: bool = fact(
        since=26,
        gate="TopologyManagerPolicyAlphaOptions",
        text="Alpha options of the topology manager may be used.",
        source="policy_options.go CheckPolicyOptionAvailable",
        proof="source",
    )
    beta_options: bool = fact(
        since=28,
        text="Beta options may be used (gate TopologyManagerPolicyBetaOptions, in the code since "
        "1.26).",
        source="pkg/features/kube_features.go TopologyManagerPolicyBetaOptions",
        proof="source",
    )
    prefer_closest_beta: bool = fact(
        since=28,
        text="prefer-closest-numa-nodes needs the gate of beta options (on), not of alpha ones.",
        source="policy_options.go betaOptions",
        proof="source",
    )
    prefer_closest_stable: bool = fact(
        since=32,
        text="prefer-closest-numa-nodes needs no gate.",
        source="policy_options.go stableOptions",
        proof="source",
    )
    max_allowable_nodes_option: bool = fact(
        since=31,
        text="max-allowable-numa-nodes raises the limit of 8 NUMA nodes, behind a gate.",
        source="policy_options.go MaxAllowableNUMANodes",
        proof="source",
    )
    max_allowable_nodes_stable: bool = fact(
        since=35,
        text="max-allowable-numa-nodes needs no gate.",
        source="policy_options.go stableOptions",
        proof="source",
    )
    option_errors_in_lower_case: bool = fact(
        since=33,
        text="The error about a gate that is off begins in lower case.",
        source="policy_options.go CheckPolicyOptionAvailable: v1.32.0 and v1.33.1 differ",
        proof="source",
    )
