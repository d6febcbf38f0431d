"""Version differences of image pulls."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.profile.facts import fact

_MANAGER = "pkg/kubelet/images/image_manager.go"
_ENSURE = f"{_MANAGER} EnsureImageExists"
_PULL = f"{_MANAGER} pullImage"
_RECORDS = "pkg/kubelet/images/pullmanager/fs_pullrecords.go"


class ImagePullFacts(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """What a kubelet version does in this subsystem."""

    image_name_parsed_by_util: bool = fact(
        since=28,
        text="An image name that cannot be read is a name that could not be parsed; before, a "
        "reference.",
        source=f"{_MANAGER} applyDefaultImageTag: v1.27.0 and v1.28.0 differ",
        proof="source",
    )
    names_read_by_reference_library: bool = fact(
        since=29,
        text="A first part of a name with capitals is a host, and a host may be an IPv6 address; "
        "the error of a repository that is not in lower case names it.",
        source="distribution/reference normalize.go splitDockerDomain, ParseNormalizedNamed, as "
        "vendored by v1.28.0 and v1.29.0",
        proof="source",
    )
    name_length_without_host: bool = fact(
        since=32,
        text="The 255 characters that an image name may have are counted without the host.",
        source="distribution/reference reference.go Parse, as vendored by v1.31.0 and v1.32.0",
        proof="source",
    )
    policy_checked_before_presence: bool = fact(
        since=32,
        text="Under Always the runtime is not asked for the image, an empty policy pulls it, and "
        "the error of the inspection names the (empty) image ID; before, the runtime is always "
        "asked, and an empty policy never pulls. The message for an image that is there is the "
        "event's; before, there was none.",
        source=f"{_MANAGER} imagePullPrecheck: v1.31.0 and v1.32.0 differ",
        proof="source",
    )
    registry_errors_by_prefix: bool = fact(
        since=28,
        text="RegistryUnavailable or SignatureValidationFailed at the beginning of a pull's error "
        "is the reason that the container waits for; before, all are ErrImagePull.",
        source=f"{_ENSURE}, evalCRIPullErr: v1.27.0 and v1.28.0 differ",
        proof="source",
    )
    back_off_says_cause: bool = fact(
        since=32,
        text="The status of a container whose image is not pulled again yet says why the pull "
        "before failed.",
        source=f"{_ENSURE}: v1.31.0 and v1.32.0 differ",
        proof="source",
    )
    pulled_says_waiting: bool = fact(
        since=26,
        backports={25: 8},
        text="The event of a pull has its time with and without waiting for others.",
        source=f"{_ENSURE}: v1.25.0 and v1.25.8, v1.26.0 differ",
        proof="source",
    )
    pulled_in_milliseconds: bool = fact(
        since=28,
        text="The times in the event of a pull are cut to milliseconds.",
        source=f"{_ENSURE}: v1.27.0 and v1.28.0 differ",
        proof="source",
    )
    pulled_says_size: bool = fact(
        since=30,
        text="The event of a pull has the image's size.",
        source=f"{_ENSURE}: v1.29.0 and v1.30.0 differ",
        proof="source",
    )
    pulling_time_started: bool = fact(
        since=26,
        text="The start of a pull is told to the tracker of pods' start-up latency.",
        source=f"{_ENSURE} RecordImageStartedPulling: v1.25.0 and v1.26.0 differ",
        proof="source",
    )
    pulling_time_finished: bool = fact(
        since=27,
        text="The end of a pull is told to the tracker of pods' start-up latency.",
        source=f"{_ENSURE} RecordImageFinishedPulling: v1.26.0 and v1.27.0 differ",
        proof="source",
    )
    pulling_time_finished_if_present: bool = fact(
        since=35,
        text="An image that is there already ends the pulling in the tracker of start-up latency, "
        "too.",
        source=f"{_ENSURE}: v1.34.9 and v1.35.6 differ",
        proof="conformance",
    )
    parallel_pulls_limited: bool = fact(
        since=27,
        text="maxParallelImagePulls limits how many images are pulled at once.",
        source="pkg/kubelet/images/puller.go newParallelImagePuller: v1.26.0 and v1.27.0 differ",
        proof="source",
    )
    credentials_looked_up_first: bool = fact(
        since=33,
        text="Credentials are looked up before the pull: a pull secret that cannot be read is "
        "itself the reason, without event and back-off. Before, the pull fails of it.",
        source=f"{_ENSURE}: v1.32.0 and v1.33.0 differ",
        proof="source",
    )
    present_needs_no_credentials: bool = fact(
        since=34,
        text="An image that is there needs no look at credentials while they are not verified.",
        source=f"{_ENSURE}: v1.33.13 and v1.34.9 differ",
        proof="source",
    )
    credentials_looked_up_late: bool = fact(
        since=35,
        text="Credentials are looked up when a record has to be compared with them, or for the "
        "pull; before, a pull secret that cannot be read fails also what needs none.",
        source=f"{_ENSURE} makeLookupPullCredentialsFunc: v1.34.9 and v1.35.6 differ",
        proof="conformance",
    )
    pull_records: bool = fact(
        since=33,
        text="The kubelet can keep records of its pulls in image_manager/ and verify with them "
        "that a pod may use an image that is there (gate KubeletEnsureSecretPulledImages).",
        source="pkg/kubelet/images/pullmanager: not in v1.32.0, in v1.33.0",
        proof="source",
    )
    verifies_pull_credentials: bool = fact(
        since=35,
        text="The kubelet verifies with its records of pulls that a pod may use an image, if the "
        "gate is not set.",
        source="pkg/features/kube_features.go KubeletEnsureSecretPulledImages: alpha in v1.33.0, "
        "beta in v1.35.0",
        proof="source",
    )
    pull_records_of_service_accounts: bool = fact(
        since=34,
        text="Credentials of a service account are recorded under it.",
        source="pkg/kubelet/images/pullmanager/image_pull_manager.go mergePullServiceAccounts: "
        "v1.33.13 and v1.34.9 differ",
        proof="source",
    )
    pull_records_cached: bool = fact(
        since=34,
        text="Records are kept in memory, too, and not read from the disk while those are all.",
        source="pkg/kubelet/images/pullmanager/mem_pullrecords.go: not in v1.33.13, in v1.34.9",
        proof="source",
    )
    pull_records_beta: bool = fact(
        since=35,
        text="Records are written as kubelet.config.k8s.io/v1beta1, and older ones again at the "
        "start; before, v1alpha1 is the only version that is read.",
        source=f"{_RECORDS} recordsVersionMigration: v1.34.9 and v1.35.6 differ",
        proof="conformance",
    )
    pull_records_by_name_as_written: bool = fact(
        since=36,
        text="Records and patterns of images have names as pods write them, without tag and "
        "digest. Before, names of records are complete (docker.io/library/busybox), patterns "
        "must be, and are compared with names with their tag.",
        source="pkg/kubelet/images/pullmanager/image_pull_policies.go trimImageTagDigest: "
        "v1.35.6 and v1.36.2 differ",
        proof="conformance",
    )
