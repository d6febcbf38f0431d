"""Version differences of devices: the device manager's, and claims of the DRA manager."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.profile.facts import fact, proven


class DeviceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """``profile.devices``: what a kubelet version does in this subsystem."""

    restartable_init_keeps_devices: bool = proven(
        "Devices of a restartable init container leave the reuse set: it keeps them.",
        since=29,
        source="manager.go Allocate, PR 120461",
        recorded=True,
    )
    claimed_resources_skipped: bool = fact(
        "Limits that a resource claim of the pod stands for are not the device manager's.",
        since=36,
        source="manager.go allocateContainerResources isDRAExtendedResource; in 1.35 the gate "
        "DRAExtendedResource is off",
    )
    running_container_needs_nothing: bool = fact(
        "While config sources are not ready, a container that already ran gets no devices.",
        since=28,
        backports={25: 14, 26: 9, 27: 6},
        source="manager.go devicesToAllocate isContainerAlreadyRunning: v1.27.0 and v1.28.0 "
        "differ, PR 118635",
    )
    health_checked_first: bool = proven(
        "Registration and health are checked before the number of devices still needed.",
        since=28,
        backports={25: 10, 26: 5, 27: 2},
        source="manager.go devicesToAllocate, PR 116376",
    )
    affinity_nodes_first: bool = proven(
        "A device with several NUMA nodes is aligned if any of them is in the affinity; before, "
        "its class was that of whichever node came first in an arbitrary order.",
        since=22,
        source="manager.go filterByAffinity, PR 101893",
    )
    topology_needs_a_node: bool = proven(
        "A resource has topology when a device names a NUMA node; an empty topology is none.",
        since=26,
        source="topology_hints.go deviceHasTopologyAlignment, PR 112387",
    )
    recorded_per_numa: bool = fact(
        "Held devices are recorded per NUMA node; before, as one list (read as node 0).",
        since=20,
        source="pod_devices.go insert, checkpoint DevicesPerNUMA",
    )
    no_topology_is_minus_one: bool = proven(
        "Devices without NUMA nodes are recorded under node -1; before, under node 0.",
        since=23,
        source="manager.go allocateContainerResources, PR 103289",
    )
    checkpoint_only_after_rpc: bool = fact(
        "The checkpoint is written only if a plugin was asked to allocate; before, always.",
        since=20,
        source="manager.go allocateContainerResources",
    )
    pod_request_rounded_once: bool = fact(
        "In pod scope limits are added as quantities and rounded up once.",
        since=27,
        source="topology_hints.go getPodDeviceRequest, api/v1/resource PodLimits",
    )
    pod_request_counts_sidecars: bool = proven(
        "In pod scope restartable init containers count with the app containers.",
        since=28,
        source="api/v1/resource helpers.go PodLimits",
    )
    hints_in_machine_order: bool = fact(
        "NUMA nodes come as the machine lists them; before, in the random order of a Go map.",
        since=20,
        source="manager.go newManagerImpl",
    )
    hints_on_device_nodes_only: bool = proven(
        "Hints are made of NUMA nodes that host devices of the resource, used or not.",
        since=36,
        backports={35: 6},
        source="topology_hints.go deviceNUMANodes, PR 138244 (in the notes of v1.36.0): v1.34.9 "
        "and v1.35.6 differ",
    )
    end_of_old_stream_ignored: bool = fact(
        "The end of a stream that a newer registration replaced changes nothing; later, it stops "
        "the new endpoint.",
        until=25,
        source="manager.go runEndpoint, PluginDisconnected",
    )


# Version differences of dynamic resource allocation: how claims are prepared and unprepared.

_MANAGER = "cm/dra/manager.go"


class DraFacts(msgspec.Struct, frozen=True, kw_only=True):
    """``profile.dra``: what a kubelet version does in this subsystem.

    Of 1.31 and 1.32 no source was at hand: they are judged as 1.33, and 1.26, which kept no file
    and asked for each container, as 1.28.
    """

    noted_when_prepared: bool = fact(
        "A new claim is noted, and a pod as one of its, with the answer of its driver, in memory "
        "first, so one that fails leaves nothing behind; a claim that no container uses is not "
        "prepared; and none is unprepared but when its pod ends.",
        until=31,
        source=f"{_MANAGER} PrepareResources: v1.28.0, v1.30.0 and v1.33.13 differ",
    )
    checks_before_changes: bool = fact(
        "All claims of a pod are checked, and that their drivers are registered, before any is "
        "noted as the pod's, and a claim of the same name but another UID is refused; before, "
        "each was noted once it was checked itself, and the UID was not compared.",
        since=34,
        source=f"{_MANAGER} prepareResources: v1.33.13 and v1.34.9 differ",
    )
    errors_for_users: bool = fact(
        "Errors begin with `prepare dynamic resources` or `unprepare dynamic resources`, and say "
        "the rest in other words.",
        since=34,
        source=f"{_MANAGER} NewManager: v1.33.13 and v1.34.9 differ",
    )
    answers_written_backwards: bool = fact(
        "A driver's answer is most often read from its last claim to its first: the code that "
        "packs it (gogo protobuf) writes from the end.",
        until=35,
        source="k8s.io/kubelet/pkg/apis/dra api.pb.go MarshalToSizedBuffer; since 1.35 "
        "google.golang.org/protobuf",
    )
    owner_error_names_kinds: bool = proven(
        "A claim that was made for another pod was not created for `Pod` (`Pod` is not owner); "
        "before, `pod`.",
        since=36,
        source="k8s.io/dynamic-resource-allocation/resourceclaim IsForPod, by what it says",
    )
    container_claims_alone: bool = proven(
        "For the devices of a container only the claims that it uses are looked up, in any order, "
        "and an error names the namespace; before, all of the pod's, in their order.",
        since=36,
        source=f"{_MANAGER} GetResources: v1.35.6 and v1.36.2 differ",
    )
    extended_resource_claims: bool = proven(
        "The claim that stands for a pod's extended resources is prepared like its others.",
        since=36,
        source=f"{_MANAGER} prepareResources, DRAExtendedResource (on)",
    )
