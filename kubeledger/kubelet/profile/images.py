"""Version differences of images: their garbage collection, and their pulls."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.profile.facts import fact, proven

_MANAGER = "pkg/kubelet/images/image_gc_manager.go"


class ImageFacts(msgspec.Struct, frozen=True, kw_only=True):
    """``profile.images``: what a kubelet version does in this subsystem."""

    first_detect_time_zero: bool = proven(
        "Until a pass of the detect loop has succeeded, the loop passes the zero time, so that "
        "what it detects first is infinitely old and never protected by the minimum age.",
        until=29,
        source=f"{_MANAGER} Start: `initialized` is in v1.28.3 and v1.29.0-alpha.3, gone in "
        "v1.29.0 (kubernetes#119652)",
    )
    sandbox_image_in_use: bool = proven(
        "The sandbox image of the kubelet's own configuration counts as in use.",
        until=29,
        source=f"{_MANAGER} detectImages: in v1.28.3, gone in v1.29.0-alpha.1 (kubernetes#118544)",
    )
    image_volumes_in_use: bool = fact(
        "Images mounted as volumes count as in use (gate ImageVolume, on by default).",
        since=35,
        source=f"{_MANAGER} handleImageVolumes: in v1.31.0 behind the gate, which is off in "
        "1.31 to 1.34 (pkg/features/kube_features.go)",
    )
    pinned_images_kept: bool = fact(
        "An image that the runtime lists as pinned is no candidate in any pass.",
        since=23,
        source=f"{_MANAGER} freeSpace: not in v1.22.0, in v1.23.0 (KEP-2040)",
    )
    detects_before_disk_check: bool = proven(
        "Each garbage collection begins with a detect pass and the list of candidates; before, "
        "they came only when the disk was over the high threshold.",
        since=29,
        source=f"{_MANAGER} GarbageCollect: in v1.29.0-alpha.3, not in v1.28.3",
    )
    age_pass: bool = fact(
        "Images unused for longer than the policy's maximum age are removed before the disk is "
        "looked at.",
        since=29,
        source=f"{_MANAGER} freeOldImages: in v1.29.0-alpha.3, not in v1.28.3 (kubernetes#121275)",
    )
    age_pass_waits_for_max_age: bool = fact(
        "No image is removed for its age until the kubelet has run for the maximum age.",
        since=30,
        source=f"{_MANAGER} freeOldImages beganGC: not in v1.29.0, in v1.30.0-alpha.3 "
        "(kubernetes#123343)",
    )
    shortfall_names_found_bytes: bool = proven(
        "Too little freed: `Attempted to free %d bytes, but only found %d bytes eligible`; "
        "before: `Wanted to free %d bytes, but freed %d bytes`.",
        since=26,
        until=35,
        source=f"{_MANAGER} GarbageCollect: v1.25.12 and v1.26.0-rc.1 differ (kubernetes#112631)",
    )
    shortfall_names_disk_usage: bool = proven(
        "Too little freed: `Insufficient free disk space on the node's image filesystem`, with "
        "the share and the size of the disk.",
        since=35,
        source=f"{_MANAGER} GarbageCollect: v1.34.1 and v1.35.0 differ (kubernetes#132578)",
        recorded=True,
    )
    maximum_age_gate_on: bool = fact(
        "The kubelet gives imageMaximumGCAge of its configuration to the image manager; in 1.29 "
        "it does not, the gate ImageMaximumGCAge being off by default.",
        since=30,
        source="pkg/kubelet/kubelet.go NewMainKubelet and pkg/features/kube_features.go of "
        "v1.29.0, v1.30.1, v1.35.0",
    )
    loop_runs_for_maximum_age: bool = fact(
        "With a high threshold of 100 the loop still runs if there is a maximum age.",
        since=30,
        source="pkg/kubelet/kubelet.go StartGarbageCollection: v1.29.0 and v1.30.1 differ",
    )
    loop_event_is_a_format: bool = fact(
        "The text of an ImageGCFailed event is used as a format: a `%` in it is mangled.",
        until=35,
        source="pkg/kubelet/kubelet.go StartGarbageCollection: v1.34.1 and v1.35.0 differ",
    )


# Version differences of image pulls.

_IMAGE_MANAGER = "pkg/kubelet/images/image_manager.go"
_ENSURE = f"{_IMAGE_MANAGER} EnsureImageExists"
_RECORDS = "pkg/kubelet/images/pullmanager/fs_pullrecords.go"


class ImagePullFacts(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """``profile.imagepull``: what a kubelet version does in this subsystem."""

    image_name_parsed_by_util: bool = fact(
        "An image name that cannot be read is a name that could not be parsed; before, a "
        "reference.",
        since=28,
        source=f"{_IMAGE_MANAGER} applyDefaultImageTag: v1.27.0 and v1.28.0 differ",
    )
    names_read_by_reference_library: bool = fact(
        "A first part of a name with capitals is a host, and a host may be an IPv6 address; the "
        "error of a repository that is not in lower case names it.",
        since=29,
        source="distribution/reference normalize.go splitDockerDomain, ParseNormalizedNamed, as "
        "vendored by v1.28.0 and v1.29.0",
    )
    name_length_without_host: bool = fact(
        "The 255 characters that an image name may have are counted without the host.",
        since=32,
        source="distribution/reference reference.go Parse, as vendored by v1.31.0 and v1.32.0",
    )
    policy_checked_before_presence: bool = fact(
        "Under Always the runtime is not asked for the image, an empty policy pulls it, and the "
        "error of the inspection names the (empty) image ID; before, the runtime is always asked, "
        "and an empty policy never pulls. The message for an image that is there is the event's; "
        "before, there was none.",
        since=32,
        source=f"{_IMAGE_MANAGER} imagePullPrecheck: v1.31.0 and v1.32.0 differ",
    )
    registry_errors_by_prefix: bool = fact(
        "RegistryUnavailable or SignatureValidationFailed at the beginning of a pull's error is "
        "the reason that the container waits for; before, all are ErrImagePull.",
        since=28,
        source=f"{_ENSURE}, evalCRIPullErr: v1.27.0 and v1.28.0 differ",
    )
    back_off_says_cause: bool = fact(
        "The status of a container whose image is not pulled again yet says why the pull before "
        "failed.",
        since=32,
        source=f"{_ENSURE}: v1.31.0 and v1.32.0 differ",
    )
    pulled_says_waiting: bool = fact(
        "The event of a pull has its time with and without waiting for others.",
        since=26,
        backports={25: 8},
        source=f"{_ENSURE}: v1.25.0 and v1.25.8, v1.26.0 differ",
    )
    pulled_in_milliseconds: bool = fact(
        "The times in the event of a pull are cut to milliseconds.",
        since=28,
        source=f"{_ENSURE}: v1.27.0 and v1.28.0 differ",
    )
    pulled_says_size: bool = fact(
        "The event of a pull has the image's size.",
        since=30,
        source=f"{_ENSURE}: v1.29.0 and v1.30.0 differ",
    )
    pulling_time_started: bool = fact(
        "The start of a pull is told to the tracker of pods' start-up latency.",
        since=26,
        source=f"{_ENSURE} RecordImageStartedPulling: v1.25.0 and v1.26.0 differ",
    )
    pulling_time_finished: bool = fact(
        "The end of a pull is told to the tracker of pods' start-up latency.",
        since=27,
        source=f"{_ENSURE} RecordImageFinishedPulling: v1.26.0 and v1.27.0 differ",
    )
    pulling_time_finished_if_present: bool = proven(
        "An image that is there already ends the pulling in the tracker of start-up latency, too.",
        since=35,
        source=f"{_ENSURE}: v1.34.9 and v1.35.6 differ",
    )
    parallel_pulls_limited: bool = fact(
        "maxParallelImagePulls limits how many images are pulled at once.",
        since=27,
        source="pkg/kubelet/images/puller.go newParallelImagePuller: v1.26.0 and v1.27.0 differ",
    )
    credentials_looked_up_first: bool = fact(
        "Credentials are looked up before the pull: a pull secret that cannot be read is itself "
        "the reason, without event and back-off. Before, the pull fails of it.",
        since=33,
        source=f"{_ENSURE}: v1.32.0 and v1.33.0 differ",
    )
    present_needs_no_credentials: bool = fact(
        "An image that is there needs no look at credentials while they are not verified.",
        since=34,
        source=f"{_ENSURE}: v1.33.13 and v1.34.9 differ",
    )
    credentials_looked_up_late: bool = proven(
        "Credentials are looked up when a record has to be compared with them, or for the pull; "
        "before, a pull secret that cannot be read fails also what needs none.",
        since=35,
        source=f"{_ENSURE} makeLookupPullCredentialsFunc: v1.34.9 and v1.35.6 differ",
    )
    pull_records: bool = fact(
        "The kubelet can keep records of its pulls in image_manager/ and verify with them that a "
        "pod may use an image that is there (gate KubeletEnsureSecretPulledImages).",
        since=33,
        source="pkg/kubelet/images/pullmanager: not in v1.32.0, in v1.33.0",
    )
    verifies_pull_credentials: bool = fact(
        "The kubelet verifies with its records of pulls that a pod may use an image, if the gate "
        "is not set.",
        since=35,
        source="pkg/features/kube_features.go KubeletEnsureSecretPulledImages: alpha in v1.33.0, "
        "beta in v1.35.0",
    )
    pull_records_of_service_accounts: bool = fact(
        "Credentials of a service account are recorded under it.",
        since=34,
        source="pkg/kubelet/images/pullmanager/image_pull_manager.go mergePullServiceAccounts: "
        "v1.33.13 and v1.34.9 differ",
    )
    pull_records_cached: bool = fact(
        "Records are kept in memory, too, and not read from the disk while those are all.",
        since=34,
        source="pkg/kubelet/images/pullmanager/mem_pullrecords.go: not in v1.33.13, in v1.34.9",
    )
    pull_records_beta: bool = proven(
        "Records are written as kubelet.config.k8s.io/v1beta1, and older ones again at the start; "
        "before, v1alpha1 is the only version that is read.",
        since=35,
        source=f"{_RECORDS} recordsVersionMigration: v1.34.9 and v1.35.6 differ",
    )
    pull_records_by_name_as_written: bool = proven(
        "Records and patterns of images have names as pods write them, without tag and digest. "
        "Before, names of records are complete (docker.io/library/busybox), patterns must be, and "
        "are compared with names with their tag.",
        since=36,
        source="pkg/kubelet/images/pullmanager/image_pull_policies.go trimImageTagDigest: v1.35.6 "
        "and v1.36.2 differ",
    )
