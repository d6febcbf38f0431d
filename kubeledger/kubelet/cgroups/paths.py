"""Reading a kubelet cgroup path: which of its levels it is, and whose it is.

The kubelet names cgroups as lists (``kubepods``, ``burstable``, ``pod<uid>``) and each
driver spells the list in its own way::

    cgroupfs  kubepods/burstable/pod<uid>/<container id>
    systemd   kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice/
              cri-containerd-<container id>.scope

Systemd uses ``-`` to separate levels, so it writes the dashes of a UID as ``_``. Both may
stand below a cgroup root of the node's owner (``/site/kubepods/...``,
``/site.slice/site-kubepods.slice/...``). A guaranteed pod stands directly below the node
level. A runtime that takes systemd's names for its own and makes no slices of them writes
both parts into one element, wherever it runs itself::

    system.slice/containerd.service/kubepods-burstable-pod<uid>.slice:cri-containerd:<id>

What a container or its runtime creates below the container is not the kubelet's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal

import msgspec

from kubeledger.model.bodies.cgroups import QOSClass
from kubeledger.model.patterns import regex

Level = Literal["node", "qos", "pod", "container"]

_CONTROLLERS = frozenset(
    (
        *("blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "hugetlb", "io", "memory"),
        *("misc", "net_cls", "net_prio", "perf_event", "pids", "rdma", "systemd", "unified"),
    )
)
_QOS_BY_NAME: dict[str, QOSClass] = {"besteffort": "BestEffort", "burstable": "Burstable"}

_SLICE = regex(
    r"(?:.+-)?kubepods(?:-(?P<qos>besteffort|burstable))?(?:-pod(?P<uid>[^-/]+))?\.slice"
)
_SLICE_AND_ID = regex(r"(?P<slice>[^:/]+\.slice):[^:/]*:(?P<id>[^:/]+)")
_SCOPE = regex(r"(?:[a-z-]+-)?(?P<id>[^-]+)\.scope")
_RUNTIME_PREFIX = regex(r"(?:crio|cri-containerd|docker)-(?P<id>[^-]+)")
_CRIO_MONITOR = regex(r"(?:crio|libpod)-conmon-.+")


class CgroupPath(msgspec.Struct, frozen=True, kw_only=True):
    """What a path says.

    Attributes:
        qos_class: of the class, pod or container; None at the node level.
        pod_uid: with dashes, whatever the driver wrote.
        container_id: bare ID, without the runtime's prefix and ``.scope``.
    """

    level: Level
    qos_class: QOSClass | None = None
    pod_uid: str | None = None
    container_id: str | None = None


@lru_cache(maxsize=1024)
def parse_cgroup_path(path: str) -> CgroupPath | None:
    """Read a path below the controller's mount point; None when it is no kubelet cgroup."""
    parts = [part for part in path.split("/") if part]
    for index, part in enumerate(parts):
        if part == "kubepods":
            return _cgroupfs(parts[index + 1 :])
        if (match := _SLICE.fullmatch(part)) and not match["qos"] and not match["uid"]:
            return _systemd(parts[index + 1 :])
        if match := _SLICE_AND_ID.fullmatch(part):
            return _systemd([match["slice"], match["id"], *parts[index + 1 :]])
    return None


def owner_of(path: str | None) -> CgroupPath | None:
    """Whose a process in a cgroup is: what a container makes below its own is the container's."""
    while path:
        found = parse_cgroup_path(path)
        if found is not None:
            return found
        path = path.rpartition("/")[0]
    return None


def is_of_pods(path: str | None) -> bool:
    """Whether it is the cgroup of all pods, or of a QoS class: its limit is node allocatable."""
    owner = owner_of(path)
    return owner is not None and owner.level in ("node", "qos")


def _cgroupfs(below: list[str]) -> CgroupPath | None:
    """The rest of a cgroupfs path, after ``kubepods``."""
    if not below:
        return CgroupPath(level="node")
    qos_class: QOSClass = "Guaranteed"
    if below[0] in _QOS_BY_NAME:
        qos_class = _QOS_BY_NAME[below[0]]
        below = below[1:]
        if not below:
            return CgroupPath(level="qos", qos_class=qos_class)
    pod_uid = below[0].removeprefix("pod")
    if pod_uid in {below[0], ""}:
        return None
    return _pod_or_container(qos_class, pod_uid, below[1:])


def _systemd(below: list[str]) -> CgroupPath | None:
    """The rest of a systemd path, after ``kubepods.slice``; each slice names all above it."""
    if not below:
        return CgroupPath(level="node")
    match = _SLICE.fullmatch(below[0])
    if match is None:
        return None
    if match["qos"] and not match["uid"]:
        if len(below) == 1:
            return CgroupPath(level="qos", qos_class=_QOS_BY_NAME[match["qos"]])
        below = below[1:]
        match = _SLICE.fullmatch(below[0])
    if match is None or not match["uid"]:
        return None
    qos_class: QOSClass = _QOS_BY_NAME[match["qos"]] if match["qos"] else "Guaranteed"
    return _pod_or_container(qos_class, match["uid"].replace("_", "-"), below[1:])


def _pod_or_container(qos_class: QOSClass, pod_uid: str, below: list[str]) -> CgroupPath | None:
    if not below:
        return CgroupPath(level="pod", qos_class=qos_class, pod_uid=pod_uid)
    if len(below) > 1 or (container_id := _container_id(below[0])) is None:
        return None
    return CgroupPath(
        level="container", qos_class=qos_class, pod_uid=pod_uid, container_id=container_id
    )


def _container_id(name: str) -> str | None:
    """Bare container ID of a leaf; None for what is no container (a runtime's monitor)."""
    if _CRIO_MONITOR.fullmatch(name) or name.endswith((".service", ".slice", ".mount")):
        return None
    match = _SCOPE.fullmatch(name) or _RUNTIME_PREFIX.fullmatch(name)
    return match["id"] if match else name


@lru_cache(maxsize=1 << 12)  # a path is in a line of each of its files, in every snapshot
def below_controller(path: str) -> str:
    """A cgroup's path without its mount point and v1 controller."""
    below = path.strip("/").removeprefix("sys/fs/cgroup").strip("/")
    first, _, rest = below.partition("/")
    return rest if all(part in _CONTROLLERS for part in first.split(",")) else below


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


_OBSERVED = regex(
    r"tasks|cgroup\.(?:procs|threads)|cpuacct\..+|cpuset\..+|blkio\.(?:throttle\.)?io_.+"
    r"|.+\.(?:(?:max_)?usage_in_bytes|failcnt|oom_control"
    r"|current|peak|events(?:\.local)?|(?:numa_)?stat|stat\.local|pressure)"
)
"""Source: Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst of the kernel"""


def observed_in(files: Mapping[str, str]) -> dict[str, str]:
    """Of the files of a cgroup, with their text, those that are only looked at.

    The kernel counts in them; or they are CPU sets, which follow from what the CPU and the memory
    manager gave to containers.
    """
    return {name: text for name, text in files.items() if _OBSERVED.fullmatch(name)}
