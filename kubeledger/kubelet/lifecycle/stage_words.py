"""What a kubelet says of what it waits for, in the words of its version.

Source: v1.20.2 and v1.36.2 pkg/kubelet/kubelet.go, images/image_manager.go,
    volumemanager/volume_manager.go, cm/dra/manager.go; versions between them as the facts say
"""

from __future__ import annotations

import re
from collections.abc import Collection

from kubeledger.kubelet.profile.stages import StageFacts
from kubeledger.model.units import format_go_duration

NETWORK = "network is not ready"
"""Begins the error of a sync that waits for the network (``NetworkNotReadyErrorMsg``)."""

_GRPC = re.compile(r"rpc error: code = \w+ desc = ")
_REFERENCE = re.compile(
    r"(?:(?P<host>localhost|[\w-]+(?:(?:\.[\w-]+)+|(?=:\d))(?::\d+)?)/)?"
    r"(?P<path>[a-zA-Z0-9]+(?:(?:[._/]|__|-+)[a-zA-Z0-9]+)*)"
    r"(?::\w[\w.-]{0,127})?(?:@\w+:[0-9a-f]{32,})?",
    re.ASCII,
)
_REGISTRY = {
    "RegistryUnavailable": "the registry is unavailable",
    "SignatureValidationFailed": "the signature validation failed",
}


def status_message(error: str) -> str:
    """The message of a runtime's error, without its code (``grpcstatus.FromError``)."""
    return _GRPC.sub("", error, count=1)


def network_error(facts: StageFacts, message: str) -> str:
    """Why the network is not ready, by the message of the runtime's condition."""
    whose = "container runtime" if facts.network_error_names_container else "runtime"
    condition = f"NetworkReady=false reason:NetworkPluginNotReady message:{message}"
    return f"{whose} network not ready: {condition}"


def image_name_error(facts: StageFacts, image: str) -> str | None:
    """Why an image's name is none; None for one that is."""
    match = _REFERENCE.fullmatch(image)
    if match is not None and match["path"] == match["path"].lower():
        return None
    why = "invalid reference format"
    if match is not None:
        path = (
            match["path"] if match["host"] or "/" in match["path"] else f"library/{match['path']}"
        )
        named = f" ({path})" if facts.uppercase_repository_named else ""
        why = f"{why}: repository name{named} must be lowercase"
    what = "name" if facts.image_name_parsed_by_util else "reference"
    error = f'couldn\'t parse image {what} "{image}": {why}'
    return f'Failed to apply default image tag "{image}": {error}'


def pull_failure(facts: StageFacts, image: str, error: str) -> tuple[str, str]:
    """Reason and message of a container whose image could not be pulled (``evalCRIPullErr``)."""
    for reason, what in _REGISTRY.items():
        if facts.registry_errors_by_prefix and error.startswith(reason):
            rest = error.removeprefix(reason)
            return reason, f"image pull failed for {image} because {what}{rest}"
    return "ErrImagePull", error


def pull_back_off(facts: StageFacts, image: str, cause: str | None) -> tuple[str, str]:
    """The event of a pull that is not tried again yet, and the message of the container.

    Args:
        facts: of the kubelet version.
        image: as the pod names it.
        cause: reason and message of the pull before; None if it is forgotten.
    """
    event = f'Back-off pulling image "{image}"'
    with_cause = facts.back_off_says_cause and cause is not None
    return event, f"{event}: {cause}" if with_cause else event


def pulled(facts: StageFacts, image: str, took_ns: int, size_bytes: int) -> str:
    """The event of an image that was pulled, without waiting for other pulls."""
    took = format_go_duration(took_ns)
    text = f'Successfully pulled image "{image}" in {took}'
    if facts.pulled_says_waiting:
        text += f" ({took} including waiting)"
    return f"{text}. Image size: {size_bytes} bytes." if facts.pulled_says_size else text


def volume_not_mounted(volume: str, error: str) -> str:
    """The event of a volume that could not be mounted (``VolumeToMount.GenerateError``)."""
    return f'MountVolume.SetUp failed for volume "{volume}" : {error}'


def volumes_not_mounted(
    facts: StageFacts, unmounted: Collection[str], expected: Collection[str]
) -> str:
    """The error of a sync that waited for volumes in vain; none of them is attachable."""
    names = " ".join(unmounted)
    why = "timed out waiting for the condition"
    if facts.volume_wait_takes_context:
        why = "context deadline exceeded"
    if facts.volumes_not_processed_named:
        rest = "unattached volumes=[], failed to process volumes=[]"
    else:
        rest = f"unattached volumes=[{' '.join(expected)}]"
    return f"unmounted volumes=[{names}], {rest}: {why}"


def claim_not_prepared(facts: StageFacts, namespace: str, claim: str, error: str) -> str:
    """The error of a claim that its driver could not prepare."""
    failed = "NodePrepareResources failed for"
    if facts.claims_named_resource_claims:
        return f"prepare dynamic resources: {failed} ResourceClaim {claim}: {error}"
    return f"{failed} claim {namespace}/{claim}: {error}"
