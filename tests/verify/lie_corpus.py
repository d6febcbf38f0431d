"""Lies about the recorded nodes: one thing changed in one file, and what has to be said of it."""

import msgspec

CONTRADICTED = ""
"""Nothing is impossible: two sources disagree, and nobody can tell which one lies."""


class Edit(msgspec.Struct, frozen=True):
    """One replacement in one line.

    Attributes:
        file: below the node's directory.
        line: words of the line, which is the first one that holds them; or its number.
        old: what stands there, once or more; its first place is replaced.
    """

    file: str
    line: str | int
    old: str
    new: str


class Lie(msgspec.Struct, frozen=True):
    """What is changed, and what verification has to say.

    Attributes:
        node: whose recording.
        name: for people.
        kind: of the one decision that is impossible; ``CONTRADICTED``.
        subject: of it, or of the contradiction.
        says: words of the sentence, or of one side.
        edits: one; two where a checkpoint's checksum has to fit, or a line says one thing twice.
        disputed: beside it stand contradictions about the same subject.
    """

    node: str
    name: str
    kind: str
    subject: str
    says: str
    edits: tuple[Edit, ...]
    disputed: bool


def lie(
    node: str, name: str, kind: str, subject: str, says: str, *edits: Edit, disputed: bool = False
) -> Lie:
    return Lie(node, name, kind, subject, says, edits, disputed)


LOG = "kubelet.log"
A, B = "node-a", "node-b"
A_CGROUPS = "snapshots/20261121T030036Z/cgroupfs.txt"
A_CHECKPOINT = "snapshots/20261121T030036Z/kubelet_internal_checkpoint"
A_FIRST_CHECKPOINT = "snapshots/20261121T030021Z/kubelet_internal_checkpoint"
A_PODS = "snapshots/20261121T030036Z/pods.json"
B_CGROUPS = "snapshots/20261121T030806Z/cgroupfs.txt"

REMOVED, GC = "images.ImageDeleted", "images.GarbageCollected"
GC_START = "images.GarbageCollectionStarted"
GRANTED, REFUSED = "devicemanager.DevicesAllocated", "lifecycle.PodRejected"
NOT_GRANTED = "devicemanager.AllocationFailed"
MERGED = "topologymanager.AffinityDecided"
PREEMPTED, PREEMPTION_FAILED = "preemption.PodPreempted", "preemption.PreemptionFailed"
KILLED = "lifecycle.ContainerKilled"
HELD_BACK, CGROUP = "lifecycle.RestartBackedOff", "cgroups.CgroupUpdated"

DAILY = (
    lie(A, "another image", REMOVED,
        "image/sha256:4de5e1e264f6f49d2fa35f0e0b7a8bf09b449c1ef07b6dd4a8a31bd45e5a05fe",
        "it is in use",
        Edit(LOG, 'Removing image "sha256:68d8e9110ca4',
             "68d8e9110ca497ee3eb8e1264b28f47fa97dec63cbd657b2e38fe65b5e404236",
             "4de5e1e264f6f49d2fa35f0e0b7a8bf09b449c1ef07b6dd4a8a31bd45e5a05fe")),
    lie(B, "size of an image", REMOVED,
        "image/sha256:4de5e1e264f6f49d2fa35f0e0b7a8bf09b449c1ef07b6dd4a8a31bd45e5a05fe",
        "1997512 bytes",
        Edit(LOG, 'Removing image to free bytes" imageID="sha256:4de5e1e264f6', "size=1997512",
             "size=1997513")),
    lie(A, "threshold in the log", GC_START, "node", "the high threshold is 5 %",
        Edit(LOG, "is over the high threshold (5%)", "threshold (5%)", "threshold (6%)")),
    lie(B, "device", GRANTED, "container/default/gpu-a-node-b/train", "holds gpu-2",
        Edit(LOG, 'devices=["gpu-2"]', "gpu-2", "gpu-0"), disputed=True),
    lie(A, "device in the checkpoint", CONTRADICTED, "node", "its content has another checksum",
        Edit(A_CHECKPOINT, 1, '"DeviceIDs":{"1":["gpu-1"]}', '"DeviceIDs":{"1":["gpu-3"]}')),
    lie(A, "device in the checkpoint, whose checksum fits", CONTRADICTED,
        "container/default/gpu-b/train", "it holds gpu-3",
        Edit(A_CHECKPOINT, 1, '"DeviceIDs":{"1":["gpu-1"]}', '"DeviceIDs":{"1":["gpu-3"]}'),
        Edit(A_CHECKPOINT, 1, "3773761700", "940211626")),
    lie(B, "missing amount of a preemption", PREEMPTED, "pod/default/filler-a-node-b",
        "lacked 270m of cpu",
        Edit(LOG, "Preempting pod to free up resources", "q: 270", "q: 280")),
    lie(A, "grace period", KILLED, "container/default/live-fail/app", "30 instead of 2",
        Edit(LOG, 9353, "with a 2 second", "with a 30 second")),
    lie(A, "back-off", HELD_BACK, "container/default/live-fail/app", "40 s, not 20 s",
        Edit(LOG, "back-off 40s restarting failed", "back-off 40s", "back-off 20s")),
    lie(A, "shares of a QoS class", CGROUP, "cgroup/kubepods/burstable", "had to be 1280",
        Edit(A_CGROUPS, "kubepods/burstable/cpu.shares", "1280", "1281")),
    lie(B, "quota of a pod", CGROUP,
        "cgroup/kubepods/burstable/pod18ac90fce0f6877386fc4a4a3e54aef7", "had to be 40000",
        Edit(B_CGROUPS, "kubepods/burstable/pod18ac90fce0f6877386fc4a4a3e54aef7/cpu.cfs_quota_us",
             "quota_us 40000", "quota_us 50000")),
    lie(A, "pull that is held back under policy Never", "imagepull.PullDecided",
        "container/default/guaranteed-1/container3", "Never never pulls",
        Edit(LOG, 7369, "with ErrImageNeverPull", "with ImagePullBackOff")),
    lie("node-e-oom", "pull before its back-off has passed", "imagepull.PullEnded",
        "container/default/no-image/app", "back-off of 40s had not passed",
        Edit(LOG, "08:12:20.760358", "with ImagePullBackOff", "with ErrImagePull")),
    lie(A, "pull under policy Never", "imagepull.PullEnded",
        "container/default/guaranteed-1/container3", "Never never pulls",
        Edit(LOG, 7369, "with ErrImageNeverPull", "with ErrImagePull")),
    lie(A, "stamp of a line: 03:01:32", CONTRADICTED, "node", "T03:01:32.",
        Edit(LOG, "Predicate failed on Pod: too-big", " 03:00:32.", " 03:01:32.")),
)  # fmt: skip
"""Caught in every run: one of each subject."""

NIGHTLY = (
    lie(A, "device in the first checkpoint, whose checksum fits", CONTRADICTED,
        "container/default/gpu-b/train", "it holds gpu-3",
        Edit(A_FIRST_CHECKPOINT, 1, '"DeviceIDs":{"1":["gpu-1"]}', '"DeviceIDs":{"1":["gpu-3"]}'),
        Edit(A_FIRST_CHECKPOINT, 1, "3773761700", "940211626")),
    lie(B, "count in the rejection of a pod", REFUSED, "pod/default/gpu-c-node-b", "Available: 1",
        Edit(LOG, '"Pod admission denied" podUID="3e50fe57', "Available: 2", "Available: 1"),
        disputed=True),
    lie(B, "another image", REMOVED,
        "image/sha256:e88ac028a39b586c68101de2256b70a5dfc991e7ae06f8234347fa6a66d66135",
        "it is in use",
        Edit(LOG, 'Removing image to free bytes" imageID="sha256:58f372ab2424',
             "58f372ab2424b1074e50e6e06b6b131d44e0299dbb1dee59cff0542239a8b1c1",
             "e88ac028a39b586c68101de2256b70a5dfc991e7ae06f8234347fa6a66d66135")),
    lie(A, "size of an image", REMOVED,
        "image/sha256:5e3c775663b8edad90449cb2bf53ca9c503e3dc8bd8babe5bc984b8b6575c5a0",
        "42005183 bytes",
        Edit(LOG, 'Removing image "sha256:5e3c775663b8', "free 42005183", "free 42005184")),
    lie(A, "sum that was freed", GC, "node", "had to be 99004545",
        Edit(LOG, "collection failed multiple times in a row", "freed 99004545", "freed 99004546")),
    lie(B, "sum that was freed", GC, "node", "had to be 42999878",
        Edit(LOG, "collection failed multiple times in a row", "freed 42999878", "freed 42999879")),
    lie(A, "usage in the log", GC_START, "node", "71 % used gives 183562994319 bytes",
        Edit(LOG, "is over the high threshold (5%)", "at 72%", "at 71%")),
    lie(A, "amount to free", GC_START, "node", "72 % used gives 183562994320 bytes",
        Edit(LOG, "is over the high threshold (5%)", "free 183562994319", "free 183562994320"),
        Edit(LOG, "Wanted to free 183562994319", "183562994319", "183562994320")),
    lie(B, "amount to free", GC_START, "node", "183772263056 bytes",
        Edit(LOG, "amountToFree=183772263055", "amountToFree=183772263055",
             "amountToFree=183772263056")),
    lie(A, "policy in the topology manager's start", CONTRADICTED, "node",
        'the topology manager\'s start says "restricted"',
        Edit(LOG, "Creating topology manager with", "best-effort policy", "restricted policy")),
    lie(A, "policy in the container manager's start", CONTRADICTED, "node",
        'the container manager\'s start says "none"',
        Edit(LOG, "Initializing Topology Manager", "best-effort policy", "none policy")),
    lie(A, "scope in the container manager's start", CONTRADICTED, "node",
        'the container manager\'s start says "pod"',
        Edit(LOG, "Initializing Topology Manager", "container-level", "pod-level")),
    lie(B, "scope in the topology manager's start", CONTRADICTED, "node",
        'the topology manager\'s start says "pod"',
        Edit(LOG, "Creating topology manager with", '="container"', '="pod"')),
    lie(A, "resource of a call", GRANTED, "container/default/gpu-a/warmup", "the request was of",
        Edit(LOG, "for devices [gpu-0] for", "example.com/gpu", "vendor.io/nic")),
    lie(B, "resource of a call", GRANTED, "container/default/gpu-a-node-b/train",
        "the request was of",
        Edit(LOG, 'devices=["gpu-2"]', "example.com/gpu", "vendor.io/nic")),
    lie(A, "device of an init container", GRANTED, "container/default/gpu-a/warmup", "holds gpu-0",
        Edit(LOG, "for devices [gpu-0] for", "[gpu-0]", "[gpu-3]"), disputed=True),
    lie(A, "device", GRANTED, "container/default/gpu-b/train", "holds gpu-1",
        Edit(LOG, "for devices [gpu-1] for", "[gpu-1]", "[gpu-2]"), disputed=True),
    lie(B, "one of two devices", GRANTED, "container/default/gpu-a-node-b/train",
        "holds nic-0, nic-2",
        Edit(LOG, 'devices=["nic-2","nic-0"]', "nic-0", "nic-1"), disputed=True),
    lie(A, "merged hint", MERGED, "container/default/gpu-a/train",
        "merges to NUMA node 0, preferred",
        Edit(LOG,
             "Topology Affinity for (pod: gpu-a_default(36aa1f99-e71c-4fcf-b3f7-3254b6127099) "
             "container: train)",
             "{01 true}", "{01 false}"), disputed=True),
    lie(B, "merged hint", MERGED, "container/default/guaranteed-1-node-b/container3",
        "merges to NUMA node 0, preferred",
        Edit(LOG,
             '"Topology Affinity" bestHint={"NUMANodeAffinity":1,"Preferred":true} '
             'pod="default/guaranteed-1-node-b" containerName="container3"',
             '"NUMANodeAffinity":1', '"NUMANodeAffinity":2'), disputed=True),
    lie(B, "preemptor", PREEMPTED, "pod/default/filler-a-node-b", "critical-1-node-b",
        Edit(LOG, "Preempting pod to free up resources", "critical-1-node-b", "critical-2-node-b")),
    lie(B, "victim's name", PREEMPTED, "pod/default/filler-b-node-b",
        "where it was victim_pod 'filler-a-node-b'",
        Edit(LOG, "Preempting pod to free up resources", "default/filler-a-node-b",
             "default/filler-b-node-b"), disputed=True),
    lie(B, "error of a preemption", PREEMPTION_FAILED, "pod/default/too-big-node-b", "q: 1470",
        Edit(LOG, "Failed to admit pod, unexpected error", "q: 1470", "q: 1370")),
    lie(A, "message of a refusal", REFUSED, "pod/default/too-big", "used: 1450",
        Edit(LOG, "Predicate failed on Pod: too-big", "used: 1450", "used: 1350"), disputed=True),
    lie(A, "message of a refusal and of its event", REFUSED, "pod/default/too-big", "used: 1450",
        Edit(LOG, "Predicate failed on Pod: too-big", "used: 1450", "used: 1350"),
        Edit(LOG, 'reason="OutOfcpu" message', "used: 1450", "used: 1350"), disputed=True),
    lie(A, "reason of a kill", KILLED, "container/default/live-fail/app", "no startup probe",
        Edit(LOG, 9350, "failed liveness probe", "failed startup probe"), disputed=True),
    lie(B, "grace period", KILLED, "container/default/startup-never-node-b/app", "30 instead of 2",
        Edit(LOG, 9343, "gracePeriod=2", "gracePeriod=30")),
    lie(B, "back-off", HELD_BACK, "container/default/startup-never-node-b/app", "20 s, not 40 s",
        Edit(LOG, "back-off 20s restarting failed", "back-off 20s", "back-off 40s")),
    lie(A, "event of a failed probe", CONTRADICTED, "container/default/live-fail/app",
        "no event beside it",
        Edit(LOG, 9302, "Liveness probe failed", "Readiness probe failed")),
    lie(B, "shares of a QoS class", CGROUP, "cgroup/kubepods/burstable", "had to be 1505",
        Edit(B_CGROUPS, "kubepods/burstable/cpu.shares", "1505", "1504")),
    lie(A, "memory of a QoS class", CGROUP, "cgroup/kubepods/burstable", "had to be 24387321856",
        Edit(A_CGROUPS, "memory/kubepods/burstable/memory.limit", "24387321856", "24387317760")),
    lie(A, "memory of the node", CGROUP, "cgroup/kubepods", "had to be 24471207936",
        Edit(A_CGROUPS, "memory/kubepods/memory.limit", "24471207936", "24471203840")),
    lie(A, "process IDs of all pods", CGROUP, "cgroup/kubepods", "had to be 32768",
        Edit(A_CGROUPS, "pids/kubepods/pids.max", "32768", "32767")),
    lie(B, "process IDs of all pods", CGROUP, "cgroup/kubepods", "had to be 32768",
        Edit(B_CGROUPS, "pids/kubepods/pids.max", "32768", "max")),
    lie(B, "process IDs of a QoS class", CGROUP, "cgroup/kubepods/burstable", "had to be max",
        Edit(B_CGROUPS, "pids/kubepods/burstable/pids.max", "pids.max max", "pids.max 100")),
    lie(A, "shares of a pod", CGROUP,
        "cgroup/kubepods/besteffort/podcacc052e-f369-42ec-8efe-1db35a9551ca", "had to be 2",
        Edit(A_CGROUPS, "kubepods/besteffort/podcacc052e-f369-42ec-8efe-1db35a9551ca/cpu.shares",
             "shares 2", "shares 3")),
    lie(A, "quota of a pod", CGROUP,
        "cgroup/kubepods/besteffort/podcacc052e-f369-42ec-8efe-1db35a9551ca", "had to be -1",
        Edit(A_CGROUPS,
             "kubepods/besteffort/podcacc052e-f369-42ec-8efe-1db35a9551ca/cpu.cfs_quota_us",
             "quota_us -1", "quota_us 25000")),
    lie(A, "memory of a pod", CGROUP,
        "cgroup/kubepods/burstable/pod50de8d34-c6b6-4560-94f6-8112cb42465b", "had to be 335544320",
        Edit(A_CGROUPS,
             "memory/kubepods/burstable/pod50de8d34-c6b6-4560-94f6-8112cb42465b/memory.limit",
             "335544320", "335540224")),
    lie(A, "memory of a container", CGROUP,
        "cgroup/kubepods/pod8c184fbe-2748-4331-96ce-34ad3243feca/772820fbe916d62392fae3c387197143ce3860895f80e44f315a1b7d03df0d40",
        "had to be 134217728",
        Edit(A_CGROUPS,
             "memory/kubepods/pod8c184fbe-2748-4331-96ce-34ad3243feca/772820fbe916d62392fae3c387197143ce3860895f80e44f315a1b7d03df0d40/memory.limit",
             "134217728", "134213632")),
    lie(B, "shares of a container", CGROUP,
        "cgroup/kubepods/pode8fdb028d2f63af9e999e24872eb75fc/50e4218f39893076f9efd3383ae100cb8d32266854eb5b14fdb2fd2b80f846d7",
        "had to be 204",
        Edit(B_CGROUPS,
             "kubepods/pode8fdb028d2f63af9e999e24872eb75fc/50e4218f39893076f9efd3383ae100cb8d32266854eb5b14fdb2fd2b80f846d7/cpu.shares",
             "shares 204", "shares 205")),
    lie(A, "limit in a list", CONTRADICTED, "pod/default/burstable-1", "310m",
        Edit(A_PODS, 1, '"cpu":"300m"', '"cpu":"310m"')),
    lie(A, "reason of a victim's status", CONTRADICTED, "pod/default/filler-c",
        "critical pod Evicted",
        Edit(LOG,
             'adding pod: "2a34e2e8-d706-4c52-992d-899f30cb8f48", with status: (3, {Failed [] P',
             "Preempting", "Evicted")),
    lie(A, "pod of a victim's event", CONTRADICTED, "pod/default/gpu-a", 'object="default/gpu-b"',
        Edit(LOG, 'object="default/gpu-a" kind="Pod" apiVersion="v1" type="Warning" reason="Pre',
             "gpu-a", "gpu-b")),
    lie(B, "pod of a victim's event", CONTRADICTED, "pod/default/filler-a-node-b",
        'object="default/filler-c-node-b"',
        Edit(LOG, 'type="Warning" reason="Preempting"', "filler-a-node-b", "filler-c-node-b")),
    lie(A, "count in the rejection of a pod", NOT_GRANTED, "container/default/gpu-c/train",
        "Available: 0",
        Edit(LOG, 'adding pod: "0c8b8f31-f9c9-4d7f-88d1-8a748a34c6fe", with status: (1, {Failed',
             "Available: 1", "Available: 0"), disputed=True),
    lie(A, "stamp of a line: 03:00:22", CONTRADICTED, "node", "T03:00:22.",
        Edit(LOG, "Predicate failed on Pod: too-big", " 03:00:32.", " 03:00:22.")),
    lie(A, "stamp of a line: 23:00:32", CONTRADICTED, "node", "T23:00:32.",
        Edit(LOG, "Predicate failed on Pod: too-big", " 03:00:32.", " 23:00:32.")),
    lie(A, "stamp of a line: 02:59:06", CONTRADICTED, "node", "T02:59:06.",
        Edit(LOG, "for devices [gpu-0] for", " 02:54:06.", " 02:59:06.")),
    lie(B, "stamp of a line: 03:07:18", CONTRADICTED, "node", "T03:07:18.",
        Edit(LOG, 'devices=["gpu-2"]', " 03:07:08.", " 03:07:18.")),
    lie(B, "stamp of a line: 03:05:53", CONTRADICTED, "node", "T03:05:53.",
        Edit(LOG, "Preempting pod to free up resources", " 03:07:53.", " 03:05:53.")),
    lie(A, "reason in a refused pod's status", CONTRADICTED, "pod/default/too-big", "OutOfmemory",
        Edit(LOG, 'adding pod: "9f62a548', "OutOfcpu", "OutOfmemory")),
)  # fmt: skip
"""The long tail."""
