"""A small ledger with a bit of everything, made from typed bodies."""

from pathlib import Path
from typing import Any, Literal

import msgspec

from kubeledger.ledger.storage import segment_file
from kubeledger.model.bodies.cgroups import CgroupUpdated
from kubeledger.model.bodies.devicemanager import (
    AllocationFailed,
    ClaimDevice,
    ClaimPrepared,
    ClaimReleased,
    DevicesAllocated,
    DevicesReleased,
    DevicesReported,
    EndpointStopped,
    PluginRegistered,
)
from kubeledger.model.bodies.eviction import (
    InsufficientResource,
    NodeConditionsChanged,
    OutOfMemory,
    PodPreempted,
    PodSpared,
    PodUsage,
    PodUsageObserved,
    PreemptionFailed,
    ProcessKilled,
    RankedPod,
    ReclaimAttempted,
    Task,
)
from kubeledger.model.bodies.images import (
    EvictionSignalObserved,
    GarbageCollected,
    GarbageCollectionStarted,
    ImageDeleted,
    ImageFsObserved,
    ImagesDetected,
    ListedImage,
    PullDecided,
    PullEnded,
)
from kubeledger.model.bodies.ledger import (
    FindingReported,
    ImportCompleted,
    LinesNotUnderstood,
    SourceAccount,
)
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerRestarted,
    ContainerStarted,
    KubernetesEvent,
    PodAdmitted,
    PodEvicted,
    PodListed,
    PodRejected,
    PodResized,
    PodTerminated,
    PodTerminating,
    RestartBackedOff,
)
from kubeledger.model.bodies.node import (
    ErrorsLogged,
    KubeletStarted,
    NodeConditionChanged,
    NodeTroubled,
    PodStageFailed,
    Setting,
    SettingsObserved,
)
from kubeledger.model.bodies.prober import (
    ProbeCountersRead,
    ProbeExecuted,
    ProbeResult,
    ProbeTransitioned,
    TickResult,
)
from kubeledger.model.bodies.resourcemanagers import (
    AffinityDecided,
    CpuManagerStateRead,
    CpusAllocated,
    CpusReleased,
    Hint,
    MemoryAllocated,
    MemoryBlock,
    MemoryManagerStarted,
    MemoryReleased,
)
from kubeledger.model.record import Body, Evidence, Record
from kubeledger.model.units import NS_PER_S, parse_ts
from kubeledger.model.wire.codec import GENESIS, encode_line

START_NS = parse_ts("2026-11-21T03:00:00.123456789Z")


def of(pod: str, container: str = "") -> dict[str, Any]:
    """What names a pod of the namespace ``default``, or a container of it."""
    named = {"namespace": "default", "pod": pod, "pod_uid": f"u-{pod}"}
    return {**named, "container": container} if container else named


class Story:
    def __init__(self, node: str) -> None:
        self.node = node
        self.records: list[Record] = []

    def add(self, body: Body, *, cause: int | None = None, text: str | None = None) -> int:
        seq = len(self.records) + 1
        evidence = Evidence(
            file="kubelet.log", line=seq, offset=100 * seq, text=text or f"line {seq}"
        )
        record = Record(
            node=self.node,
            seq=seq,
            ts_ns=START_NS + seq * NS_PER_S,
            role=body.role,
            kind=body.kind,
            v=body.v,
            cause=cause,
            evidence=(evidence,),
            body=body,
        )
        self.records.append(record)
        return seq


def whole_story(node: str = "node-a") -> list[Record]:
    """Records of every kind that a view reads, in an order that could have been."""
    story = Story(node)
    _node_and_devices(story)
    _probes(story)
    _images(story)
    _admission(story)
    _ledger_itself(story)
    _evictions(story)
    _out_of_memory(story)
    _waits(story)
    _errors(story)
    return story.records


def _node_and_devices(story: Story) -> None:
    story.add(KubeletStarted(pid=7, kubelet_version="1.36.2", version_source="log"))
    story.add(
        SettingsObserved(
            settings={
                "--v": Setting(value="5", source="flag"),
                "imageGCHighThresholdPercent": Setting(value="85", source="config"),
            }
        )
    )
    gpu = "example.com/gpu"
    story.add(PluginRegistered(resource=gpu))
    story.add(DevicesReported(resource=gpu, total=4, healthy=3))
    story.add(PodAdmitted(**of("train")))
    story.add(
        DevicesAllocated(
            **of("train", "main"),
            resource=gpu,
            device_ids=("gpu-0", "gpu-1"),
            numa={"0": ("gpu-0",), "1": ("gpu-1",)},
        )
    )
    story.add(DevicesAllocated(**of("serve", "main"), resource=gpu, device_ids=("gpu-2",)))
    story.add(
        AffinityDecided(
            **of("serve", "main"),
            hint=Hint(numa_nodes=(0,), preferred=True),
            policy="best-effort",
            admit=True,
        )
    )
    story.add(PodTerminated(**of("train")))
    story.add(DevicesReleased(pod_uid="u-train"))
    story.add(EndpointStopped(resource=gpu, error="connection closed"))
    story.add(PodAdmitted(**of("serve"), inferred=False))
    for cpu_shares in (102, 204):
        story.add(
            CgroupUpdated(
                cgroup="kubepods/burstable/podu-serve",
                level="pod",
                qos_class="Burstable",
                pod_uid="u-serve",
                cpu_shares=cpu_shares,
                cpu_quota_us=-1,
                cpu_period_us=100_000,
                memory_limit_bytes=9_223_372_036_854_771_712,
                created=cpu_shares == 102,
                changed=("cpu_shares", "memory_limit_bytes")[: 2 if cpu_shares == 102 else 1],
            )
        )


def _probes(story: Story) -> None:
    web = of("web", "app")
    story.add(ContainerStarted(**web, container_id="c1", sandbox=False))
    tick = 0
    results: tuple[TickResult, ...] = ("success", "failure", "failure")
    for result in results:
        tick = story.add(
            ProbeExecuted(
                **web,
                container_id="c1",
                probe_type="liveness",
                result=result,
                output="\x1b[31mcat: no such file\n" if result == "failure" else None,
                handler="exec",
            )
        )
    transition = story.add(
        ProbeTransitioned(**web, container_id="c1", probe_type="liveness", from_result="success",
                          to_result="failure", run=2, threshold=2),
        cause=tick,
    )  # fmt: skip
    kill = story.add(
        ContainerKilled(
            **web,
            container_id="c1",
            reason="liveness_probe",
            message="Container app failed liveness probe, will be restarted",
            grace_period_s=30,
        ),
        cause=transition,
    )
    story.add(ContainerDied(**web, container_id="c1", exit_code=137), cause=kill)
    story.add(RestartBackedOff(**web, back_off_s=10))
    story.add(
        ContainerRestarted(
            **web,
            container_id="c2",
            previous_container_id="c1",
            reason="liveness_probe",
            restart_count=1,
        ),
        cause=kill,
    )
    flaps: tuple[tuple[ProbeResult, ProbeResult], ...] = (
        ("failure", "success"),
        ("success", "failure"),
        ("failure", "success"),
    )
    for before, after in flaps:
        story.add(
            ProbeTransitioned(
                **web,
                container_id="c2",
                probe_type="readiness",
                from_result=before,
                to_result=after,
            )
        )
    story.add(ProbeCountersRead(**web, probe_type="liveness", successful=1, failed=2))


def _images(story: Story) -> None:
    story.add(ImageFsObserved(capacity_bytes=100_000, available_bytes=8_000))
    story.add(EvictionSignalObserved(signal="imagefs.available", available=8_000, capacity=100_000))
    story.add(
        ImagesDetected(
            images=(
                ListedImage(
                    image_id="sha256:aa",
                    size_bytes=500,
                    in_use=True,
                    new=True,
                    last_used_ts_ns=START_NS,
                ),
                ListedImage(image_id="sha256:bb", size_bytes=700),
            )
        )
    )
    start = story.add(
        GarbageCollectionStarted(
            usage_percent=92,
            high_threshold_percent=85,
            low_threshold_percent=80,
            bytes_to_free=12_000,
        )
    )
    for image_id, size_bytes in (("sha256:bb", 700), ("sha256:cc", 300)):
        story.add(
            ImageDeleted(image_id=image_id, size_bytes=size_bytes, pass_="space"), cause=start
        )
    story.add(
        GarbageCollected(
            bytes_freed=1_000,
            images_removed=2,
            outcome="failed",
            error="wanted to free 12000 bytes, but freed 1000 bytes",
        ),
        cause=start,
    )
    story.add(GarbageCollected(usage_percent=40, outcome="below_threshold"))
    story.add(ImageDeleted(image_id="sha256:dd", size_bytes=None))


def _admission(story: Story) -> None:
    story.add(
        PodRejected(**of("big"), reason="OutOfcpu", message="Node didn't have enough resource: cpu")
    )
    story.add(
        AllocationFailed(
            **of("greedy", "main"),
            resource="example.com/gpu",
            requested=9,
            available=1,
            error="requested number of devices unavailable",
        )
    )
    insufficient = (
        InsufficientResource(resource="cpu", quantity=270),
        InsufficientResource(resource="memory", quantity=1024),
    )
    preemption = story.add(
        PodPreempted(
            victim_namespace="default",
            victim_pod="serve",
            victim_uid="u-serve",
            preemptor_namespace="kube-system",
            preemptor_pod="critical",
            preemptor_uid="u-critical",
            insufficient=insufficient,
            evicted=True,
        )
    )
    story.add(
        KubernetesEvent(
            object_kind="Pod",
            **of("serve"),
            type="Warning",
            reason="Preempting",
            message="Preempted in order to admit critical pod",
        ),
        cause=preemption,
    )
    story.add(
        PreemptionFailed(
            preemptor_namespace="kube-system",
            preemptor_pod="huge",
            preemptor_uid="u-huge",
            insufficient=insufficient[:1],
            error="no set of running pods found to reclaim resources",
        )
    )
    story.add(
        KubernetesEvent(
            object_kind="Node",
            namespace="default",
            pod=story.node,
            pod_uid=story.node,
            type="Warning",
            reason="ImageGCFailed",
            message="wanted to free 12000 bytes",
        )
    )
    story.add(
        PodListed(
            **of("web"),
            labels={"app": "web"},
            annotations={"kubernetes.io/config.source": "file"},
            spec={"priority": 10},
            status={"phase": "Running", "qosClass": "BestEffort"},
            listed_by="kubelet",
        )
    )


def _out_of_memory(story: Story) -> None:
    group = "kubepods/burstable/podu-web/c2"
    web = of("web", "app")
    task = Task(
        pid=41, process="java", rss_pages=16000, swap_pages=0, page_table_bytes=81920,
        oom_score_adj=968,
    )  # fmt: skip
    cause = story.add(
        OutOfMemory(
            **web, cgroup=group, constraint="memcg", invoked_by="java", usage_bytes=64 << 20,
            limit_bytes=64 << 20, swap_limit_bytes=0, total_bytes=None, at_limit=True,
            page_bytes=4096, tasks=(task,),
        )
    )  # fmt: skip
    story.add(
        ProcessKilled(
            **web, container_id="c2", cgroup=group, task_cgroup=group, reason="container_limit",
            process="java", pid=41, rss_bytes=16000 << 12, limit_bytes=64 << 20,
            oom_score_adj=968, also_killed=(42, 43),
        ),
        cause=cause,
    )  # fmt: skip


def _ledger_itself(story: Story) -> None:
    story.add(FindingReported(finding="truncated", file="kubelet.log", message="It ends early."))
    story.add(
        LinesNotUnderstood(
            file="kubelet.log", shape="foo.go strange thing", count=3, lines=(8, 9, 12)
        )
    )
    story.add(
        ImportCompleted(
            digest="00",
            accounts=(
                SourceAccount(
                    file="kubelet.log",
                    lines=50,
                    understood=40,
                    noise=7,
                    not_understood=3,
                    records={"lifecycle.PodAdmitted": 1, "prober.ProbeExecuted": 3},
                ),
            ),
        )
    )


def _waits(story: Story) -> None:
    """A pod that waits for its image, one that waited for a volume; a node that was not ready."""
    at = START_NS + 100 * NS_PER_S
    later = at + 60 * NS_PER_S
    times: dict[str, Any] = {"first_ts_ns": at, "last_ts_ns": later}
    story.add(
        PodStageFailed(
            **of("slow"),
            stage="volumes",
            reason="FailedMount",
            message='MountVolume.SetUp failed for volume "data"',
            about="data",
            count=3,
            **times,
        )
    )
    image: dict[str, Any] = {"stage": "image", "about": "example/app:1", **times}
    story.add(
        PodStageFailed(
            **of("slow", "app"), **image, reason="ErrImagePull", message="not found", count=2
        )
    )
    story.add(
        PodStageFailed(
            **of("slow", "app"),
            **image,
            reason="ImagePullBackOff",
            message="Back-off pulling image",
            is_waiting=True,
        )
    )
    story.add(
        PodStageFailed(
            **of("brief", "app"),
            stage="create",
            reason="CreateContainerConfigError",
            message='secret "db" not found',
            about="db",
            first_ts_ns=START_NS,
            last_ts_ns=START_NS,
        )
    )
    story.add(PodTerminating(**of("brief"), reason="deleted", grace_period_s=30))
    story.add(
        NodeTroubled(trouble="pleg_unhealthy", message="PLEG is not healthy", count=4, **times)
    )
    story.add(
        NodeTroubled(
            trouble="pleg_unhealthy",
            message="PLEG is not healthy",
            count=0,
            first_ts_ns=later,
            last_ts_ns=later,
            passed_ts_ns=later + NS_PER_S,
        )
    )
    changes: tuple[tuple[Literal["True", "False"], str], ...] = (
        ("False", "KubeletNotReady"),
        ("True", "KubeletReady"),
    )
    for status, reason in changes:
        story.add(
            NodeConditionChanged(
                condition="Ready", status=status, reason=reason, message="PLEG is not healthy"
            )
        )
    story.add(
        PodResized(
            **of("web"),
            outcome="deferred",
            reason="Deferred",
            message="Node didn't have enough resource: cpu",
            resources={"app": {"requests": {"cpu": "2"}}},
        )
    )
    _pulls(story)


def _pulls(story: Story) -> None:
    """One that fails and is held back, and one of which only the end is recorded."""
    names: dict[str, Any] = {**of("slow", "app"), "image": "example/app:1"}
    begun = story.add(PullDecided(**names, decision="pull"))
    error = "rpc error: not found"
    story.add(PullEnded(**names, outcome="failed", error=error, reason="ErrImagePull"), cause=begun)
    story.add(PullDecided(**names, decision="back_off"))
    story.add(
        PullEnded(**names, outcome="pulled", whole_ms=4200, pull_ms=1200, size_bytes=104857600)
    )


def manager_story() -> list[Record]:
    """CPUs and memory: one container gave back what it had, another's no state file shows."""
    story = Story("node-m")
    serve = of("serve", "main")
    train = of("train", "main")
    story.add(
        CpusAllocated(
            **serve, cpu_set="2-3", requested=2, numa_nodes=(0,), default_cpu_set="0-1,4-7"
        )
    )
    story.add(CpusAllocated(**train, cpu_set="4", told_by="state_file"))
    story.add(CpusReleased(**serve, cpu_set="2-3", default_cpu_set="0-3,5-7"))
    blocks = (
        MemoryBlock(numa_nodes=(0, 1), type="hugepages-1Gi", size_bytes=1 << 31),
        MemoryBlock(numa_nodes=(0, 1), type="memory", size_bytes=1 << 30),
    )
    story.add(MemoryAllocated(**serve, affinity=(0,), blocks=blocks))
    story.add(MemoryAllocated(**train))
    story.add(MemoryReleased(**serve))
    story.add(MemoryManagerStarted(policy="Static", restored=False))
    _claims(story)
    return story.records


def _claims(story: Story) -> None:
    """A claim that two pods share, one without devices, one of 1.30."""
    gpu = ClaimDevice(pool="node-m", device="gpu-0", cdi_device_ids=("gpu.example.com/gpu=0",))
    shared: dict[str, Any] = {"claim": "shared", "claim_uid": "uid-shared"}
    drivers = {"gpu.example.com": (gpu,), "net.example.com": ()}
    story.add(ClaimPrepared(**of("serve"), **shared, drivers=drivers, told_by="state_file"))
    story.add(ClaimPrepared(**of("train"), **shared, drivers={"gpu.example.com": (gpu,)}))
    story.add(ClaimReleased(**of("serve"), **shared, unprepared=False, inferred=True))
    old = ClaimDevice(cdi_device_ids=("a", "b"))
    story.add(ClaimPrepared(**of("late"), claim="own", claim_uid="uid-own", drivers={"d": (old,)}))
    story.add(ClaimReleased(**of("late"), claim="own", claim_uid="uid-own", unprepared=True))
    story.add(ClaimPrepared(**of("late"), claim="none", claim_uid="uid-none", drivers={}))


def _evictions(story: Story) -> None:
    story.add(NodeConditionsChanged(conditions=("DiskPressure",), observed=("DiskPressure",)))
    ranked = tuple(RankedPod(**of(name)) for name in ("vital", "hog"))
    attempt = story.add(
        ReclaimAttempted(
            resource="ephemeral-storage",
            signal="imagefs.available",
            threshold=10_000,
            threshold_kind="soft",
            since_ts_ns=START_NS,
            observed=8_000,
            ranked=ranked,
            outcome="evicting",
        )
    )
    story.add(PodSpared(**of("vital")), cause=attempt)
    story.add(
        PodEvicted(
            **of("hog"),
            resource="ephemeral-storage",
            signal="imagefs.available",
            threshold=10_000,
            threshold_kind="soft",
            since_ts_ns=START_NS,
            observed=8_000,
            rank=2,
            grace_period_s=12,
            message="The node was low on resource: ephemeral-storage. ",
            evicted=True,
        ),
        cause=attempt,
    )
    story.add(
        PodEvicted(
            **of("scribe"),
            resource=None,
            signal="ephemeralpodfs.limit",
            threshold=1024,
            threshold_kind="local_storage",
            message="Pod ephemeral local storage usage exceeds the total limit of containers 1Ki. ",
            evicted=None,
        )
    )
    row = PodUsage(**of("hog"), memory_bytes=5, memory_ts_ns=START_NS, processes=2, storage_bytes=9)
    story.add(PodUsageObserved(pods=(row, PodUsage(namespace="default", pod="idle", pod_uid=None))))


def _errors(story: Story) -> None:
    """Said 1 + 5 times of a pod, then by another kubelet; of the node twice, and harmless once."""
    sandbox = ErrorsLogged(
        severity="E",
        source="kuberuntime_sandbox.go",
        shape="Failed to create sandbox for pod",
        **of("web"),
        pid=7,
        first_ts_ns=START_NS,
        last_ts_ns=START_NS,
    )
    later_ns = START_NS + 60 * NS_PER_S
    again: dict[str, Any] = {"first_ts_ns": START_NS + NS_PER_S, "last_ts_ns": later_ns}
    story.add(sandbox)
    story.add(msgspec.structs.replace(sandbox, **again, count=5))
    story.add(msgspec.structs.replace(sandbox, pid=8, first_ts_ns=later_ns, last_ts_ns=later_ns))
    of_node: dict[str, Any] = {"first_ts_ns": START_NS, "last_ts_ns": START_NS, "pid": None}
    watch = "Error while processing event *: no such file or directory"
    story.add(ErrorsLogged(**of_node, severity="W", source="watcher.go", shape=watch, count=2))
    dns = "Nameserver limits exceeded"
    story.add(ErrorsLogged(**of_node, severity="E", source="dns.go", shape=dns))
    gc = "Image garbage collection failed multiple times in a row"
    story.add(ErrorsLogged(**of_node, severity="E", source="kubelet.go", shape=gc, recorded=True))
    held = {"u-serve": {"app": "2-3"}}
    pool: dict[str, Any] = {
        "policy": "static",
        "default_cpu_set": "0-2",
        "checksum": 1,
        "checksum_ok": True,
    }
    story.add(CpuManagerStateRead(**pool, assignments=held))


RECORDS = len(whole_story())
"""How many records the story has."""


def write_segment(path: Path, records: list[Record], digest: bytes = GENESIS) -> bytes:
    """Lines of the records, chained from ``digest`` on; the last one's digest."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for record in records:
            line, digest = encode_line(record, digest)
            file.write(line)
    return digest


def write_ledger(directory: Path, records: list[Record]) -> Path:
    """A ledger directory with one open segment a node."""
    for node in sorted({record.node for record in records}):
        own = [record for record in records if record.node == node]
        write_segment(directory / "nodes" / node / "segments" / segment_file(1), own)
    return directory
