"""Names of the kubelet's cgroups, as each cgroup driver spells them.

A cgroup is a list of components below the root: ``kubepods``, the QoS class unless it is
Guaranteed, ``pod<uid>``. The cgroupfs driver joins them to a path; the systemd driver turns
each level into a slice whose name repeats all levels above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubeledger.model.bodies.cgroups import QOSClass

_ROOT: Final = "kubepods"
_QOS_COMPONENT: Final[dict[QOSClass, tuple[str, ...]]] = {
    "Guaranteed": (_ROOT,),
    "Burstable": (_ROOT, "burstable"),
    "BestEffort": (_ROOT, "besteffort"),
}


class CgroupNameError(ValueError):
    """A component holds a character that the kubelet does not accept (it panics)."""


def node_cgroup() -> tuple[str, ...]:
    """The cgroup of all pods."""
    return (_ROOT,)


def qos_cgroup(qos_class: QOSClass) -> tuple[str, ...]:
    """The cgroup above the pods of a class; for Guaranteed pods the one of all pods."""
    return _QOS_COMPONENT[qos_class]


def pod_cgroup(qos_class: QOSClass, uid: str) -> tuple[str, ...]:
    """The cgroup of a pod.

    Raises:
        CgroupNameError: the UID holds ``/`` or ``_``.

    Source: v1.20.2 pkg/kubelet/cm/pod_container_manager_linux.go GetPodContainerName
    """
    if "/" in uid or "_" in uid:
        raise CgroupNameError(f"invalid character in UID {uid!r} of a cgroup name")
    return (*_QOS_COMPONENT[qos_class], f"pod{uid}")


def to_cgroupfs(cgroup: Sequence[str]) -> str:
    """The path below a controller, or below the unified root.

    Source: v1.20.2 pkg/kubelet/cm/cgroup_manager_linux.go ToCgroupfs
    """
    return "/" + "/".join(cgroup)


def to_systemd(cgroup: Sequence[str]) -> str:
    """The same as nested slices; ``-`` separates levels, so one in a name becomes ``_``.

    Source: v1.20.2 pkg/kubelet/cm/cgroup_manager_linux.go ToSystemd
    """
    path, name = "", ""
    for component in cgroup:
        escaped = component.replace("-", "_")
        name = f"{name}-{escaped}" if name else escaped
        path += f"/{name}.slice"
    return path or "/"
