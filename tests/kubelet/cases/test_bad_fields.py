"""What no kubelet can meet is refused, with the path of the field, in every subsystem alike."""

import copy
import json
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import fields

from kubeledger.cli.main import cli
from kubeledger.kubelet.cases.devices import _order_after, _ordered
from kubeledger.kubelet.cases.hints import Hint
from kubeledger.kubelet.cases.registry import (
    SUBSYSTEMS,
    decider_of,
    field_at_fault,
    judge_of,
    subsystem_of,
)
from kubeledger.model.errors import BadInputError
from tests.kubelet.cases.lines import Lines

VERSION = "1.36.2"
START = "2026-01-05T08:00:00Z"
PULL_SECRET = "kubernetes.io/dockercfg"
INT64 = 2**63
INT32 = 2**31


def pod(**resources: Any) -> dict[str, Any]:  # noqa: ANN401  # any JSON value
    probe = {"exec": {"command": ["true"]}, "failureThreshold": 3, "periodSeconds": 10}
    container = {"name": "c", "image": "i", "resources": resources, "livenessProbe": probe}
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u-1"},
        "spec": {"containers": [container], "priority": 0},
    }


def devices(**more: Any) -> dict[str, Any]:  # noqa: ANN401  # any JSON value
    listed = [{"ID": f"d{n}", "health": "Healthy", "numaNodes": [n]} for n in (0, 1)]
    return {
        "numaNodes": [0, 1],
        "resources": {"a.b/c": {"devices": listed}},
        "allocated": [
            {
                "podUID": "u-0",
                "containerName": "c",
                "resourceName": "a.b/c",
                "deviceIDs": {"1": ["d1"]},
            }
        ],
        "steps": [{"pod": pod(limits={"a.b/c": "1"}), "container": "c", "affinity": [0]}],
    } | more


STATUS = {
    "phase": "Running",
    "containerStatuses": [{"name": "c", "containerID": "containerd://1", "started": True,
                           "state": {"running": {"startedAt": START},
                                     "terminated": {"exitCode": 1, "startedAt": START,
                                                    "finishedAt": START}}}],
}  # fmt: skip
LISTED = {
    "id": "containerd://1",
    "name": "c",
    "state": "exited",
    "exitCode": 1,
    "createdAt": START,
    "startedAt": START,
    "finishedAt": START,
    "restartCount": 0,
}
AMOUNTS = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "1Ti", "pods": "10"}

SOUND: dict[str, Any] = {
    "admission": {"node": {"metadata": {"name": "n"},
                           "status": {"allocatable": dict(AMOUNTS), "capacity": dict(AMOUNTS)}},
                  "pod": pod(requests={"cpu": "1"}), "activePods": []},
    "backoff": {"pod": pod(), "container": "c", "initial": "10s", "max": "5m0s",
                "steps": [{"at": START, "gc": False, "containers": [dict(LISTED)]}]},
    "cgroup": {"pod": pod(limits={"memory": "1Gi"}), "cpuCFSQuota": True,
               "cpuCFSQuotaPeriodUs": 100_000, "memoryCapacity": 2**33},
    "cgroupv2": {"pod": pod(requests={"memory": "1Gi"}), "memoryCapacity": 2**33,
                 "swapCapacity": 2**30, "nodeAllocatableMemory": "7Gi", "memoryQoS": True,
                 "memoryThrottlingFactor": 0.9, "swapBehavior": "LimitedSwap"},
    "cpumanager": {"topology": {"numSockets": 1,
                                "nodes": [{"id": 0, "cores": [[0, 0, [0, 1]], [1, 0, [2]]]}]},
                   "reservedCPU": "1", "reservedSystemCPUs": "0", "options": {},
                   "topologyPolicy": "none", "pods": {"u-1": pod(requests={"cpu": "1"})},
                   "activePods": ["u-1"], "sourcesReady": True, "initialContainers": [],
                   "steps": [{"op": "allocate", "pod": "u-1", "container": "c", "affinity": [0],
                              "preferred": True}, {"op": "hints", "pod": "u-1", "container": "c"},
                             {"op": "restart"}]},
    "devices": devices(),
    "dra": {
        "drivers": ["gpu.example.com"],
        "steps": [
            {
                "op": "prepare",
                "pod": {
                    "metadata": {"name": "p", "namespace": "ns", "uid": "u-1"},
                    "spec": {
                        "containers": [{"name": "c", "resources": {"claims": [{"name": "gpu"}]}}],
                        "resourceClaims": [{"name": "gpu", "resourceClaimName": "c1"}],
                    },
                },
                "claims": [
                    {
                        "metadata": {"name": "c1", "namespace": "ns", "uid": "cu1"},
                        "status": {
                            "allocation": {"devices": {"results": [{"driver": "gpu.example.com"}]}},
                            "reservedFor": [{"uid": "u-1"}],
                        },
                    }
                ],
                "answers": {
                    "gpu.example.com": {
                        "claims": {"cu1": {"devices": [{"poolName": "n", "deviceName": "d"}]}}
                    }
                },
            },
            {"op": "deregister", "driver": "gpu.example.com"},
            {"op": "reconcile", "activePods": []},
        ],
    },
    "eviction": {"config": {"evictionHard": {"memory.available": "1Gi"},
                            "enforceNodeAllocatable": ["pods"], "pressureTransitionPeriod": "5m0s",
                            "maxPodGracePeriodSeconds": 5, "dedicatedImageFs": False,
                            "splitContainerFs": False, "localStorageCapacityIsolation": True},
                 "pods": [pod(requests={"memory": "1Gi"})],
                 "steps": [{"at": START,
                            "summary": {"node": {"memory": {"time": START, "availableBytes": 1,
                                                            "workingSetBytes": 2},
                                                 "fs": {"availableBytes": 1, "capacityBytes": 2},
                                                 "rlimit": {"maxpid": 10, "curproc": 1}},
                                        "pods": [{"podRef": {"uid": "u-1"},
                                                  "memory": {"workingSetBytes": 1},
                                                  "process_stats": {"process_count": 1},
                                                  "volume": [{"name": "v", "usedBytes": 1}]}]}}]},
    "imagegc": {"policy": {"imageGCHighThresholdPercent": 85, "imageGCLowThresholdPercent": 80,
                           "imageMinimumGCAge": "2m0s", "imageMaximumGCAge": "1h"},
                "kubeletStartedAt": START,
                "steps": [{"at": START, "op": "detect", "images": [{"id": "a", "size": 1}],
                           "imagesInUse": [],
                           "imageFs": {"capacityBytes": 10, "availableBytes": 5}}]},
    "imagepull": {"ensureSecretPulledImages": True,
                  "imagePullCredentialsVerificationPolicy": "AlwaysVerify", "maxPods": 110,
                  "serializeImagePulls": True, "maxParallelImagePulls": None, "registryPullQPS": 5,
                  "registryBurst": 10, "backOffInitial": "10s", "backOffMax": "5m0s",
                  "kubeletStartedAt": START, "images": [{"id": "a", "repoTags": ["i"]}],
                  "pullIntents": [{"image": "i", "apiVersion": "kubelet.config.k8s.io/v1beta1"}],
                  "steps": [{"at": START, "op": "ensure",
                             "calls": [{"podUID": "u-1", "image": "i", "imagePullPolicy": "Always",
                                        "credentials": [{"username": "u", "secret": {"uid": "s"}}],
                                        "pullSecrets": [{"metadata": {"name": "s"},
                                                         "type": PULL_SECRET}],
                                        "answers": [{"imageRef": "a", "size": 1,
                                                     "duration": "1s"}]}]},
                            {"at": START, "op": "prune", "until": START}]},
    "memorymanager": {"nodes": [{"id": 0, "memory": 2**33, "hugepages": [[2048, 4]]}],
                      "nodeAllocatableReservation": {"memory": "1Gi"},
                      "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
                      "pods": {"u-1": pod(requests={"cpu": "1", "memory": "1Gi"})},
                      "activePods": ["u-1"],
                      "steps": [{"op": "allocate", "pod": "u-1", "container": "c",
                                 "affinity": [0]}]},
    "nodeallocatable": {"capacity": {"cpu": "4", "memory": "8Gi"},
                        "systemReserved": {"cpu": "100m", "pid": "1000"},
                        "kubeReserved": {"memory": "1Gi", "ephemeral-storage": "1Gi"},
                        "evictionHard": {"memory.available": "100Mi", "nodefs.inodesFree": "5%"}},
    "podactions": {"pod": pod(requests={"cpu": "1"}),
                   "sandboxes": [{"id": "s", "state": "ready", "attempt": 0, "ip": "10.0.0.7",
                                  "hostNetwork": False}], "containers": [dict(LISTED)],
                   "liveness": {"containerd://1": "Success"}, "startup": {},
                   "actuated": {"c": {"requests": {"cpu": "1"}}}, "restartAllContainers": False},
    "podstatus": {"pod": pod(), "podStatus": STATUS,
                  "workers": [{"container": "c", "probeType": "liveness"}],
                  "results": [{"probeType": "liveness", "containerID": "containerd://1",
                               "result": "Success"}], "kubeletStartedAt": START},
    "prober": {"pod": pod(), "container": "c", "probeType": "liveness", "kubeletStartedAt": START,
               "ticks": [{"at": START, "podStatus": None, "attempts": []},
                         {"at": START, "podStatus": STATUS, "attempts": ["success"]}]},
    "qos": {"allocatable": {"cpu": "4", "memory": "8Gi"}, "qosReservedPercent": {"memory": 50},
            "activePods": [pod(requests={"cpu": "1"})]},
    "resize": {"nodeAllocatable": dict(AMOUNTS), "nodeAllocatableAbsolute": dict(AMOUNTS),
               "cpuManagerPolicy": "none", "memoryManagerPolicy": "None",
               "swapBehavior": {"c": "LimitedSwap"}, "kubeletStartedAt": START,
               "steps": [{"at": START, "op": "add", "pods": [pod(requests={"cpu": "1"})]},
                         {"at": START, "op": "update", "pods": [pod(requests={"cpu": "2"})]},
                         {"at": START, "op": "remove", "uids": ["u-1"], "sourcesReady": False}]},
    "topology": {"numSockets": 1,
                 "nodes": [{"id": 0, "cores": [[0, 0, [0, 1]], [1, 0, [2, 3]]], "memory": 2**33}],
                 "reservedCPU": "1", "nodeAllocatableReservation": {"memory": "1Gi"},
                 "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
                 "policy": "restricted", "scope": "container",
                 "pods": {"u-1": pod(requests={"cpu": "1", "memory": "1Gi"})},
                 "otherHints": {"u-1": {"c": {"a.b/c": [{"numaNodes": [0], "preferred": True}]}}},
                 "steps": [{"op": "admit", "pod": "u-1"}]},
    "topologyhints": devices(scope="container"),
    "topologymerge": {"policy": "restricted", "numaNodes": [0, 1],
                      "providersHints": [{"a.b/c": [{"numaNodes": [0], "preferred": True}]}],
                      "preferClosestNUMANodes": True,
                      "numaDistances": {"0": [10, 20], "1": [20, 10]}},
}  # fmt: skip

Where = tuple[str | int, ...]
STATE: Where = ("containerStatuses", 0, "state")

REFUSED: list[tuple[str, Where, Any, str]] = [
    # Amounts of nodes and settings.
    ("admission", ("node", "status", "allocatable", "cpu"), "-1", "node.status.allocatable.cpu"),
    ("admission", ("node", "status", "capacity", "a.b/c"), "x", 'node.status.capacity["a.b/c"]'),
    ("nodeallocatable", ("capacity", "memory"), "-1Gi", "capacity.memory"),
    ("nodeallocatable", ("systemReserved", "cpu"), -1, "systemReserved.cpu"),
    ("nodeallocatable", ("kubeReserved", "ephemeral-storage"), "x", "kubeReserved["),
    ("nodeallocatable", ("kubeReserved", "memroy"), "1Gi", "kubeReserved.memroy"),
    ("nodeallocatable", ("systemReserved", "pods"), "1", "systemReserved.pods"),
    ("nodeallocatable", ("evictionHard", "disk.free"), "1", 'evictionHard["disk.free"]'),
    *(("nodeallocatable", ("evictionHard", "nodefs.available"), text, "evictionHard[")
      for text in ("1__0%", " 5%", "-1%", "101%", "some%", "x", "0")),
    ("nodeallocatable", ("evictionHard", "imagefs.available"), "-5", "evictionHard["),
    ("cgroupv2", ("nodeAllocatableMemory",), "-1", "nodeAllocatableMemory"),
    ("qos", ("allocatable", "cpu"), "-1", "allocatable.cpu"),
    ("qos", ("qosReservedPercent", "cpu"), 5, "qosReservedPercent.cpu"),
    ("qos", ("allocatable", "memory"), "8GB", "allocatable.memory"),
    ("qos", ("qosReservedPercent", "memory"), 101, "qosReservedPercent.memory"),
    ("qos", ("qosReservedPercent", "memory"), -1, "qosReservedPercent.memory"),
    # Numbers that the kubelet's own fields cannot hold.
    ("cgroup", ("memoryCapacity",), INT64, "memoryCapacity"),
    ("cgroup", ("memoryCapacity",), 0, "memoryCapacity"),
    ("cgroup", ("cpuCFSQuotaPeriodUs",), 1_000_001, "cpuCFSQuotaPeriodUs"),
    ("cgroup", ("cpuCFSQuotaPeriodUs",), -5, "cpuCFSQuotaPeriodUs"),
    ("cgroup", ("pod", "metadata", "uid"), "a_b", "pod.metadata.uid"),
    ("cgroup", ("pod", "spec", "priority"), INT32, "pod.spec.priority"),
    ("cgroupv2", ("memoryCapacity",), INT64, "memoryCapacity"),
    ("cgroupv2", ("swapCapacity",), -1, "swapCapacity"),
    ("cgroupv2", ("swapCapacity",), INT64, "swapCapacity"),
    ("cgroupv2", ("memoryThrottlingFactor",), 0, "memoryThrottlingFactor"),
    ("cgroupv2", ("memoryThrottlingFactor",), 1.5, "memoryThrottlingFactor"),
    ("cgroupv2", ("swapBehavior",), "Some", "swapBehavior"),
    ("imagegc", ("policy", "imageGCHighThresholdPercent"), INT32, "policy.imageGCHighThreshold"),
    ("imagegc", ("policy", "imageGCLowThresholdPercent"), -INT32 - 1, "policy.imageGCLow"),
    ("imagegc", ("steps", 0, "images", 0, "size"), INT64, "steps[0].images[0].size"),
    ("imagegc", ("steps", 0, "images", 0, "size"), -1, "steps[0].images[0].size"),
    ("imagegc", ("steps", 0, "imageFs", "capacityBytes"), 1.5, "steps[0].imageFs.capacityBytes"),
    ("imagegc", ("steps", 0, "imageFs"), {"capacityBytes": 1}, "steps[0].imageFs"),
    ("imagegc", ("steps", 0, "op"), "remove", "steps[0].op"),
    ("imagegc", ("steps", 0, "extra"), 1, "steps[0]"),
    ("imagegc", ("policy",), {"imageGCHighThresholdPercent": 85}, "policy"),
    ("imagegc", ("steps", 0, "imageFs", "availableBytes"), 2**64, "steps[0].imageFs.available"),
    ("prober", ("pod", "spec", "containers", 0, "livenessProbe", "failureThreshold"), INT32,
     "pod.spec.containers[0].livenessProbe.failureThreshold"),
    ("prober", ("ticks", 1, "podStatus", *STATE, "terminated", "exitCode"), INT32,
     "ticks[1].podStatus.containerStatuses[0].state.terminated.exitCode"),
    ("topologymerge", ("numaDistances", "1", 0), INT64, 'numaDistances["1"][0]'),
    ("eviction", ("config", "maxPodGracePeriodSeconds"), INT32, "config.maxPodGracePeriodSeconds"),
    ("eviction", ("steps", 0, "summary", "node", "memory", "availableBytes"), -1,
     "steps[0].summary.node.memory.availableBytes"),
    ("eviction", ("steps", 0, "summary", "node", "memory", "workingSetBytes"), 2**64,
     "steps[0].summary.node.memory.workingSetBytes"),
    ("eviction", ("steps", 0, "summary", "pods", 0, "process_stats", "process_count"), 2**64,
     "steps[0].summary.pods[0].process_stats.process_count"),
    ("eviction", ("steps", 0, "summary", "node", "rlimit", "maxpid"), INT64,
     "steps[0].summary.node.rlimit.maxpid"),
    ("eviction", ("pods", 0, "spec", "containers", 0, "resources", "requests", "memory"), "-1",
     "pods[0].spec.containers[0].resources.requests.memory"),
    ("eviction", ("pods", 0, "spec", "volumes"), [{"name": "v", "emptyDir": {"sizeLimit": "x"}}],
     "pods[0].spec.volumes[0].emptyDir.sizeLimit"),
    ("eviction", ("config", "evictionHard"), {"memory.available": 1},
     'config.evictionHard["memory.available"]'),
    ("eviction", ("config", "pressureTransitionPeriod"), "5",
     "config.pressureTransitionPeriod"),
    ("eviction", ("steps", 0, "at"), "2026-01-05 08:00:00Z", "steps[0].at"),
    ("eviction", ("steps", 0, "summary", "node", "memory", "time"), "noon",
     "steps[0].summary.node.memory.time"),
    ("podactions", ("sandboxes", 0, "attempt"), 2**32, "sandboxes[0].attempt"),
    ("podactions", ("containers", 0, "exitCode"), INT32, "containers[0].exitCode"),
    # States and results that there are none of.
    ("podactions", ("sandboxes", 0, "state"), "gone", "sandboxes[0].state"),
    ("podactions", ("containers", 0, "state"), "paused", "containers[0].state"),
    ("podactions", ("liveness", "containerd://1"), "success", 'liveness["containerd://1"]'),
    # Amounts of pods.
    ("podactions", ("pod", "spec", "containers", 0, "resources", "requests", "cpu"), "x",
     "pod.spec.containers[0].resources.requests.cpu"),
    ("podactions", ("actuated", "c", "requests", "cpu"), "-1", "actuated.c.requests.cpu"),
    ("dra", ("steps", 0, "pod"), None, "steps[0]"),
    ("dra", ("steps", 1, "driver"), None, "steps[1]"),
    ("dra", ("steps", 1, "op"), "leave", "steps[1].op"),
    ("dra", ("steps", 0, "answers", "gpu.example.com", "claims", "cu1", "devices", 0, "pool"), "n",
     'steps[0].answers["gpu.example.com"].claims.cu1.devices[0]'),
    ("resize", ("nodeAllocatable", "memory"), "-1Gi", "nodeAllocatable.memory"),
    ("resize", ("nodeAllocatableAbsolute", "cpu"), "x", "nodeAllocatableAbsolute.cpu"),
    ("resize", ("steps", 1, "pods", 0, "spec", "containers", 0, "resources", "requests", "cpu"),
     "-1", "steps[1].pods[0].spec.containers[0].resources.requests.cpu"),
    # Times and durations, also where nothing depends on them.
    ("resize", ("kubeletStartedAt",), "x", "kubeletStartedAt"),
    ("resize", ("steps", 2, "at"), "noon", "steps[2].at"),
    ("resize", ("steps", 2, "op"), "delete", "steps[2].op"),
    ("backoff", ("initial",), "-1s", "initial"),
    ("backoff", ("max",), "5 minutes", "max"),
    ("backoff", ("max",), "2000000h", "max"),
    ("backoff", ("container",), "x", "container"),
    ("backoff", ("steps", 0, "at"), "noon", "steps[0].at"),
    ("backoff", ("steps", 0, "containers", 0, "finishedAt"), "x",
     "steps[0].containers[0].finishedAt"),
    ("podactions", ("containers", 0, "createdAt"), "x", "containers[0].createdAt"),
    ("podactions", ("pod", "metadata", "deletionTimestamp"), "x",
     "pod.metadata.deletionTimestamp"),
    ("imagegc", ("policy", "imageMinimumGCAge"), "9" * 5000 + "s", "policy.imageMinimumGCAge"),
    ("imagegc", ("policy", "imageMinimumGCAge"), "９s", "policy.imageMinimumGCAge"),
    ("imagegc", ("policy", "imageMinimumGCAge"), "2 minutes", "policy.imageMinimumGCAge"),
    ("imagegc", ("policy", "imageMaximumGCAge"), "3000000h", "policy.imageMaximumGCAge"),
    ("imagegc", ("kubeletStartedAt",), None, "kubeletStartedAt"),
    ("imagegc", ("steps", 0, "at"), "2026-01-05 08:00:00Z", "steps[0].at"),
    ("imagegc", ("steps", 0, "at"), "9999-12-31T23:59:59-12:00", "steps[0].at"),
    ("imagegc", ("kubeletStartedAt",), "noon", "kubeletStartedAt"),
    ("imagepull", ("backOffInitial",), "soon", "backOffInitial"),
    ("imagepull", ("backOffMax",), "-1s", "backOffMax"),
    ("imagepull", ("backOffMax",), "2000000h", "backOffMax"),
    ("imagepull", ("kubeletStartedAt",), "noon", "kubeletStartedAt"),
    ("imagepull", ("registryBurst",), INT64, "registryBurst"),
    ("imagepull", ("maxParallelImagePulls",), INT32, "maxParallelImagePulls"),
    ("imagepull", ("registryPullQPS",), "5", "registryPullQPS"),
    ("imagepull", ("steps", 0, "at"), "noon", "steps[0].at"),
    ("imagepull", ("steps", 0, "op"), "pull", "steps[0].op"),
    ("imagepull", ("steps", 1, "until"), None, "steps[1].until"),
    ("imagepull", ("steps", 0, "calls", 0, "answers", 0, "duration"), "1", "steps[0].calls"),
    ("imagepull", ("steps", 0, "calls", 0, "answers", 0, "size"), -1,
     "steps[0].calls[0].answers[0].size"),
    ("imagepull", ("steps", 0, "calls", 0, "pullSecrets", 0, "data"), {".dockercfg": "{}"},
     "steps[0].calls"),
    ("imagepull", ("steps", 0, "calls", 0, "credentials", 0, "user"), "u",
     "steps[0].calls[0].credentials[0]"),
    ("imagepull", ("pullIntents", 0, "kind"), "x", "pullIntents[0]"),
    ("prober", ("pod", "metadata", "deletionTimestamp"), "x", "pod.metadata.deletionTimestamp"),
    ("prober", ("pod", "metadata", "creationTimestamp"), START[:-1],
     "pod.metadata.creationTimestamp"),
    ("prober", ("ticks", 1, "at"), "2026-13-05T08:00:00Z", "ticks[1].at"),
    ("prober", ("ticks", 1, "podStatus", *STATE, "terminated", "finishedAt"), "2026-01-05",
     "ticks[1].podStatus.containerStatuses[0].state.terminated.finishedAt"),
    ("prober", ("ticks", 1, "attempts"), [], "ticks[1].attempts"),
    ("prober", ("ticks", 1, "attempts"), ["error", "error"], "ticks[1].attempts"),
    ("prober", ("ticks", 1), {"at": START, "podStatus": None}, "ticks[1]"),
    ("prober", ("kubeletStartedAt",), "yesterday", "kubeletStartedAt"),
    ("prober", ("pod", "spec", "containers", 0, "livenessProbe", "failureThreshold"), -1,
     "pod.spec.containers[0].livenessProbe.failureThreshold"),
    ("prober", ("probeType",), "alive", "probeType"),
    ("prober", ("container",), "other", "container"),
    ("prober", ("probeType",), "startup", "probeType"),
    ("podstatus", ("podStatus", *STATE, "running", "startedAt"), "２026-01-05T08:00:00Z",
     "podStatus.containerStatuses[0].state.running.startedAt"),
    ("podstatus", ("kubeletStartedAt",), "2026-01-05T08:00:00+24:00", "kubeletStartedAt"),
    # The CPU manager's machines, sets, pods and steps.
    *(("cpumanager", where, value, path) for where, value, path in (
        (("topology", "nodes", 0, "id"), 64, "topology.nodes[0]"),
        (("topology", "nodes", 0, "cores", 0, 2), ["a"], "topology.nodes[0].cores[0][2][0]"),
        (("topology", "nodes", 0, "memory"), 1, "topology.nodes[0]"),
        (("topology", "nodes"), [{"id": n, "cores": []} for n in range(17)], "topology.nodes"),
        (("reservedCPU",), "1x", "reservedCPU"),
        (("reservedSystemCPUs",), "3-1", "reservedSystemCPUs"),
        (("pods", "u-1", "metadata", "uid"), "u-2", 'pods["u-1"].metadata.uid'),
        (("pods", "u-1", "spec", "containers", 0, "resources", "requests", "cpu"), "-1",
         'pods["u-1"].spec.containers[0].resources.requests.cpu'),
        (("activePods",), ["u-2"], "activePods"),
        (("steps", 0, "pod"), "u-2", "steps[0].pod"),
        (("steps", 1, "container"), "d", "steps[1].container"),
        (("steps", 0, "affinity"), [64], "steps[0].affinity[0]"),
        (("steps", 0, "op"), "grant", "steps[0].op"),
        (("steps", 1, "activePods"), ["u-2"], "steps[1].activePods"),
        (("steps", 2, "topology"), {"numSockets": 1, "nodes": [{"id": -1, "cores": []}]},
         "steps[2].topology.nodes[0]"),
        (("steps", 2, "reservedSystemCPUs"), "x", "steps[2].reservedSystemCPUs"),
        (("steps", 2, "reservedCPU"), "x", "steps[2].reservedCPU"),
    )),
    # NUMA nodes and devices.
    *((subsystem, where, value, path) for subsystem in ("devices", "topologyhints")
      for where, value, path in (
        (("numaNodes",), [0, 64], "numaNodes[1]"),
        (("numaNodes",), [0, 1, 0], "numaNodes[2]"),
        (("resources", "a.b/c", "devices", 1, "numaNodes"), [64],
         'resources["a.b/c"].devices[1].numaNodes[0]'),
        (("resources", "a.b/c", "devices", 1, "numaNodes"), [1, 1],
         'resources["a.b/c"].devices[1].numaNodes[1]'),
        (("resources", "a.b/c", "devices", 1, "numaNodes"), ["1"],
         'resources["a.b/c"].devices[1].numaNodes[0]'),
        (("resources", "a.b/c", "devices", 1, "health"), "healthy",
         'resources["a.b/c"].devices[1].health'),
        (("resources", "a.b/c", "devices", 1, "ID"), "d0", 'resources["a.b/c"].devices[1].ID'),
        (("allocated", 0, "deviceIDs"), {"64": []}, "allocated[0].deviceIDs"),
        (("steps", 0, "affinity"), [64], "steps[0].affinity[0]"),
        (("steps", 0, "container"), "x", "steps[0].container"),
        (("steps", 0, "pod", "spec", "containers", 0, "resources", "limits", "a.b/c"), "-1",
         'steps[0].pod.spec.containers[0].resources.limits["a.b/c"]'),
        (("steps", 0, "pod", "spec", "containers", 0, "resources", "requests"), {"cpu": "x"},
         "steps[0].pod.spec.containers[0].resources.requests.cpu"),
      )),
    ("memorymanager", ("nodes", 0, "memory"), 2**64, "nodes[0].memory"),
    ("memorymanager", ("nodes", 0, "hugepages", 0, 1), 2**64, "nodes[0].hugepages[0]"),
    ("memorymanager", ("nodes", 0, "id"), 64, "nodes[0]"),
    ("memorymanager", ("nodes",), [{"id": n, "memory": 1} for n in range(17)], "nodes"),
    ("memorymanager", ("reservedMemory", 0, "limits", "memory"), "x",
     "reservedMemory[0].limits.memory"),
    ("memorymanager", ("nodeAllocatableReservation", "memory"), "-1",
     "nodeAllocatableReservation.memory"),
    ("memorymanager", ("activePods",), ["u-2"], "activePods"),
    ("memorymanager", ("steps", 0, "affinity"), [64], "steps[0].affinity[0]"),
    ("memorymanager", ("steps", 0, "container"), "x", "steps[0].container"),
    ("memorymanager", ("steps", 0, "pod"), "u-2", "steps[0].pod"),
    ("memorymanager", ("steps", 0, "op"), "free", "steps[0].op"),
    ("topology", ("nodes",), [{"id": n, "cores": [], "memory": 1} for n in range(17)], "nodes"),
    ("topology", ("nodes", 0, "memory"), 2**64, "nodes[0].memory"),
    ("topology", ("reservedCPU",), "-1", "reservedCPU"),
    ("topology", ("reservedSystemCPUs",), "3-1", "reservedSystemCPUs"),
    ("topology", ("reservedMemory", 0, "limits", "memory"), "x", "reservedMemory[0].limits.memory"),
    ("topology", ("otherHints", "u-1", "c", "a.b/c", 0, "numaNodes"), [64],
     'otherHints["u-1"].c["a.b/c"][0].numaNodes[0]'),
    ("topology", ("steps", 0, "pod"), "u-2", "steps[0].pod"),
    ("topology", ("steps", 0, "op"), "evict", "steps[0].op"),
    ("topologyhints", ("numaNodes",), list(range(21)), "numaNodes"),
    ("topologyhints", ("steps",), [], "steps"),
    ("topologyhints", ("scope",), "node", "scope"),
    ("topologymerge", ("numaNodes",), [1, 1], "numaNodes[1]"),
    ("topologymerge", ("numaNodes",), [-1], "numaNodes[0]"),
    ("topologymerge", ("numaDistances",), None, "numaDistances"),
    ("topologymerge", ("providersHints", 0, "a.b/c", 0, "numaNodes"), [0, 64],
     'providersHints[0]["a.b/c"][0].numaNodes[1]'),
    ("topologymerge", ("providersHints", 0, "a.b/c", 0, "preferred"), 1,
     'providersHints[0]["a.b/c"][0].preferred'),
    ("topologymerge", ("numaDistances", "1"), [10], "numaDistances[1]"),
    ("topologymerge", ("policy",), "best", "policy"),
]  # fmt: skip


def line_of(case_input: object, kubelet: str = VERSION, **more: object) -> bytes:
    return json.dumps({"id": "x", "kubelet": kubelet, "input": case_input} | more).encode()


def changed(subsystem: str, where: Where, value: object) -> Any:  # noqa: ANN401  # any JSON value
    """A sound input with one field changed."""
    case_input = copy.deepcopy(SOUND[subsystem])
    node: Any = case_input
    for step in where[:-1]:
        node = node[step]
    node[where[-1]] = value
    return case_input


def refusal(subsystem: str, line: bytes) -> str:
    """The message with which both commands refuse a line."""
    with pytest.raises(BadInputError) as caught:
        decider_of(subsystem)(line)
    with pytest.raises(BadInputError) as judged:
        judge_of(subsystem)(line.replace(b'{"id"', b'{"outcome": {}, "id"', 1))
    assert judged.value.message == caught.value.message
    return caught.value.message


@pytest.mark.parametrize("subsystem", SUBSYSTEMS)
def test_what_the_refusals_start_from_is_sound(subsystem: str) -> None:
    """Else a refusal below would say nothing."""
    decider_of(subsystem)(line_of(SOUND[subsystem]))


@pytest.mark.parametrize(("subsystem", "where", "value", "path"), REFUSED)
def test_a_bad_field_is_refused_by_its_path(
    subsystem: str, where: Where, value: object, path: str
) -> None:
    """The path begins the message, in one style; the message stays short."""
    message = refusal(subsystem, line_of(changed(subsystem, where, value)))
    assert message.startswith(f"input.{path}")
    assert len(message) < 500


@pytest.mark.parametrize("subsystem", SUBSYSTEMS)
def test_a_missing_part_is_named(subsystem: str) -> None:
    needed = [each for each in fields(subsystem_of(subsystem).input) if each.required]
    for name in (each.encode_name for each in needed):
        fewer = {key: value for key, value in SOUND[subsystem].items() if key != name}
        assert f"`{name}`" in refusal(subsystem, line_of(fewer))


@pytest.mark.parametrize("subsystem", SUBSYSTEMS)
def test_a_claim_of_another_shape_is_impossible(subsystem: str) -> None:
    """Whatever JSON there is instead of an outcome, or of any value in one."""
    lines = Lines(subsystem)
    outcome = lines.decided(VERSION, SOUND[subsystem])
    for wrong in (None, [], {}, True, outcome | {"more": 1}, *misshapen(outcome)):
        verdict, why = lines.judged(VERSION, SOUND[subsystem], wrong)
        assert (verdict, bool(why)) == ("impossible", True), wrong


def misshapen(node: Any) -> Iterator[object]:  # noqa: ANN401  # any JSON value
    """An outcome with one value in it replaced by an object, or one key left out."""
    yield {"odd": [1]}
    items = list(node.items()) if isinstance(node, dict) else []
    for key, value in items:
        yield {k: v for k, v in items if k != key}
        yield from (dict(items) | {key: wrong} for wrong in misshapen(value))
    for at, value in enumerate(node if isinstance(node, list) else []):
        yield from ([*node[:at], wrong, *node[at + 1 :]] for wrong in misshapen(value))


@pytest.mark.parametrize(
    "version",
    ["1." + "9" * 5000, "1.36." + "9" * 5000, " 1.36.2", "1.36.2\n", "1.3６.0", "1.38", ""],
)
def test_what_is_no_version(version: str) -> None:
    """Refused with the known range, however long."""
    with pytest.raises(BadInputError) as caught:
        decider_of("admission")(line_of(SOUND["admission"], version))
    assert "1.19 to 1.37" in caught.value.advice


def test_what_an_invalid_policy_leaves_unused_is_checked() -> None:
    """The policy's error is a decision; a step that cannot be is none."""
    case_input = changed("imagegc", ("policy", "imageGCHighThresholdPercent"), 101)
    outcome = json.loads(decider_of("imagegc")(line_of(case_input)))["outcome"]
    assert outcome["invalidPolicy"] == (
        "invalid HighThresholdPercent 101, must be in range [0-100]"
    )
    case_input["steps"][0]["at"] = "noon"
    assert refusal("imagegc", line_of(case_input)).startswith("input.steps[0].at")


def test_eviction_signals_of_a_version() -> None:
    """A disk of its own for containers is known from 1.29 on."""
    case_input = changed("nodeallocatable", ("evictionHard", "containerfs.available"), "5%")
    line = line_of(case_input)
    decider_of("nodeallocatable")(line)
    old = line.replace(VERSION.encode(), b"1.28.0")
    assert 'evictionHard["containerfs.available"]' in refusal("nodeallocatable", old)


def test_a_key_is_named_among_many() -> None:
    """The decoder says only that one of the values is wrong."""
    amounts: dict[str, object] = {f"r{n}": "1" for n in range(100)} | {"r57": True}
    case_input = SOUND["qos"] | {"allocatable": amounts}
    assert refusal("qos", line_of(case_input)).startswith("input.allocatable.r57: expected")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"id":"\xff"}', "not UTF-8"),
        (b'{"id":"x","kubelet":"1.36.2","x":NaN}', "malformed"),
        (b'{"id":"x","kubelet":"1.36.2","input":-Infinity}', "malformed"),
        (b'{"id":"x","kubelet":"1.36.2","x":' + b"[" * 100_000, "nested too deeply"),
        (b'{"id":"x","kubelet":"1.36.2","input":{"x":1}}', "unknown field `x`"),
        (b"null", "`object`"),
        (b'{"id":"x","kubelet":"1.36.2","input":nul', "truncated"),
    ],
)
def test_a_line_that_is_no_case(line: bytes, says: str) -> None:
    for subsystem in SUBSYSTEMS:
        with pytest.raises(BadInputError, match=says):
            decider_of(subsystem)(line)


@pytest.mark.parametrize("command", ["decide", "judge"])
def test_the_others_are_answered_all_the_same(command: str, tmp_path: Path) -> None:
    """With --keep-going; file, line and field are named, and the exit code is 3."""
    sound = line_of(SOUND["devices"], outcome={})
    bad = line_of(changed("devices", ("steps", 0, "affinity"), [64]), outcome={})
    path = tmp_path / "cases.jsonl"
    path.write_bytes(b"\n".join([sound, bad, b"", b"\xff", sound]) + b"\n")
    result = CliRunner().invoke(cli, [command, "devices", str(path), "--keep-going"])
    assert result.exit_code == 3
    assert len(result.stdout.splitlines()) == 2
    assert f"{path}:2: input.steps[0].affinity[0]: " in result.stderr
    assert f"{path}:4: the line is not UTF-8" in result.stderr


@pytest.mark.parametrize("swapped", [False, True])
def test_an_order_of_nodes_is_found_as_if_all_were_tried(swapped: bool) -> None:
    """Hints of 1.19 go with some order of the nodes, or with none."""
    nodes = range(4)
    masks = [[0], [1], [3], [0, 2], [1, 3], [2, 3], [0, 1, 3], [1, 2, 3]]
    hints: dict[str, list[Hint] | None] = {
        "r": [Hint(numa_nodes=tuple(mask), preferred=False) for mask in masks]
    }
    for order in permutations(nodes):
        reported = _ordered(hints, order)
        listed = reported["r"]
        assert listed is not None
        if swapped:
            listed[3], listed[4] = listed[4], listed[3]
        possible = any(_ordered(hints, other) == reported for other in permutations(nodes))
        found = _order_after(reported, nodes)
        assert (found is not None and _ordered(hints, found) == reported) == possible
        assert possible or swapped


@pytest.mark.parametrize(
    ("resources", "message", "path"),
    [
        (b'{"requests": {"a": "1", "cpu": null}}', "quantity null: x", ".requests.cpu"),
        (b'{"limits": {"a.b/c": -1}}', "quantity -1: x", '.limits["a.b/c"]'),
        (b'{"limits": {"cpu": 1e400}}', "no quantities", ".limits.cpu"),
        (b'{"limits": {"cpu": ' + b"9" * 5000 + b"}}", "no quantities", ".limits.cpu"),
        (b'{"limits": []}', "no quantities", ".limits"),
        (b"1e400", "no quantities", ""),
    ],
)
def test_an_amount_is_found_whatever_it_is(resources: bytes, message: str, path: str) -> None:
    """One that is quoted, else the first that cannot be one."""
    line = b'{"input": {"pod": {"spec": {"containers": [{"resources": ' + resources + b"}]}}}}"
    assert field_at_fault(line, message) == f"input.pod.spec.containers[0].resources{path}"


def test_what_is_too_deep_to_be_walked_has_no_path() -> None:
    deep = b'{"a":' * 900 + b"1" + b"}" * 900
    assert field_at_fault(b'{"input":' + deep + b"}", "no quantity") == ""
