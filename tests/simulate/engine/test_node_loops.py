"""Image GC, cgroups and evictions of a simulated kubelet."""

from itertools import pairwise
from typing import Any, Literal

import msgspec
import pytest

from kubeledger.model.bodies.cgroups import CgroupUpdated, QOSCgroupsUpdated, QOSReserveComputed
from kubeledger.model.bodies.eviction import ReclaimAttempted
from kubeledger.model.bodies.images import (
    EvictionSignalObserved,
    GarbageCollected,
    GarbageCollectionStarted,
    ImageDeleted,
    ImagesDetected,
)
from kubeledger.model.bodies.lifecycle import PodEvicted, PodRejected, PodTerminated
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.plan import (
    ContainerScript,
    DiskChange,
    ImageArrival,
    KubeletRestart,
    NodePlan,
    Plan,
    Usage,
)
from kubeledger.verify import Finding
from tests.simulate.engine.scenes import (
    GIB,
    IMAGE,
    container,
    outcomes,
    plan,
    planned,
    records,
    run,
)

MIB = 1 << 20


def of(found: list[Record], kind: type) -> list[Any]:
    return [record.body for record in found if isinstance(record.body, kind)]


def node(
    **more: Any,  # noqa: ANN401 # any field
) -> NodePlan:
    return NodePlan(
        **{
            "name": "sim",
            "cpus": 4,
            "memory_bytes": 8 * GIB,
            "disk_bytes": 100 * GIB,
            "disk_used_bytes": 10 * GIB,
            **more,
        }
    )


def images(count: int, size: int = 5 * GIB) -> tuple[ImageArrival, ...]:
    others = [
        ImageArrival(name=f"old:{n}", image_id=f"sha256:{n:064x}", size_bytes=size)
        for n in range(count)
    ]
    return (*others, IMAGE)


# -- images ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.20.2", "1.27.1", "1.29.3", "1.36.2"])
def test_collection_stops_when_enough_is_freed(version: str) -> None:
    """The collection frees no more than it must, and nothing that is in use."""
    scene = plan(
        planned("web"), version=version, minutes=21, images=images(8),
        disk_changes=(DiskChange(at_ns=400 * NS_PER_S, disk="node", bytes=36 * GIB),),
    )  # fmt: skip
    found = records(scene)
    (start,) = of(found, GarbageCollectionStarted)
    deleted = of(found, ImageDeleted)
    assert IMAGE.image_id not in {body.image_id for body in deleted}
    freed = [body.size_bytes for body in deleted]
    assert sum(freed[:-1]) < start.bytes_to_free <= sum(freed)
    assert "freed" in {body.outcome for body in of(found, GarbageCollected)}


def test_a_disk_that_cannot_be_freed(version: str) -> None:
    scene = plan(
        planned("web"), version=version, minutes=16, images=images(2),
        settings={"imageGCHighThresholdPercent": 6, "imageGCLowThresholdPercent": 5},
    )  # fmt: skip
    found = records(scene)
    ends = of(found, GarbageCollected)
    assert {end.outcome for end in ends} == {"failed"}
    assert all(end.error for end in ends)
    assert len(of(found, ImageDeleted)) == 2


def test_images_go_for_their_age() -> None:
    """The age pass waits for the maximum age, and removes what is unused."""
    scene = plan(
        planned("web"), minutes=31, images=images(3), settings={"imageMaximumGCAge": "12m"}
    )
    found = records(scene)
    assert {body.pass_ for body in of(found, ImageDeleted)} == {"age"}


def test_the_disk_is_read_behind_the_pass_for_age() -> None:
    """What went for its age need not be freed any more."""
    change = DiskChange(at_ns=800 * NS_PER_S, disk="node", bytes=62 * GIB)
    users = [planned(f"p{n}", container(image=f"old:{n}"), deleted_s=700) for n in range(3)]
    scene = plan(
        planned("web"), *users, minutes=16, images=images(5), disk_changes=(change,),
        settings={"imageMaximumGCAge": "12m", "evictionHard": {"memory.available": "100Mi"}},
    )  # fmt: skip
    found = records(scene)
    (start,) = of(found, GarbageCollectionStarted)
    assert start.bytes_to_free < 8 * GIB
    assert {body.pass_ for body in of(found, ImageDeleted)} == {"age", "space"}


def test_detect_passes_begin_with_the_kubelet(version: str) -> None:
    scene = plan(version=version, minutes=12, images=images(1, MIB))
    first = next(r for r in records(scene) if isinstance(r.body, ImagesDetected))
    assert first.ts_ns - scene.start_ns < NS_PER_S
    assert isinstance(first.body, ImagesDetected)
    assert all(image.new for image in first.body.images)
    assert (first.body.images[0].pinned is None) is (version == "1.20.2")


# -- cgroups ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", ["cgroupfs", "systemd"])
@pytest.mark.parametrize("cgroup_version", [1, 2])
def test_cgroups(version: str, cgroup_version: Literal[1, 2], driver: str) -> None:
    """Values of all levels are those that verification decides, in either version and driver."""
    sized = container(requests={"cpu": "300m", "memory": "200Mi"}, limits={"memory": "300Mi"})
    whole = {"cpu": "1", "memory": "1Gi"}
    scene = plan(
        planned("burst", sized),
        planned("sure", container(requests=whole, limits=whole), at_s=20),
        planned("rest", at_s=70, deleted_s=150),
        version=version,
        minutes=9,
        node=node(cgroup_version=cgroup_version),
        settings={
            "cgroupDriver": driver,
            "featureGates": {"QOSReserved": True, "MemoryQoS": cgroup_version == 2},
            "qosReserved": {"memory": "50%"},
            "memoryThrottlingFactor": 0.9,
            "podPidsLimit": 500,
        },
        kubelet_restarts=(KubeletRestart(at_ns=240 * NS_PER_S, down_ns=45 * NS_PER_S),),
    )
    found = records(scene)
    levels = {body.level for body in of(found, CgroupUpdated)}
    assert levels == {"node", "qos", "pod", "container"}
    assert all(
        ("slice" in body.cgroup) is (driver == "systemd") for body in of(found, CgroupUpdated)
    )
    assert all(bool(body.unified) is (cgroup_version == 2) for body in of(found, CgroupUpdated))
    reserves = of(found, QOSReserveComputed)
    assert len(reserves) == 2 * len(of(found, QOSCgroupsUpdated))
    assert {body.requested_bytes for body in reserves if body.qos_class == "Burstable"} == {
        0,
        200 * MIB,
    }


def test_qos_level_is_written_each_minute() -> None:
    scene = plan(minutes=5)
    times = [r.ts_ns for r in records(scene) if isinstance(r.body, QOSCgroupsUpdated)]
    gaps = {after - before for before, after in pairwise(times)}
    assert gaps == {60 * NS_PER_S}


# -- evictions -------------------------------------------------------------------------------------


def hungry(memory: int, from_s: int = 100, disk: int = 0) -> dict[str, ContainerScript]:
    usage = Usage(from_ns=from_s * NS_PER_S, memory_bytes=memory, disk_bytes=disk)
    return {"app": ContainerScript(usage=(usage,))}


def pressed(
    version: str,
    **more: Any,  # noqa: ANN401 # any field
) -> Plan:
    """Two pods eat memory: the one above its requests by more, and a better one, goes first.

    Not all of it: what no eviction is in time for, the kernel kills for.
    """
    asks = container(requests={"memory": "2Gi"})
    return plan(
        planned("modest", asks, scripts=hungry(3 * GIB)),
        planned("greedy", asks, scripts=hungry(4 * GIB - 64 * MIB)),
        planned("grand", asks, scripts=hungry(1 * GIB), priority=1000),
        planned("late", at_s=150),
        version=version,
        minutes=9,
        **{"settings": {"kubeReserved": {"cpu": "200m"}}, **more},
    )


def test_memory_pressure(version: str) -> None:
    found = records(pressed(version))
    first = of(found, PodEvicted)[0]
    assert (first.pod, first.resource) == ("greedy", "memory")
    assert first.message.startswith("The node was low on resource: memory. ")
    assert "Container app was using" in first.message
    assert ("Threshold quantity: 100Mi" in first.message) is (version == "1.36.2")


def test_a_pod_without_a_running_container_goes_first(version: str) -> None:
    """There are no statistics of it, and what the kubelet does not know it ranks first."""
    absent = container(image="registry.local/none:1", imagePullPolicy="Never")
    idle = planned("idle", absent, priority=2000)
    scene = pressed(version)
    found = records(msgspec.structs.replace(scene, pods=(*scene.pods, idle)))
    assert of(found, ReclaimAttempted)[0].ranked[0].pod == "idle"
    assert of(found, PodEvicted)[0].pod == "idle"
    assert eviction_verdicts(found) == {"match"}


def test_pressure_keeps_best_effort_pods_out(version: str) -> None:
    found = records(pressed(version))
    (refused,) = of(found, PodRejected)
    assert refused.pod == "late"
    assert refused.message == "The node had condition: [MemoryPressure]. "


def eviction_verdicts(found: list[Record]) -> set[str]:
    ours = (PodEvicted.kind, "eviction.")
    return {
        o.verdict for o in outcomes(found) if isinstance(o, Finding) and o.kind.startswith(ours)
    }


def test_a_soft_threshold_waits(version: str) -> None:
    soft = {
        "evictionSoft": {"memory.available": "2Gi"},
        "evictionSoftGracePeriod": {"memory.available": "90s"},
        "evictionMaxPodGracePeriod": 30,
        "evictionPressureTransitionPeriod": "30s",
    }
    scene = plan(
        planned("web", scripts=hungry(7 * GIB - 300 * MIB)),
        version=version,
        minutes=6,
        settings=soft,
    )
    found = records(scene)
    evicted = next(r for r in found if isinstance(r.body, PodEvicted))
    assert 90 <= (evicted.ts_ns - scene.start_ns) / NS_PER_S - 100 < 111
    assert eviction_verdicts(found) == {"match"}


@pytest.mark.parametrize("dedicated", [False, True])
def test_disk_pressure_reclaims_first(version: str, dedicated: bool) -> None:
    disk = {"image_disk_bytes": 60 * GIB, "image_disk_used_bytes": 5 * GIB} if dedicated else {}
    change = DiskChange(at_ns=200 * NS_PER_S, disk="image", bytes=(22 if dedicated else 50) * GIB)
    scene = plan(
        planned("web"),
        version=version,
        minutes=12,
        images=images(6),
        node=node(**disk),
        settings={
            "evictionHard": {"imagefs.available": "15%", "nodefs.available": "15%"},
            "imageGCHighThresholdPercent": 100,
        },
        disk_changes=(change,),
    )
    found = records(scene)
    assert {body.pass_ for body in of(found, ImageDeleted)} == {"all"}
    assert len(of(found, ImageDeleted)) == 6
    assert not of(found, PodEvicted)
    assert eviction_verdicts(found) == {"match"}
    names = {body.signal for body in of(found, EvictionSignalObserved)}
    assert ("containerfs.available" in names) is (version == "1.36.2")


def test_a_pod_over_its_own_limit(version: str) -> None:
    small = container(limits={"ephemeral-storage": "1Gi"})
    found = run(planned("web", small, scripts=hungry(0, disk=2 * GIB)), version=version)
    (evicted,) = of(found, PodEvicted)
    assert eviction_verdicts(found) == {"match"}
    assert evicted.resource is None
    assert "limit of containers 1Gi. " in evicted.message
    assert of(found, PodTerminated)


def test_critical_pods_stay(version: str) -> None:
    critical = planned(
        "dns", scripts=hungry(8 * GIB), priority=2_000_001_000,
        priorityClassName="system-node-critical",
    )  # fmt: skip
    found = run(critical, version=version)
    assert not of(found, PodEvicted)
