"""Cgroup values: containers, pods, QoS classes, the node; v1 and v2, both drivers."""

from typing import Any

import msgspec

from kubeledger.model.bodies.cgroups import (
    CgroupRemoved,
    CgroupUpdated,
    QOSCgroupsUpdated,
    QOSClass,
)
from tests.testing.goldens.registry import Lie, maker_of
from tests.testing.goldens.world import GIB, MIB, World, container, requests

__all__: list[str] = []

NO_LIMIT = 9223372036854771712
ALL = ("1.20.2", "1.28.0", "1.36.2")
_CLASSES: dict[str, QOSClass] = {"burstable": "Burstable", "besteffort": "BestEffort"}


def _cgroup(path: str, fields: dict[str, Any], qos: QOSClass | None = None) -> CgroupUpdated:
    """A cgroup that a snapshot shows; class, level and pod follow from its path."""
    parts = path.replace(".slice", "").split("/")
    names = [part.removeprefix("kubepods-") for part in parts]
    last = parts[-1]
    uid = next((p.rpartition("pod")[2] for p in parts if "pod" in p.removeprefix("kubepods")), None)
    level: Any = "container"
    if last == "kubepods":
        level = "node"
    elif names[-1] in _CLASSES:
        level = "qos"
    elif "pod" in last.removeprefix("kubepods"):
        level = "pod"
    known = next((c for n, c in _CLASSES.items() if any(n in name for name in names)), None)
    return CgroupUpdated(
        cgroup=path,
        level=level,
        qos_class=None if level == "node" else known or qos or "Guaranteed",
        pod_uid=uid,
        container_id=last if level == "container" else None,
        created=True,
        changed=(),
        **fields,
    )


def v1(
    path: str, shares: int = 2, quota_us: int = -1, memory: int = NO_LIMIT, **more: Any  # noqa: ANN401 # fields
) -> CgroupUpdated:  # fmt: skip
    """A cgroup of version 1; what is not given is as nobody asked for it."""
    fields = {
        "cpu_shares": shares,
        "cpu_quota_us": quota_us,
        "cpu_period_us": 100_000,
        "memory_limit_bytes": memory,
        **more,
    }
    return _cgroup(path, fields)


def v2(path: str, weight: int, quota_us: int = -1, memory: int = -1, **files: str) -> CgroupUpdated:
    """A cgroup of version 2; further files with ``_`` for the point."""
    unified = {
        "cpu.weight": str(weight),
        "cpu.max": f"{'max' if quota_us < 0 else quota_us} 100000",
        "memory.max": "max" if memory < 0 else str(memory),
        **{name.replace("_", ".", 1): text for name, text in files.items()},
    }
    fields = {
        "cpu_quota_us": quota_us,
        "cpu_period_us": 100_000,
        "memory_limit_bytes": memory,
        "unified": unified,
    }
    return _cgroup(path, fields)


class CgroupWorld(World):
    """A node whose cgroups are read some seconds after its pods came."""

    def runs(self, name: str, resources: dict[str, Any]) -> None:
        """A pod with one container comes."""
        self.pod(name, container(resources=resources))
        self.wait(5)

    def three_classes(self) -> None:
        """A pod of each QoS class comes."""
        self.pod("guaranteed", container(resources=requests("250m", "100Mi", limits=True)))
        self.pod("burstable", container(resources=requests("1", "1Gi")))
        self.pod("besteffort")
        self.wait(5)

    def write_qos(self, at_s: float) -> None:
        """The QoS level is written, as every minute."""
        self.wait(at_s - self.now - 0.1)
        self.add(QOSCgroupsUpdated())


golden = maker_of(CgroupWorld)


@golden("cgroups-qos-classes-v1", *ALL)
def qos_classes_v1(node: CgroupWorld) -> Lie:
    """Pods of the three classes: shares by request, quota and limit only where all have them."""
    node.three_classes()
    seq = node.add(v1("kubepods/poduid-guaranteed", 256, 25_000, 100 * MIB))
    node.add(v1("kubepods/burstable/poduid-burstable", 1024))
    node.add(v1("kubepods/besteffort/poduid-besteffort", 2))
    return Lie(seq, {"cpu_shares": 257})


@golden("cgroups-qos-classes-v2", "1.28.0", "1.36.2")
def qos_classes_v2(node: CgroupWorld) -> Lie:
    """The same in cgroup version 2: the kubelet's weight is linear in the shares."""
    node.three_classes()
    node.add(v2("kubepods/poduid-guaranteed", 10, 25_000, 100 * MIB))
    seq = node.add(v2("kubepods/burstable/poduid-burstable", 39))
    node.add(v2("kubepods/besteffort/poduid-besteffort", 1))
    lie = v2("kubepods/burstable/poduid-burstable", 100)
    return Lie(seq, {"unified": lie.unified})


@golden("cgroups-systemd", cgroupDriver="systemd")
def systemd(node: CgroupWorld) -> Lie:
    """The systemd driver names slices, and rounds a quota up to a whole percent."""
    limits = requests("123m", "100Mi", limits=True)
    node.runs("guaranteed", limits)
    path = "kubepods.slice/kubepods-poduid_guaranteed.slice"
    body = v1(path, 125, 13_000, 100 * MIB)
    seq = node.add(msgspec.structs.replace(body, pod_uid="uid-guaranteed"))
    return Lie(seq, {"cpu_quota_us": 14_000})


@golden("cgroups-container", "1.20.2", "1.36.2")
def of_container(node: CgroupWorld) -> Lie:
    """A container's own cgroup: its part of the spec; the sandbox has the runtime's default."""
    resources = {"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "100M"}}
    node.runs("web", resources)
    pod = "kubepods/burstable/poduid-web"
    node.add(v1(pod, 512, 100_000, 99_999_744))
    node.add(v1(f"{pod}/sandbox", sandbox=True))
    body = v1(f"{pod}/c1", 512, 100_000, 99_999_744, container="app", sandbox=False)
    seq = node.add(body)
    return Lie(seq, {"memory_limit_bytes": 100_000_000})


@golden("cgroups-container-v2")
def of_container_v2(node: CgroupWorld) -> Lie:
    """A runtime may convert shares to a weight by the newer formula."""
    node.runs("web", requests("1"))
    pod = "kubepods/burstable/poduid-web"
    node.add(v2(pod, 39))
    app = v2(f"{pod}/c1", 100)
    seq = node.add(msgspec.structs.replace(app, container="app", sandbox=False))
    return Lie(seq, {"unified": v2(f"{pod}/c1", 50).unified})


@golden("cgroups-no-cfs-quota", cpuCFSQuota=False)
def no_cfs_quota(node: CgroupWorld) -> Lie:
    """With cpuCFSQuota off nobody has a quota."""
    node.runs("web", requests("250m", "100Mi", limits=True))
    seq = node.add(v1("kubepods/poduid-web", 256, memory=100 * MIB))
    return Lie(seq, {"cpu_quota_us": 25_000})


@golden("cgroups-least-quota")
def least_quota(node: CgroupWorld) -> Lie:
    """No quota is below one millisecond, and no shares are below two."""
    node.runs("tiny", requests("1m", "16Mi", limits=True))
    seq = node.add(v1("kubepods/poduid-tiny", 2, 1_000, 16 * MIB))
    return Lie(seq, {"cpu_quota_us": 100})


@golden("cgroups-qos-level", "1.20.2", "1.36.2")
def qos_level(node: CgroupWorld) -> Lie:
    """Burstable has the shares of its pods' requests added up, BestEffort two; no limits."""
    node.wait(0.3)
    node.add(QOSCgroupsUpdated())
    begun = node.now
    for name, cpu in (("a", "1"), ("b", "500m")):
        node.wait(10)
        node.pod(name, container(resources=requests(cpu)))
        node.add(QOSCgroupsUpdated())
    node.write_qos(begun + 60)
    node.wait(2)
    seq = node.add(v1("kubepods/burstable", 1536))
    node.add(v1("kubepods/besteffort", 2))
    node.write_qos(begun + 120)
    return Lie(seq, {"cpu_shares": 1024})


@golden("cgroups-qos-reserve", qosReserved={"memory": "50%"}, featureGates={"QOSReserved": True})
def qos_reserve(node: CgroupWorld) -> Lie:
    """Half of the memory that Guaranteed pods ask for is kept from the other classes."""
    node.wait(0.3)
    node.add(QOSCgroupsUpdated())
    begun = node.now
    node.wait(10)
    node.pod("db", container(resources=requests("1", "2Gi", limits=True)))
    node.add(QOSCgroupsUpdated())
    node.write_qos(begun + 60)
    node.wait(2)
    seq = node.add(v1("kubepods/burstable", 2, memory=7 * GIB))
    node.write_qos(begun + 120)
    return Lie(seq, {"memory_limit_bytes": 8 * GIB})


@golden("cgroups-node", "1.20.2", "1.36.2", kubeReserved={"cpu": "100m", "memory": "1Gi"})
def node_level(node: CgroupWorld) -> Lie:
    """All pods together have what the machine has, less what is reserved."""
    node.wait(5)
    seq = node.add(v1("kubepods", 3993, memory=7 * GIB))
    return Lie(seq, {"memory_limit_bytes": 8 * GIB})


@golden(
    "cgroups-hugepages",
    "1.20.2",
    "1.36.2",
    capacity={"cpu": "4", "memory": str(8 * GIB), "hugepages-2Mi": "64Mi", "pods": "110"},
)
def hugepages(node: CgroupWorld) -> Lie:
    """A pod has the huge pages that it asks for, and none of another size."""
    resources = {
        "requests": {"cpu": "1", "hugepages-2Mi": "4Mi"},
        "limits": {"hugepages-2Mi": "4Mi"},
    }
    node.runs("web", resources)
    limits = {"2MB": 4 * MIB, "1GB": 0}
    seq = node.add(v1("kubepods/burstable/poduid-web", 1024, hugetlb_limit_bytes=limits))
    return Lie(seq, {"hugetlb_limit_bytes": {"2MB": 2 * MIB, "1GB": 0}})


@golden(
    "cgroups-memory-qos", "1.28.0", featureGates={"MemoryQoS": True}, memoryThrottlingFactor=0.9
)
def memory_qos(node: CgroupWorld) -> Lie:
    """With MemoryQoS, what a pod asks for is protected."""
    node.runs("web", requests("1", "100Mi"))
    body = v2("kubepods/burstable/poduid-web", 39, memory_min=str(100 * MIB))
    seq = node.add(body)
    lie = v2("kubepods/burstable/poduid-web", 39, memory_min="0")
    return Lie(seq, {"unified": lie.unified})


@golden("cgroups-pids", podPidsLimit=64)
def pids(node: CgroupWorld) -> Lie:
    """A pod may have as many processes as podPidsLimit says."""
    node.runs("web", requests("1"))
    seq = node.add(v1("kubepods/burstable/poduid-web", 1024, other={"pids.max": "64"}))
    return Lie(seq, {"other": {"pids.max": "1024"}})


@golden("cgroups-removal")
def removal(node: CgroupWorld) -> Lie:
    """A container's cgroup goes when it has ended, and not before."""
    node.pod("other")
    first = node.started("other")
    node.died("other", first)
    node.pod("web", container(resources=requests("1")))
    running = node.started("web")
    ended = node.started("web", container="done")
    node.wait(5)
    pod = "kubepods/burstable/poduid-web"
    node.add(v1(pod, 1024))
    node.add(v1(f"{pod}/{running}", 1024, container="app", sandbox=False))
    node.died("web", ended, container="done")
    node.died("web", running)
    node.wait(5)
    seq = node.add(CgroupRemoved(cgroup=f"{pod}/{running}", pod_uid="uid-web"))
    for number in (2, 3, 4):  # the log goes on
        node.wait(20)
        again = node.started("other", number)
        node.wait(20)
        node.died("other", again)
    return Lie(seq, {"cgroup": "kubepods/burstable"})
