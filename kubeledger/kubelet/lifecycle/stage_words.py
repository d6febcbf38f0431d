"""What a kubelet says of what it waits for, in the words of its version.

Source: v1.20.2 and v1.36.2 pkg/kubelet/kubelet.go,
    volumemanager/volume_manager.go; versions between them as the facts say
"""

from __future__ import annotations

import re
from collections.abc import Collection

from kubeledger.kubelet.profile.stages import StageFacts

NETWORK = "network is not ready"
"""Begins the error of a sync that waits for the network (``NetworkNotReadyErrorMsg``)."""

_GRPC = re.compile(r"rpc error: code = \w+ desc = ")


def status_message(error: str) -> str:
    """The message of a runtime's error, without its code (``grpcstatus.FromError``)."""
    return _GRPC.sub("", error, count=1)


def network_error(facts: StageFacts, message: str) -> str:
    """Why the network is not ready, by the message of the runtime's condition."""
    whose = "container runtime" if facts.network_error_names_container else "runtime"
    condition = f"NetworkReady=false reason:NetworkPluginNotReady message:{message}"
    return f"{whose} network not ready: {condition}"


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
