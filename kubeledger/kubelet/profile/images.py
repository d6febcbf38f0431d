"""Version differences of the images subsystem."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.profile.facts import fact

_MANAGER = "pkg/kubelet/images/image_gc_manager.go"


class ImageFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a kubelet version does in this subsystem."""

    first_detect_time_zero: bool = fact(
        until=29,
        text="Until a pass of the detect loop has succeeded, the loop passes the zero time, so "
        "that what it detects first is infinitely old and never protected by the minimum age.",
        source=f"{_MANAGER} Start: `initialized` is in v1.28.3 and v1.29.0-alpha.3, gone in "
        "v1.29.0 (kubernetes#119652)",
        proof="conformance",
    )
    sandbox_image_in_use: bool = fact(
        until=29,
        text="The sandbox image of the kubelet's own configuration counts as in use.",
        source=f"{_MANAGER} detectImages: in v1.28.3, gone in v1.29.0-alpha.1 (kubernetes#118544)",
        proof="conformance",
    )
    image_volumes_in_use: bool = fact(
        since=35,
        text="Images mounted as volumes count as in use (gate ImageVolume, on by default).",
        source=f"{_MANAGER} handleImageVolumes: in v1.31.0 behind the gate, which is off in "
        "1.31 to 1.34 (pkg/features/kube_features.go)",
        proof="source",
    )
    pinned_images_kept: bool = fact(
        since=23,
        text="An image that the runtime lists as pinned is no candidate in any pass.",
        source=f"{_MANAGER} freeSpace: not in v1.22.0, in v1.23.0 (KEP-2040)",
        proof="source",
    )
    detects_before_disk_check: bool = fact(
        since=29,
        text="Each garbage collection begins with a detect pass and the list of candidates; "
        "before, they came only when the disk was over the high threshold.",
        source=f"{_MANAGER} GarbageCollect: in v1.29.0-alpha.3, not in v1.28.3",
        proof="conformance",
    )
    age_pass: bool = fact(
        since=29,
        text="Images unused for longer than the policy's maximum age are removed before the "
        "disk is looked at.",
        source=f"{_MANAGER} freeOldImages: in v1.29.0-alpha.3, not in v1.28.3 (kubernetes#121275)",
        proof="source",
    )
    age_pass_waits_for_max_age: bool = fact(
        since=30,
        text="No image is removed for its age until the kubelet has run for the maximum age.",
        source=f"{_MANAGER} freeOldImages beganGC: not in v1.29.0, in v1.30.0-alpha.3 "
        "(kubernetes#123343)",
        proof="source",
    )
    shortfall_names_found_bytes: bool = fact(
        since=26,
        until=35,
        text="Too little freed: `Attempted to free %d bytes, but only found %d bytes eligible`; "
        "before: `Wanted to free %d bytes, but freed %d bytes`.",
        source=f"{_MANAGER} GarbageCollect: v1.25.12 and v1.26.0-rc.1 differ (kubernetes#112631)",
        proof="conformance",
    )
    shortfall_names_disk_usage: bool = fact(
        since=35,
        text="Too little freed: `Insufficient free disk space on the node's image filesystem`, "
        "with the share and the size of the disk.",
        source=f"{_MANAGER} GarbageCollect: v1.34.1 and v1.35.0 differ (kubernetes#132578)",
        proof="conformance",
        recorded=True,
    )
    maximum_age_gate_on: bool = fact(
        since=30,
        text="The kubelet gives imageMaximumGCAge of its configuration to the image manager; "
        "in 1.29 it does not, the gate ImageMaximumGCAge being off by default.",
        source="pkg/kubelet/kubelet.go NewMainKubelet and pkg/features/kube_features.go of "
        "v1.29.0, v1.30.1, v1.35.0",
        proof="source",
    )
    loop_runs_for_maximum_age: bool = fact(
        since=30,
        text="With a high threshold of 100 the loop still runs if there is a maximum age.",
        source="pkg/kubelet/kubelet.go StartGarbageCollection: v1.29.0 and v1.30.1 differ",
        proof="source",
    )
    loop_event_is_a_format: bool = fact(
        until=35,
        text="The text of an ImageGCFailed event is used as a format: a `%` in it is mangled.",
        source="pkg/kubelet/kubelet.go StartGarbageCollection: v1.34.1 and v1.35.0 differ",
        proof="source",
    )
