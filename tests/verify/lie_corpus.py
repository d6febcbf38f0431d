"""The corpus: every kind of lie that verification has to catch, on both nodes."""

from __future__ import annotations

from tests.verify.lies import CONTRADICTED, Edit, Lie

__all__ = ["DAILY", "NIGHTLY"]

LOG = "kubelet.log"
CONFIG = "kubelet-config.yaml"
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
    Lie(
        "another image",
        A,
        (
            Edit(
                LOG,
                'Removing image "sha256:68d8e9110ca4',
                "68d8e9110ca497ee3eb8e1264b28f47fa97dec63cbd657b2e38fe65b5e404236",
                "4de5e1e264f6f49d2fa35f0e0b7a8bf09b449c1ef07b6dd4a8a31bd45e5a05fe",
            ),
        ),
        REMOVED,
        "image/sha256:4de5e1e264f6f49d2fa35f0e0b7a8bf09b449c1ef07b6dd4a8a31bd45e5a05fe",
        "it is in use",
    ),
    Lie(
        "size of an image",
        B,
        (
            Edit(
                LOG,
                'Removing image to free bytes" imageID="sha256:4de5e1e264f6',
                "size=1997512",
                "size=1997513",
            ),
        ),
        REMOVED,
        "image/sha256:4de5e1e264f6f49d2fa35f0e0b7a8bf09b449c1ef07b6dd4a8a31bd45e5a05fe",
        "1997512 bytes",
    ),
    Lie(
        "threshold in the log",
        A,
        (Edit(LOG, "is over the high threshold (5%)", "threshold (5%)", "threshold (6%)"),),
        GC_START,
        "node",
        "the high threshold is 5 %",
    ),
    Lie(
        "threshold in the configuration",
        A,
        (Edit(CONFIG, "imageGCHighThresholdPercent", "Percent: 5", "Percent: 85"),),
        CONTRADICTED,
        "node",
        "the configuration says 85",
    ),
    Lie(
        "device",
        B,
        (Edit(LOG, 'devices=["gpu-2"]', "gpu-2", "gpu-0"),),
        GRANTED,
        "container/default/gpu-a-node-b/train",
        "holds gpu-2",
        disputed=True,
    ),
    Lie(
        "device in the checkpoint",
        A,
        (Edit(A_CHECKPOINT, 1, '"DeviceIDs":{"1":["gpu-1"]}', '"DeviceIDs":{"1":["gpu-3"]}'),),
        CONTRADICTED,
        "node",
        "its content has another checksum",
    ),
    Lie(
        "device in the checkpoint, whose checksum fits",
        A,
        (
            Edit(A_CHECKPOINT, 1, '"DeviceIDs":{"1":["gpu-1"]}', '"DeviceIDs":{"1":["gpu-3"]}'),
            Edit(A_CHECKPOINT, 1, "3773761700", "940211626"),
        ),
        CONTRADICTED,
        "container/default/gpu-b/train",
        "it holds gpu-3",
    ),
    Lie(
        "missing amount of a preemption",
        B,
        (Edit(LOG, "Preempting pod to free up resources", "q: 270", "q: 280"),),
        PREEMPTED,
        "pod/default/filler-a-node-b",
        "lacked 270m of cpu",
    ),
    Lie(
        "grace period",
        A,
        (Edit(LOG, 9353, "with a 2 second", "with a 30 second"),),
        KILLED,
        "container/default/live-fail/app",
        "30 instead of 2",
    ),
    Lie(
        "back-off",
        A,
        (Edit(LOG, "back-off 40s restarting failed", "back-off 40s", "back-off 20s"),),
        HELD_BACK,
        "container/default/live-fail/app",
        "40 s, not 20 s",
    ),
    Lie(
        "shares of a QoS class",
        A,
        (Edit(A_CGROUPS, "kubepods/burstable/cpu.shares", "1280", "1281"),),
        CGROUP,
        "cgroup/kubepods/burstable",
        "had to be 1280",
    ),
    Lie(
        "quota of a pod",
        B,
        (
            Edit(
                B_CGROUPS,
                "kubepods/burstable/pod18ac90fce0f6877386fc4a4a3e54aef7/cpu.cfs_quota_us",
                "quota_us 40000",
                "quota_us 50000",
            ),
        ),
        CGROUP,
        "cgroup/kubepods/burstable/pod18ac90fce0f6877386fc4a4a3e54aef7",
        "had to be 40000",
    ),
)
"""Caught in every run: one of each subject."""

NIGHTLY = (
    Lie(
        "device in the first checkpoint, whose checksum fits",
        A,
        (
            Edit(
                A_FIRST_CHECKPOINT, 1, '"DeviceIDs":{"1":["gpu-1"]}', '"DeviceIDs":{"1":["gpu-3"]}'
            ),
            Edit(A_FIRST_CHECKPOINT, 1, "3773761700", "940211626"),
        ),
        CONTRADICTED,
        "container/default/gpu-b/train",
        "it holds gpu-3",
    ),
    Lie(
        "count in the rejection of a pod",
        B,
        (Edit(LOG, '"Pod admission denied" podUID="3e50fe57', "Available: 2", "Available: 1"),),
        REFUSED,
        "pod/default/gpu-c-node-b",
        "Available: 1",
        disputed=True,
    ),
    Lie(
        "another image",
        B,
        (
            Edit(
                LOG,
                'Removing image to free bytes" imageID="sha256:58f372ab2424',
                "58f372ab2424b1074e50e6e06b6b131d44e0299dbb1dee59cff0542239a8b1c1",
                "e88ac028a39b586c68101de2256b70a5dfc991e7ae06f8234347fa6a66d66135",
            ),
        ),
        REMOVED,
        "image/sha256:e88ac028a39b586c68101de2256b70a5dfc991e7ae06f8234347fa6a66d66135",
        "it is in use",
    ),
    Lie(
        "size of an image",
        A,
        (Edit(LOG, 'Removing image "sha256:5e3c775663b8', "free 42005183", "free 42005184"),),
        REMOVED,
        "image/sha256:5e3c775663b8edad90449cb2bf53ca9c503e3dc8bd8babe5bc984b8b6575c5a0",
        "42005183 bytes",
    ),
    Lie(
        "sum that was freed",
        A,
        (
            Edit(
                LOG, "collection failed multiple times in a row", "freed 99004545", "freed 99004546"
            ),
        ),
        GC,
        "node",
        "had to be 99004545",
    ),
    Lie(
        "sum that was freed",
        B,
        (
            Edit(
                LOG, "collection failed multiple times in a row", "freed 42999878", "freed 42999879"
            ),
        ),
        GC,
        "node",
        "had to be 42999878",
    ),
    Lie(
        "usage in the log",
        A,
        (Edit(LOG, "is over the high threshold (5%)", "at 72%", "at 71%"),),
        GC_START,
        "node",
        "71 % used gives 183562994319 bytes",
    ),
    Lie(
        "amount to free",
        A,
        (
            Edit(LOG, "is over the high threshold (5%)", "free 183562994319", "free 183562994320"),
            Edit(LOG, "Wanted to free 183562994319", "183562994319", "183562994320"),
        ),
        GC_START,
        "node",
        "72 % used gives 183562994320 bytes",
    ),
    Lie(
        "amount to free",
        B,
        (
            Edit(
                LOG,
                "amountToFree=183772263055",
                "amountToFree=183772263055",
                "amountToFree=183772263056",
            ),
        ),
        GC_START,
        "node",
        "183772263056 bytes",
    ),
    Lie(
        "policy in the configuration",
        A,
        (Edit(CONFIG, "topologyManagerPolicy", "best-effort", "restricted"),),
        CONTRADICTED,
        "node",
        "restricted",
    ),
    Lie(
        "reserve in the configuration",
        A,
        (Edit(CONFIG, "systemReserved", "200m", "100m"),),
        CONTRADICTED,
        "node",
        "100m",
    ),
    Lie(
        "maximum of pods in the configuration",
        A,
        (Edit(CONFIG, "maxPods", "40", "4"),),
        CONTRADICTED,
        "node",
        "the configuration says 4",
    ),
    Lie(
        "policy in the topology manager's start",
        A,
        (Edit(LOG, "Creating topology manager with", "best-effort policy", "restricted policy"),),
        CONTRADICTED,
        "node",
        'the topology manager\'s start says "restricted"',
    ),
    Lie(
        "policy in the container manager's start",
        A,
        (Edit(LOG, "Initializing Topology Manager", "best-effort policy", "none policy"),),
        CONTRADICTED,
        "node",
        'the container manager\'s start says "none"',
    ),
    Lie(
        "scope in the container manager's start",
        A,
        (Edit(LOG, "Initializing Topology Manager", "container-level", "pod-level"),),
        CONTRADICTED,
        "node",
        'the container manager\'s start says "pod"',
    ),
    Lie(
        "scope in the topology manager's start",
        B,
        (Edit(LOG, "Creating topology manager with", '="container"', '="pod"'),),
        CONTRADICTED,
        "node",
        'the topology manager\'s start says "pod"',
    ),
    Lie(
        "resource of a call",
        A,
        (Edit(LOG, "for devices [gpu-0] for", "example.com/gpu", "vendor.io/nic"),),
        GRANTED,
        "container/default/gpu-a/warmup",
        "the request was of",
    ),
    Lie(
        "resource of a call",
        B,
        (Edit(LOG, 'devices=["gpu-2"]', "example.com/gpu", "vendor.io/nic"),),
        GRANTED,
        "container/default/gpu-a-node-b/train",
        "the request was of",
    ),
    Lie(
        "device of an init container",
        A,
        (Edit(LOG, "for devices [gpu-0] for", "[gpu-0]", "[gpu-3]"),),
        GRANTED,
        "container/default/gpu-a/warmup",
        "holds gpu-0",
        disputed=True,
    ),
    Lie(
        "device",
        A,
        (Edit(LOG, "for devices [gpu-1] for", "[gpu-1]", "[gpu-2]"),),
        GRANTED,
        "container/default/gpu-b/train",
        "holds gpu-1",
        disputed=True,
    ),
    Lie(
        "one of two devices",
        B,
        (Edit(LOG, 'devices=["nic-2","nic-0"]', "nic-0", "nic-1"),),
        GRANTED,
        "container/default/gpu-a-node-b/train",
        "holds nic-0, nic-2",
        disputed=True,
    ),
    Lie(
        "merged hint",
        A,
        (
            Edit(
                LOG,
                "Topology Affinity for (pod: gpu-a_default(36aa1f99-e71c-4fcf-b3f7-3254b6127099) "
                "container: train)",
                "{01 true}",
                "{01 false}",
            ),
        ),
        MERGED,
        "container/default/gpu-a/train",
        "merges to NUMA node 0, preferred",
        disputed=True,
    ),
    Lie(
        "merged hint",
        B,
        (
            Edit(
                LOG,
                '"Topology Affinity" bestHint={"NUMANodeAffinity":1,"Preferred":true} '
                'pod="default/guaranteed-1-node-b" containerName="container3"',
                '"NUMANodeAffinity":1',
                '"NUMANodeAffinity":2',
            ),
        ),
        MERGED,
        "container/default/guaranteed-1-node-b/container3",
        "merges to NUMA node 0, preferred",
        disputed=True,
    ),
    Lie(
        "preemptor",
        B,
        (
            Edit(
                LOG, "Preempting pod to free up resources", "critical-1-node-b", "critical-2-node-b"
            ),
        ),
        PREEMPTED,
        "pod/default/filler-a-node-b",
        "critical-1-node-b",
    ),
    Lie(
        "victim's name",
        B,
        (
            Edit(
                LOG,
                "Preempting pod to free up resources",
                "default/filler-a-node-b",
                "default/filler-b-node-b",
            ),
        ),
        PREEMPTED,
        "pod/default/filler-b-node-b",
        "where it was victim_pod 'filler-a-node-b'",
        disputed=True,
    ),
    Lie(
        "error of a preemption",
        B,
        (Edit(LOG, "Failed to admit pod, unexpected error", "q: 1470", "q: 1370"),),
        PREEMPTION_FAILED,
        "pod/default/too-big-node-b",
        "q: 1470",
    ),
    Lie(
        "message of a refusal",
        A,
        (Edit(LOG, "Predicate failed on Pod: too-big", "used: 1450", "used: 1350"),),
        REFUSED,
        "pod/default/too-big",
        "used: 1450",
        disputed=True,
    ),
    Lie(
        "message of a refusal and of its event",
        A,
        (
            Edit(LOG, "Predicate failed on Pod: too-big", "used: 1450", "used: 1350"),
            Edit(LOG, 'reason="OutOfcpu" message', "used: 1450", "used: 1350"),
        ),
        REFUSED,
        "pod/default/too-big",
        "used: 1450",
        disputed=True,
    ),
    Lie(
        "reason of a kill",
        A,
        (Edit(LOG, 9350, "failed liveness probe", "failed startup probe"),),
        KILLED,
        "container/default/live-fail/app",
        "no startup probe",
        disputed=True,
    ),
    Lie(
        "grace period",
        B,
        (Edit(LOG, 9343, "gracePeriod=2", "gracePeriod=30"),),
        KILLED,
        "container/default/startup-never-node-b/app",
        "30 instead of 2",
    ),
    Lie(
        "back-off",
        B,
        (Edit(LOG, "back-off 20s restarting failed", "back-off 20s", "back-off 40s"),),
        HELD_BACK,
        "container/default/startup-never-node-b/app",
        "20 s, not 40 s",
    ),
    Lie(
        "event of a failed probe",
        A,
        (Edit(LOG, 9302, "Liveness probe failed", "Readiness probe failed"),),
        CONTRADICTED,
        "container/default/live-fail/app",
        "no event beside it",
    ),
    Lie(
        "shares of a QoS class",
        B,
        (Edit(B_CGROUPS, "kubepods/burstable/cpu.shares", "1505", "1504"),),
        CGROUP,
        "cgroup/kubepods/burstable",
        "had to be 1505",
    ),
    Lie(
        "memory of a QoS class",
        A,
        (Edit(A_CGROUPS, "memory/kubepods/burstable/memory.limit", "24387321856", "24387317760"),),
        CGROUP,
        "cgroup/kubepods/burstable",
        "had to be 24387321856",
    ),
    Lie(
        "memory of the node",
        A,
        (Edit(A_CGROUPS, "memory/kubepods/memory.limit", "24471207936", "24471203840"),),
        CGROUP,
        "cgroup/kubepods",
        "had to be 24471207936",
    ),
    Lie(
        "process IDs of all pods",
        A,
        (Edit(A_CGROUPS, "pids/kubepods/pids.max", "32768", "32767"),),
        CGROUP,
        "cgroup/kubepods",
        "had to be 32768",
    ),
    Lie(
        "process IDs of all pods",
        B,
        (Edit(B_CGROUPS, "pids/kubepods/pids.max", "32768", "max"),),
        CGROUP,
        "cgroup/kubepods",
        "had to be 32768",
    ),
    Lie(
        "process IDs of a QoS class",
        B,
        (Edit(B_CGROUPS, "pids/kubepods/burstable/pids.max", "pids.max max", "pids.max 100"),),
        CGROUP,
        "cgroup/kubepods/burstable",
        "had to be max",
    ),
    Lie(
        "shares of a pod",
        A,
        (
            Edit(
                A_CGROUPS,
                "kubepods/besteffort/podcacc052e-f369-42ec-8efe-1db35a9551ca/cpu.shares",
                "shares 2",
                "shares 3",
            ),
        ),
        CGROUP,
        "cgroup/kubepods/besteffort/podcacc052e-f369-42ec-8efe-1db35a9551ca",
        "had to be 2",
    ),
    Lie(
        "quota of a pod",
        A,
        (
            Edit(
                A_CGROUPS,
                "kubepods/besteffort/podcacc052e-f369-42ec-8efe-1db35a9551ca/cpu.cfs_quota_us",
                "quota_us -1",
                "quota_us 25000",
            ),
        ),
        CGROUP,
        "cgroup/kubepods/besteffort/podcacc052e-f369-42ec-8efe-1db35a9551ca",
        "had to be -1",
    ),
    Lie(
        "memory of a pod",
        A,
        (
            Edit(
                A_CGROUPS,
                "memory/kubepods/burstable/pod50de8d34-c6b6-4560-94f6-8112cb42465b/memory.limit",
                "335544320",
                "335540224",
            ),
        ),
        CGROUP,
        "cgroup/kubepods/burstable/pod50de8d34-c6b6-4560-94f6-8112cb42465b",
        "had to be 335544320",
    ),
    Lie(
        "memory of a container",
        A,
        (
            Edit(
                A_CGROUPS,
                "memory/kubepods/pod8c184fbe-2748-4331-96ce-34ad3243feca/772820fbe916d62392fae3c387197143ce3860895f80e44f315a1b7d03df0d40/memory.limit",
                "134217728",
                "134213632",
            ),
        ),
        CGROUP,
        "cgroup/kubepods/pod8c184fbe-2748-4331-96ce-34ad3243feca/772820fbe916d62392fae3c387197143ce3860895f80e44f315a1b7d03df0d40",
        "had to be 134217728",
    ),
    Lie(
        "shares of a container",
        B,
        (
            Edit(
                B_CGROUPS,
                "kubepods/pode8fdb028d2f63af9e999e24872eb75fc/50e4218f39893076f9efd3383ae100cb8d32266854eb5b14fdb2fd2b80f846d7/cpu.shares",
                "shares 204",
                "shares 205",
            ),
        ),
        CGROUP,
        "cgroup/kubepods/pode8fdb028d2f63af9e999e24872eb75fc/50e4218f39893076f9efd3383ae100cb8d32266854eb5b14fdb2fd2b80f846d7",
        "had to be 204",
    ),
    Lie(
        "limit in a list",
        A,
        (Edit(A_PODS, 1, '"cpu":"300m"', '"cpu":"310m"'),),
        CONTRADICTED,
        "pod/default/burstable-1",
        "310m",
    ),
    Lie(
        "reason of a victim's status",
        A,
        (
            Edit(
                LOG,
                'adding pod: "2a34e2e8-d706-4c52-992d-899f30cb8f48", with status: (3, {Failed [] P',
                "Preempting",
                "Evicted",
            ),
        ),
        CONTRADICTED,
        "pod/default/filler-c",
        "critical pod Evicted",
    ),
    Lie(
        "pod of a victim's event",
        A,
        (
            Edit(
                LOG,
                'object="default/gpu-a" kind="Pod" apiVersion="v1" type="Warning" reason="Pre',
                "gpu-a",
                "gpu-b",
            ),
        ),
        CONTRADICTED,
        "pod/default/gpu-a",
        'object="default/gpu-b"',
    ),
    Lie(
        "pod of a victim's event",
        B,
        (Edit(LOG, 'type="Warning" reason="Preempting"', "filler-a-node-b", "filler-c-node-b"),),
        CONTRADICTED,
        "pod/default/filler-a-node-b",
        'object="default/filler-c-node-b"',
    ),
    Lie(
        "count in the rejection of a pod",
        A,
        (
            Edit(
                LOG,
                'adding pod: "0c8b8f31-f9c9-4d7f-88d1-8a748a34c6fe", with status: (1, {Failed',
                "Available: 1",
                "Available: 0",
            ),
        ),
        NOT_GRANTED,
        "container/default/gpu-c/train",
        "Available: 0",
        disputed=True,
    ),
)
"""The long tail."""
