"""Version differences of dynamic resource allocation: how claims are prepared and unprepared."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.profile.facts import fact

_MANAGER = "cm/dra/manager.go"


class DraFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a kubelet version does in this subsystem; before 1.33 as in 1.33."""

    checks_before_changes: bool = fact(
        since=34,
        text="All claims of a pod are checked, and that their drivers are registered, before any "
        "is noted as the pod's, and a claim of the same name but another UID is refused; before, "
        "each was noted once it was checked itself, and the UID was not compared.",
        source=f"{_MANAGER} prepareResources: v1.33.13 and v1.34.9 differ",
        proof="source",
    )
    errors_for_users: bool = fact(
        since=34,
        text="Errors begin with `prepare dynamic resources` or `unprepare dynamic resources`, "
        "and say the rest in other words.",
        source=f"{_MANAGER} NewManager: v1.33.13 and v1.34.9 differ",
        proof="source",
    )
    answers_written_backwards: bool = fact(
        until=35,
        text="A driver's answer is most often read from its last claim to its first: the code "
        "that packs it (gogo protobuf) writes from the end.",
        source="k8s.io/kubelet/pkg/apis/dra api.pb.go MarshalToSizedBuffer; since 1.35 "
        "google.golang.org/protobuf",
        proof="source",
    )
    owner_error_names_kinds: bool = fact(
        since=36,
        text="A claim that was made for another pod was not created for `Pod` (`Pod` is not "
        "owner); before, `pod`.",
        source="k8s.io/dynamic-resource-allocation/resourceclaim IsForPod, by what it says",
        proof="conformance",
    )
    container_claims_alone: bool = fact(
        since=36,
        text="For the devices of a container only the claims that it uses are looked up, in any "
        "order, and an error names the namespace; before, all of the pod's, in their order.",
        source=f"{_MANAGER} GetResources: v1.35.6 and v1.36.2 differ",
        proof="conformance",
    )
    extended_resource_claims: bool = fact(
        since=36,
        text="The claim that stands for a pod's extended resources is prepared like its others.",
        source=f"{_MANAGER} prepareResources, DRAExtendedResource (on)",
        proof="conformance",
    )
