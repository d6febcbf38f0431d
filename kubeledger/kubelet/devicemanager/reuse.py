"""Which devices of a pod's init containers its later containers may use again.

Init containers end before the next one begins, so what they hold is free for those
that follow; what an app container or a restartable init container (sidecar) takes is
its own from then on. Only the pod under admission has such a set: those of all other
pods are dropped, which bounds the memory, since admission is one pod at a time.
"""

from __future__ import annotations

from kubeledger.kubelet.devicemanager.manager import ManagerImpl
from kubeledger.kubelet.devicemanager.pod_devices import devices_of


def reusable_devices(manager: ManagerImpl, pod: str) -> dict[str, set[str]]:
    """Resource -> devices that the pod may use again; of other pods all is forgotten.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/manager.go Allocate
    Differs: no
    """
    reuse = manager.devices_to_reuse.get(pod, {})
    manager.devices_to_reuse = {pod: reuse}
    return reuse


def keep_or_pass_on(manager: ManagerImpl, pod: str, container: str, *, pass_on: bool) -> None:
    """After a container's allocation: offer its devices to those that follow, or not.

    All devices on record count, so the set is built up again when a pod is admitted once
    more after a kubelet restart.

    Source: v1.20.2 pkg/kubelet/cm/devicemanager/pod_devices.go
        addContainerAllocatedResources, removeContainerAllocatedResources
    Differs: no
    """
    reuse = manager.devices_to_reuse[pod]
    for resource, record in manager.pod_devices.held_by(pod, container).items():
        before = reuse.get(resource, set())
        held = devices_of(record)
        reuse[resource] = before | held if pass_on else before - held
