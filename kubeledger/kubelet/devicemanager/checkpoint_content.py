"""What the device manager writes to its checkpoint, and when."""

from __future__ import annotations

from kubeledger.kubelet.devicemanager.manager import ManagerImpl
from kubeledger.kubelet.profile.devices import DeviceFacts
from kubeledger.model.bodies.devicemanager import CheckpointEntry


def checkpoint_content(
    manager: ManagerImpl, facts: DeviceFacts
) -> tuple[tuple[CheckpointEntry, ...], dict[str, tuple[str, ...]]]:
    """The entries, and resource -> healthy devices, of ``kubelet_internal_checkpoint``.

    Returns:
        Entries sorted by pod UID, container, resource, without the plugins' answers;
        registered devices with sorted IDs. Both as ``read_checkpoint`` gives them.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go writeCheckpoint
    Differs: sorted, where the kubelet's order is that of Go maps.
    """
    entries = [
        CheckpointEntry(
            pod_uid=pod,
            container=container,
            resource=resource,
            numa={
                str(node) if facts.recorded_per_numa else "": tuple(sorted(ids))
                for node, ids in sorted(record.items())
            },
        )
        for pod in sorted(manager.pod_devices.pods())
        for container in manager.pod_devices.containers(pod)
        for resource, record in sorted(manager.pod_devices.held_by(pod, container).items())
    ]
    registered = {name: tuple(sorted(ids)) for name, ids in sorted(manager.healthy.items())}
    return tuple(entries), registered


def writes_checkpoint(error: str, facts: DeviceFacts, *, plugin_asked: bool) -> bool:
    """Whether an allocation ends with a write: after an error it does not.

    So what was granted before the error is in memory, and on disk only with the next write.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go allocateContainerResources
    Differs: no
    """
    return not error and (plugin_asked or not facts.checkpoint_only_after_rpc)
