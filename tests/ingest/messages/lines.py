"""Lines as kubelets write them, and what is read of each, by subsystem.

A new row of ``kubeledger/ingest/messages`` gets a line here: the line with its head, the message
that it is read as, values under that message's keys, and the kind of the record that this line
leads to with no other line around it (of two, both). None says that it leads to no record alone:
it adds to what other lines show. Most are from the recorded nodes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.ingest.messages.node_lines import NODE_STATE, RESIZES, rows


class Line(NamedTuple):
    """A line, the message that it is read as, what is read of it, and the record of it alone."""

    text: str
    to: str
    values: dict[str, Any]
    kind: str | None


LINES: dict[str, tuple[Line, ...]] = {
    "cgroups": (
        Line(
            "I1121 02:52:42.098684    8337 qos_container_manager_linux.go:310] "
            "[ContainerManager]: Updated QoS cgroup configuration",
            "Updated QoS cgroup configuration",
            {},
            "cgroups.QOSCgroupsUpdated",
        ),
        Line(
            "I1121 02:52:42.098566    8337 qos_container_manager_linux.go:232] [Container "
            "Manager] Burstable pod requests total 0 bytes (reserve 50%)",
            "QoS pod memory limit",
            {"qos": "Burstable", "limits": 0, "percentReserve": 50},
            "cgroups.QOSReserveComputed",
        ),
    ),
    "containers": (
        Line(
            'I1122 07:41:02.092502   24528 kuberuntime_manager.go:1071] "Stopping PodSandbox '
            'for pod, because all other containers are dead" pod="default/job-sidecar"',
            "Pod is stopped",
            {"pod": "default/job-sidecar", "because": "ended"},
            "lifecycle.PodTerminating",
        ),
        Line(
            "I1121 02:54:06.105295    8337 kuberuntime_manager.go:439] No sandbox for pod "
            '"gpu-a_default(36aa1f99-e71c-4fcf-b3f7-3254b6127099)" can be found. Need to '
            "start a new one",
            "No sandbox for pod can be found. Need to start a new one",
            {"pod": "gpu-a_default(36aa1f99-e71c-4fcf-b3f7-3254b6127099)"},
            None,
        ),
        Line(
            "I1121 02:58:40.198716    8337 kuberuntime_manager.go:763] Created PodSandbox "
            '"0d81ca08632679aa72481fdc6c461abf5f0d17e777544c0233e8bcd5a5607ca6" for pod '
            '"gpu-a_default(36aa1f99-e71c-4fcf-b3f7-3254b6127099)"',
            "Created PodSandbox for pod",
            {
                "podSandboxID": "0d81ca08632679aa72481fdc6c461abf5f0d17e777544c0233e8bcd5a5607ca6",
                "pod": "gpu-a_default(36aa1f99-e71c-4fcf-b3f7-3254b6127099)",
            },
            None,
        ),
        Line(
            "I1121 02:59:16.808356    8337 kuberuntime_manager.go:696] Stopping PodSandbox "
            'for "unused-img-user_default(9f73a36d-63d9-43b4-b29e-b4a38579d550)" because all '
            "other containers are dead.",
            "Pod is stopped",
            {
                "because": "ended",
                "pod": "unused-img-user_default(9f73a36d-63d9-43b4-b29e-b4a38579d550)",
            },
            "lifecycle.PodTerminating",
        ),
        Line(
            "I1121 03:01:50.480872    8337 kuberuntime_manager.go:891] back-off 40s "
            "restarting failed container=app "
            "pod=live-fail_default(e87c67ca-371e-4b1a-ba0a-2940731faba2)",
            "Back-off restarting failed container",
            {
                "err": (
                    "back-off 40s restarting failed container=app "
                    "pod=live-fail_default(e87c67ca-371e-4b1a-ba0a-2940731faba2)"
                ),
                "pod": "live-fail_default(e87c67ca-371e-4b1a-ba0a-2940731faba2)",
            },
            "lifecycle.RestartBackedOff",
        ),
        Line(
            "I1121 02:59:48.440976    8337 kuberuntime_container.go:636] Killing container "
            '"containerd://bba7be9afe61fceea437c22a6bd1bf870f2ece8e18b768f76c81af38a4ea6d8c" '
            "with a 2 second grace period",
            "Killing container with a grace period",
            {
                "containerID": (
                    "containerd://bba7be9afe61fceea437c22a6bd1bf870f2ece8e18b768f76c81af38a4ea6d8c"
                ),
                "gracePeriod": 2,
            },
            None,
        ),
    ),
    "cpus": (
        Line(
            'I1121 03:07:08.628131   30095 cpu_manager.go:312] "Added Container" pod="shop/a" '
            'podUID="e8fdb028" containerName="c" containerID="50e4218f"',
            "Added Container",
            {
                "pod": "shop/a",
                "podUID": "e8fdb028",
                "containerName": "c",
                "containerID": "50e4218f",
            },
            None,
        ),
        Line(
            'E1121 03:06:03.459953   30095 cpu_manager.go:246] "Could not initialize checkpoint '
            'manager, please drain node and remove policy state file" err="could not restore state '
            "from checkpoint: checkpoint is corrupted, please drain this node and delete the CPU "
            'manager checkpoint file \\"/var/lib/kubelet/cpu_manager_state\\" before restarting '
            'Kubelet"',
            "Could not initialize checkpoint manager, please drain node and remove policy state "
            "file",
            {
                "err": "could not restore state from checkpoint: checkpoint is corrupted, please "
                "drain this node and delete the CPU manager checkpoint file "
                '"/var/lib/kubelet/cpu_manager_state" before restarting Kubelet'
            },
            "cpumanager.CpuStateRefused",
        ),
        Line(
            'I1121 03:06:03.459953   30095 cpu_manager.go:235] "Starting" policy="none"',
            "Starting CPU manager",
            {"policy": "none"},
            None,
        ),
        Line(
            'I1122 07:40:07.197438   24528 state_mem.go:80] "Updated desired CPUSet" '
            'podUID="cca6d91bfe004f7e2bdfa4a80acf62b1" containerName="app" cpuSet="1"',
            "Updated desired CPUSet",
            {"podUID": "cca6d91bfe004f7e2bdfa4a80acf62b1", "containerName": "app", "cpuSet": "1"},
            None,
        ),
        Line(
            "I1121 02:52:42.086308    8337 cpu_manager.go:193] [cpumanager] starting with "
            "none policy",
            "Starting CPU manager",
            {"policy": "none"},
            None,
        ),
        Line(
            "I1121 03:03:25.794553   26468 state_mem.go:88] [cpumanager] updated default "
            'cpuset: ""',
            "Updated default CPUSet",
            {"cpuSet": ""},
            None,
        ),
        Line(
            "I1121 03:03:25.794562   26468 state_mem.go:96] [cpumanager] updated cpuset "
            'assignments: "map[]"',
            "Updated CPUSet assignments",
            {},
            None,
        ),
    ),
    "devices": (
        Line(
            'I1121 03:07:05.327829   30095 manager.go:242] "Device plugin connected" '
            'resourceName="vendor.io/nic"',
            "Device plugin connected",
            {"resourceName": "vendor.io/nic"},
            "devicemanager.PluginRegistered",
        ),
        Line(
            'I1121 03:12:18.495174   30095 manager.go:254] "Endpoint became unhealthy" '
            'resourceName="vendor.io/nic"',
            "Endpoint became unhealthy",
            {"resourceName": "vendor.io/nic"},
            None,
        ),
        Line(
            'I1122 07:55:21.678022   22260 manager.go:563] "Found pre-allocated devices for '
            'resource on pod" resourceName="vendor.io/nic" containerName="c1" '
            'podUID="82777846-2d45-486a-902f-50ea5f190b4d" devices=["nic-c"]',
            "Found pre-allocated devices for resource on pod",
            {
                "resourceName": "vendor.io/nic",
                "containerName": "c1",
                "podUID": "82777846-2d45-486a-902f-50ea5f190b4d",
                "devices": ["nic-c"],
            },
            "devicemanager.DevicesAllocated",
        ),
        Line(
            'E1121 03:12:18.495113   30095 client.go:94] "ListAndWatch ended unexpectedly '
            'for device plugin" err="rpc error: code = Unavailable desc = error reading from '
            'server: EOF" resource="vendor.io/nic"',
            "listAndWatch ended unexpectedly for device plugin",
            {
                "err": "rpc error: code = Unavailable desc = error reading from server: EOF",
                "resourceName": "vendor.io/nic",
            },
            "devicemanager.EndpointStopped",
        ),
        Line(
            'I1121 03:12:18.495169   30095 manager.go:421] "Mark all resources Unhealthy for '
            'resource" resourceName="vendor.io/nic"',
            "Mark all resources Unhealthy for resource",
            {"resourceName": "vendor.io/nic"},
            "devicemanager.EndpointStopped",
        ),
        Line(
            'I1121 03:07:08.155715   30095 manager.go:617] "Need devices to allocate for '
            'pod" deviceNumber=2 resourceName="vendor.io/nic" '
            'podUID="6faae567b5171c79dda9a3e8e04d3a56" containerName="train"',
            "Need devices to allocate for pod",
            {
                "deviceNumber": 2,
                "resourceName": "vendor.io/nic",
                "podUID": "6faae567b5171c79dda9a3e8e04d3a56",
                "containerName": "train",
            },
            "devicemanager.AllocationRequested",
        ),
        Line(
            'I1121 03:07:05.330516   30095 manager.go:320] "Processed device updates for '
            'resource" resourceName="vendor.io/nic" totalCount=3 healthyCount=3',
            "Processed device updates for resource",
            {"resourceName": "vendor.io/nic", "totalCount": 3, "healthyCount": 3},
            "devicemanager.DevicesReported",
        ),
        Line(
            'I1121 03:07:05.329541   30095 client.go:97] "State pushed for device plugin" '
            'resource="vendor.io/nic" resourceCapacity=3',
            "State pushed for device plugin",
            {"resourceCapacity": 3, "resourceName": "vendor.io/nic"},
            "devicemanager.DevicesReported",
        ),
        Line(
            'E1122 07:41:48.931351   24528 topology_hints.go:74] "Unable to generate '
            'topology hints: requested number of devices unavailable" '
            'resource="example.com/gpu" request=5 available=3',
            "Unable to generate topology hints: requested number of devices unavailable",
            {"request": 5, "available": 3, "resourceName": "example.com/gpu"},
            None,
        ),
        Line(
            "I1121 02:54:06.089889    8337 manager.go:657] Needs to allocate 1 "
            '"vendor.io/nic" for pod "36aa1f99-e71c-4fcf-b3f7-3254b6127099" container "train"',
            "Need devices to allocate for pod",
            {
                "deviceNumber": 1,
                "resourceName": "vendor.io/nic",
                "podUID": "36aa1f99-e71c-4fcf-b3f7-3254b6127099",
                "containerName": "train",
            },
            "devicemanager.AllocationRequested",
        ),
        Line(
            "I1121 02:54:06.096389    8337 manager.go:888] Making allocation request for "
            "devices [nic-2] for device plugin vendor.io/nic",
            "Making allocation request for device plugin",
            {"devices": "[nic-2]", "resourceName": "vendor.io/nic"},
            None,
        ),
        Line(
            "I1121 03:03:25.807194   26468 manager.go:645] Found pre-allocated devices for "
            'resource example.com/gpu container "train" in Pod '
            '"313e6c27-f1d0-4b83-9cca-0c21114ca1e5": [gpu-3]',
            "Found pre-allocated devices for resource on pod",
            {
                "resourceName": "example.com/gpu",
                "containerName": "train",
                "podUID": "313e6c27-f1d0-4b83-9cca-0c21114ca1e5",
                "devices": "[gpu-3]",
            },
            "devicemanager.DevicesAllocated",
        ),
        Line(
            "I1121 03:01:19.385575    8337 manager.go:629] pods to be removed: "
            "[36aa1f99-e71c-4fcf-b3f7-3254b6127099]",
            "Pods to be removed",
            {"podUIDs": "[36aa1f99-e71c-4fcf-b3f7-3254b6127099]"},
            "devicemanager.DevicesReleased",
        ),
        Line(
            "I1121 02:54:01.964214    8337 manager.go:408] Got registration request from "
            'device plugin with resource name "vendor.io/nic"',
            "Got registration request from device plugin with resource",
            {"resourceName": "vendor.io/nic"},
            "devicemanager.PluginRegistered",
        ),
        Line(
            "I1121 02:54:01.964463    8337 manager.go:462] Registered endpoint "
            "&{0xc00152b898 0xc00050f180 /var/lib/kubelet/device-plugins/nic.sock "
            "vendor.io/nic {0 0 <nil>} {0 0} 0x1a11660}",
            "Registered endpoint",
            {},
            None,
        ),
        Line(
            "I1121 02:54:01.965599    8337 endpoint.go:112] State pushed for device plugin "
            "vendor.io/nic",
            "State pushed for device plugin",
            {"resourceName": "vendor.io/nic"},
            "devicemanager.DevicesReported",
        ),
        Line(
            "I1121 03:03:25.796030   26468 pod_devices.go:214] Get checkpoint entry: "
            "b864def5-691d-4c82-9573-66b2dcd9e328 train example.com/gpu map[1:[gpu-1]] [10 "
            "13 10 4 68 69 86 83 18 5 103 112 117 45 49]",
            "Get checkpoint entry",
            {
                "podUID": "b864def5-691d-4c82-9573-66b2dcd9e328",
                "containerName": "train",
                "resourceName": "example.com/gpu",
                "deviceIDs": "map[1:[gpu-1]]",
            },
            "devicemanager.DevicesAllocated",
        ),
        Line(
            "E1121 03:00:17.807958    8337 topology_hints.go:70] [devicemanager] Unable to "
            "generate topology hints: requested number of devices unavailable for "
            "'example.com/gpu': requested: 3, available: 1",
            "Unable to generate topology hints: requested number of devices unavailable",
            {"resourceName": "example.com/gpu", "request": 3, "available": 1},
            None,
        ),
        Line(
            'E1122 08:00:00.000000   22260 manager.go:244] "Failed to connect to new client" '
            'err="rpc error: code = Unavailable" resource="vendor.io/nic"',
            "Bad registration request from device plugin",
            {"resourceName": "vendor.io/nic"},
            None,
        ),
        Line(
            'E1122 08:00:00.000000   22260 endpoint.go:129] "listAndWatch ended unexpectedly '
            'for device plugin" err="rpc error: code = Unavailable desc = transport is '
            'closing" resourceName="vendor.io/nic"',
            "listAndWatch ended unexpectedly for device plugin",
            {
                "resourceName": "vendor.io/nic",
                "err": "rpc error: code = Unavailable desc = transport is closing",
            },
            "devicemanager.EndpointStopped",
        ),
    ),
    "events": (
        Line(
            'I1121 02:52:42.058302    8337 event.go:291] "Event occurred" object="node-a" '
            'kind="Node" apiVersion="" type="Normal" reason="Starting" message="Starting '
            'kubelet."',
            "Event occurred",
            {
                "object": "node-a",
                "kind": "Node",
                "type": "Normal",
                "reason": "Starting",
                "message": "Starting kubelet.",
            },
            "lifecycle.ReasonReported",
        ),
    ),
    "evictions": (
        Line(
            'I1122 07:56:22.577632   22260 eviction_manager.go:604] "Evicting pod" '
            'pod="default/disk-limit" podUID="a35fc7cb-8c85-4dc0-962c-bf565ac8ecc7" '
            'message="Usage of EmptyDir volume \\"d\\" exceeds the limit \\"50Mi\\". "',
            "Evicting pod",
            {
                "pod": "default/disk-limit",
                "podUID": "a35fc7cb-8c85-4dc0-962c-bf565ac8ecc7",
                "message": 'Usage of EmptyDir volume "d" exceeds the limit "50Mi". ',
            },
            "lifecycle.PodEvicted",
        ),
        Line(
            'I1122 08:16:35.836978   24910 helpers.go:992] "Eviction manager: threshold '
            'observed resource" log="thresholds - updated stats" signal="memory.available" '
            'resourceName="memory" quantity="14Gi" available="9821848Ki"',
            "Eviction manager: threshold observed resource",
            {
                "log": "thresholds - updated stats",
                "signal": "memory.available",
                "quantity": "14Gi",
                "available": "9821848Ki",
            },
            None,
        ),
        Line(
            "I1121 02:52:42.099679    8337 eviction_manager.go:243] eviction manager: "
            "synchronize housekeeping",
            "Eviction manager: synchronize housekeeping",
            {},
            None,
        ),
        Line(
            "I1121 02:52:52.110649    8337 eviction_manager.go:334] eviction manager: no "
            "resources are starved",
            "Eviction manager: no resources are starved",
            {},
            None,
        ),
        Line(
            "I1121 02:52:52.110620    8337 helpers.go:814] eviction manager: observations: "
            "signal=imagefs.inodesFree, available: 16218349, capacity: 16777216, time: "
            "2026-11-21 02:52:52.10809768 +0000 UTC",
            "Eviction manager:",
            {
                "log": "observations",
                "signal": "imagefs.inodesFree",
                "available": "16218349",
                "capacity": "16777216",
            },
            "images.EvictionSignalObserved",
        ),
        Line(
            'I1122 08:00:00.000000   22260 helpers.go:850] "Eviction manager: threshold observed '
            'resource" log="thresholds - ignoring grace period" signal="memory.available" '
            'quantity="100Mi" resource="97Mi"',
            "Eviction manager: threshold observed resource",
            {"signal": "memory.available", "quantity": "100Mi", "available": "97Mi"},
            None,
        ),
    ),
    "images": (
        Line(
            'I1122 08:00:20.707353   22260 image_gc_manager.go:356] "Disk usage on image '
            "filesystem is over the high threshold, trying to free bytes down to the low "
            'threshold" usage=59 highThreshold=50 amountToFree=335380480 lowThreshold=35',
            "Disk usage on image filesystem is over the high threshold, trying to free bytes "
            "down to the low threshold",
            {"usage": 59, "highThreshold": 50, "amountToFree": 335380480, "lowThreshold": 35},
            "images.GarbageCollectionStarted",
        ),
        Line(
            'I1121 03:06:03.459791   30095 image_gc_manager.go:491] "Evaluating image ID for '
            'possible garbage collection based on disk usage" '
            'imageID="sha256:58f372ab2424b1074e50e6e06b6b131d44e0299dbb1dee59cff0542239a8b1c1'
            '" runtimeHandler=""',
            "Evaluating image ID for possible garbage collection",
            {
                "imageID": (
                    "sha256:58f372ab2424b1074e50e6e06b6b131d44e0299dbb1dee59cff0542239a8b1c1"
                )
            },
            None,
        ),
        Line(
            'I1122 07:43:51.620272   24528 helpers.go:975] "Eviction manager:" '
            'log="observations" signal="imagefs.inodesFree" resourceName="inodes" '
            'available="89136" capacity="89760" time="2026-11-22 07:43:47.471006 +0000 UTC"',
            "Eviction manager:",
            {
                "log": "observations",
                "signal": "imagefs.inodesFree",
                "available": "89136",
                "capacity": "89760",
            },
            "images.EvictionSignalObserved",
        ),
        Line(
            'I1121 03:06:03.459495   30095 image_gc_manager.go:565] "Image ID is being used" '
            'imageID="sha256:e88ac028a39b586c68101de2256b70a5dfc991e7ae06f8234347fa6a66d66135'
            '"',
            "Evaluating image ID for possible garbage collection",
            {
                "imageID": (
                    "sha256:e88ac028a39b586c68101de2256b70a5dfc991e7ae06f8234347fa6a66d66135"
                )
            },
            None,
        ),
        Line(
            'E1122 07:38:59.539289   24528 kubelet.go:1468] "Image garbage collection failed '
            'once. Stats initialization may not have completed yet" err="invalid capacity 0 '
            'on image filesystem"',
            "Image garbage collection failed multiple times in a row",
            {"err": "invalid capacity 0 on image filesystem"},
            "images.GarbageCollected",
        ),
        Line(
            'I1121 03:11:03.494549   30095 image_gc_manager.go:530] "Removing image to free '
            'bytes" '
            'imageID="sha256:4de5e1e264f6f49d2fa35f0e0b7a8bf09b449c1ef07b6dd4a8a31bd45e5a05fe'
            '" size=1997512 runtimeHandler=""',
            "Removing image to free bytes",
            {
                "imageID": (
                    "sha256:4de5e1e264f6f49d2fa35f0e0b7a8bf09b449c1ef07b6dd4a8a31bd45e5a05fe"
                ),
                "size": 1997512,
                "runtimeHandler": "",
            },
            "images.ImageDeleted",
        ),
        Line(
            "I1121 02:52:42.075012    8337 image_gc_manager.go:241] Adding image ID "
            "sha256:5e3c775663b8edad90449cb2bf53ca9c503e3dc8bd8babe5bc984b8b6575c5a0 to "
            "currentImages",
            "Adding image ID to currentImages",
            {
                "imageID": (
                    "sha256:5e3c775663b8edad90449cb2bf53ca9c503e3dc8bd8babe5bc984b8b6575c5a0"
                )
            },
            "images.ImagesDetected",
        ),
        Line(
            "I1121 02:52:42.075019    8337 image_gc_manager.go:246] Image ID "
            "sha256:5e3c775663b8edad90449cb2bf53ca9c503e3dc8bd8babe5bc984b8b6575c5a0 is new",
            "Image ID is new",
            {
                "imageID": (
                    "sha256:5e3c775663b8edad90449cb2bf53ca9c503e3dc8bd8babe5bc984b8b6575c5a0"
                )
            },
            "images.ImagesDetected",
        ),
        Line(
            "I1121 02:52:42.075034    8337 image_gc_manager.go:254] Setting Image ID "
            "sha256:4de5e1e264f6f49d2fa35f0e0b7a8bf09b449c1ef07b6dd4a8a31bd45e5a05fe "
            "lastUsed to 2026-11-21 02:52:42.075004786 +0000 UTC m=+0.856161928",
            "Setting Image ID lastUsed",
            {
                "imageID": (
                    "sha256:4de5e1e264f6f49d2fa35f0e0b7a8bf09b449c1ef07b6dd4a8a31bd45e5a05fe"
                ),
                "lastUsed": "2026-11-21 02:52:42.075004786 +0000 UTC m=+0.856161928",
            },
            "images.ImagesDetected",
        ),
        Line(
            "I1121 02:52:42.075040    8337 image_gc_manager.go:258] Image ID "
            "sha256:4de5e1e264f6f49d2fa35f0e0b7a8bf09b449c1ef07b6dd4a8a31bd45e5a05fe has "
            "size 1997512",
            "Image ID has size",
            {
                "imageID": (
                    "sha256:4de5e1e264f6f49d2fa35f0e0b7a8bf09b449c1ef07b6dd4a8a31bd45e5a05fe"
                ),
                "size": 1997512,
            },
            "images.ImagesDetected",
        ),
        Line(
            "I1121 02:57:42.061702    8337 image_gc_manager.go:304] [imageGCManager]: Disk "
            "usage on image filesystem is at 72% which is over the high threshold (5%). "
            "Trying to free 183562994319 bytes down to the low threshold (4%).",
            "Disk usage on image filesystem is over the high threshold, trying to free bytes "
            "down to the low threshold",
            {"usage": 72, "highThreshold": 5, "amountToFree": 183562994319, "lowThreshold": 4},
            "images.GarbageCollectionStarted",
        ),
        Line(
            "I1121 02:57:42.092544    8337 image_gc_manager.go:375] [imageGCManager]: "
            "Removing image "
            '"sha256:68d8e9110ca497ee3eb8e1264b28f47fa97dec63cbd657b2e38fe65b5e404236" to '
            "free 9001662 bytes",
            "Removing image to free bytes",
            {
                "imageID": (
                    "sha256:68d8e9110ca497ee3eb8e1264b28f47fa97dec63cbd657b2e38fe65b5e404236"
                ),
                "size": 9001662,
            },
            "images.ImageDeleted",
        ),
        Line(
            "I1121 02:57:42.063014    8337 image_gc_manager.go:359] Evaluating image ID "
            "sha256:2cf000c66ba5a7627abd2b39aa1f8c91bb027284cfb79dde302bd73003e7b27e for "
            "possible garbage collection",
            "Evaluating image ID for possible garbage collection",
            {
                "imageID": (
                    "sha256:2cf000c66ba5a7627abd2b39aa1f8c91bb027284cfb79dde302bd73003e7b27e"
                )
            },
            None,
        ),
        Line(
            "I1121 02:57:42.063009    8337 image_gc_manager.go:345] Image ID "
            "sha256:4de5e1e264f6f49d2fa35f0e0b7a8bf09b449c1ef07b6dd4a8a31bd45e5a05fe is "
            "being used",
            "Evaluating image ID for possible garbage collection",
            {
                "imageID": (
                    "sha256:4de5e1e264f6f49d2fa35f0e0b7a8bf09b449c1ef07b6dd4a8a31bd45e5a05fe"
                )
            },
            None,
        ),
        Line(
            "E1121 02:52:42.060890    8337 kubelet.go:1274] Image garbage collection failed "
            "once. Stats initialization may not have completed yet: invalid capacity 0 on "
            "image filesystem",
            "Image garbage collection failed multiple times in a row",
            {"err": "invalid capacity 0 on image filesystem"},
            "images.GarbageCollected",
        ),
        Line(
            "E1121 02:57:42.134330    8337 kubelet.go:1146] Image garbage collection failed: "
            "wanted to free 183562994319, but freed 99004545 space with errors in image deletion",
            "Image garbage collection failed multiple times in a row",
            {
                "err": (
                    "wanted to free 183562994319, but freed 99004545 space with errors in image "
                    "deletion"
                )
            },
            "images.GarbageCollected",
        ),
        Line(
            "E1121 02:57:42.134330    8337 kubelet.go:1270] Image garbage collection failed "
            "multiple times in a row: failed to garbage collect required amount of images. "
            "Wanted to free 183562994319 bytes, but freed 99004545 bytes",
            "Image garbage collection failed multiple times in a row",
            {
                "err": (
                    "failed to garbage collect required amount of images. Wanted to free "
                    "183562994319 bytes, but freed 99004545 bytes"
                )
            },
            "images.GarbageCollected",
        ),
        Line(
            'E1122 08:00:00.000000   22260 image_gc_manager.go:412] "Failed to remove image" '
            'err="image is in use" image="sha256:aa"',
            "Failed to remove image",
            {"imageID": "sha256:aa"},
            None,
        ),
        Line(
            'E1122 08:00:00.000000   22260 remote_image.go:136] "RemoveImage from image '
            'service failed" err="image is in use" image="sha256:aa"',
            "Failed to remove image",
            {"imageID": "sha256:aa"},
            None,
        ),
    ),
    "memory": (
        Line(
            'I1122 07:42:45.090619   24528 policy_static.go:123] "Got topology affinity" '
            'pod="default/tie-a" podUID="53dd7faa-07d4-49b5-a4ea-5204742751a3" '
            'containerName="app" hint={"NUMANodeAffinity":null,"Preferred":true}',
            "Got topology affinity",
            {
                "pod": "default/tie-a",
                "podUID": "53dd7faa-07d4-49b5-a4ea-5204742751a3",
                "containerName": "app",
                "hint": {"NUMANodeAffinity": None, "Preferred": True},
            },
            None,
        ),
    ),
    "node": (
        Line(
            'I1121 02:52:41.296983    8337 flags.go:59] FLAG: --v="5"',
            "FLAG",
            {"name": "v", "value": '"5"'},
            "node.SettingsObserved",
        ),
        Line(
            "I1121 02:52:41.559029    8337 server.go:645] --cgroups-per-qos enabled, but "
            "--cgroup-root was not specified.  defaulting to /",
            "--cgroups-per-qos enabled, but --cgroup-root was not specified.  Defaulting to /",
            {},
            "node.SettingsObserved",
        ),
        Line(
            'I1122 07:38:59.278156   24528 server.go:747] "--cgroups-per-qos enabled, but '
            '--cgroup-root was not specified.  defaulting to /"',
            "--cgroups-per-qos enabled, but --cgroup-root was not specified.  Defaulting to /",
            {},
            "node.SettingsObserved",
        ),
        Line(
            "I1121 02:52:41.549689    8337 server.go:416] Version: v0.0.0-master+faecb196815e2",
            "Kubelet version",
            {"kubeletVersion": "v0.0.0-master+faecb196815e2"},
            None,
        ),
        Line(
            "I1121 02:52:42.051099    8337 server.go:1176] Started kubelet",
            "Started kubelet",
            {},
            None,
        ),
        Line(
            "I1121 02:52:41.559470    8337 container_manager_linux.go:310] [topologymanager] "
            "Initializing Topology Manager with best-effort policy and container-level scope",
            "Initializing Topology Manager with policy",
            {"topologyPolicyName": "best-effort", "topologyScopeName": "container"},
            "node.SettingsObserved",
        ),
        Line(
            "I1121 02:52:42.365395    8337 kubelet_node_status.go:441] Updating node status",
            "Updating node status",
            {},
            None,
        ),
        Line(
            "I1122 07:54:12.539874   20830 handler.go:325] Added event "
            "&{/kubepods/podfa6faa48-c753-4c12-89ed-13a2af95ba67 2026-11-22 "
            "07:54:02.57666812 +0000 UTC m=-8.700416172 oomKill {0x3e211470fdd0}}",
            "Added an OOM kill event",
            {
                "container": "/kubepods/podfa6faa48-c753-4c12-89ed-13a2af95ba67",
                "time": "2026-11-22 07:54:02.57666812 +0000",
            },
            None,
        ),
        Line(
            'I1122 08:00:00.000000   22260 server.go:767] "After cpu setting is overwritten" '
            'kubeReservedCPUs="map[cpu:0]" systemReservedCPUs="map[cpu:1]"',
            "After cpu setting is overwritten",
            {"kubeReserved": "map[cpu:0]", "systemReserved": "map[cpu:1]"},
            "node.SettingsObserved",
        ),
    ),
    "node_state": tuple(Line(*row) for row in rows(NODE_STATE)),
    "pods": (
        Line(
            'I1121 02:52:42.098684    8337 allocation_manager.go:310] "Pod admission denied" '
            'podUID="9f73a36d-63d9-43b4-b29e-b4a38579d550" pod="default/a" operation="add" '
            'reason="NodeAffinity" message="Predicate NodeAffinity failed"',
            "Pod admission denied",
            {"pod": "default/a", "operation": "add", "reason": "NodeAffinity"},
            "lifecycle.PodRejected",
        ),
        Line(
            'E1122 07:54:12.907348   20830 kubelet.go:1556] "Failed to start '
            'ContainerManager" err="start memory manager error: [memorymanager] the expected '
            'machine state is different from the real one"',
            "The kubelet gives up",
            {
                "err": (
                    "start memory manager error: [memorymanager] the expected machine "
                    "state is different from the real one"
                )
            },
            "node.KubeletExited node.Troubled",
        ),
        Line(
            'I1122 07:48:53.342302   24528 status_manager.go:874] "Patch status for pod" '
            'pod="default/be-1" podUID="06d29a07-339e-4f08-b0d2-679d92ff5440" '
            'patch="{\\"metadata\\":{\\"uid\\":\\"06d29a07-339e-4f08-b0d2-679d92ff5440\\"}}"',
            "Patch status for pod",
            {
                "pod": "default/be-1",
                "podUID": "06d29a07-339e-4f08-b0d2-679d92ff5440",
                "patch": '{"metadata":{"uid":"06d29a07-339e-4f08-b0d2-679d92ff5440"}}',
            },
            None,
        ),
        Line(
            'I1122 08:00:39.324766   22260 kubelet.go:2286] "Pod has been deleted and must '
            'be killed" pod="default/win" podUID="35f2daa9-2afe-4b6a-8d1e-181083858dbf"',
            "Pod is stopped",
            {
                "pod": "default/win",
                "podUID": "35f2daa9-2afe-4b6a-8d1e-181083858dbf",
                "because": "removed",
            },
            "lifecycle.PodTerminating",
        ),
        Line(
            'I1122 07:41:03.099046   24528 pod_workers.go:1370] "Pod indicated lifecycle '
            'completed naturally and should now terminate" '
            'podUID="7fbd91da-6368-4a98-b7eb-2775f9ba8505"',
            "Pod is stopped",
            {"podUID": "7fbd91da-6368-4a98-b7eb-2775f9ba8505", "because": "ended"},
            None,
        ),
        Line(
            'I1122 07:48:53.327286   24528 pod_workers.go:864] "Pod is being evicted by the '
            'kubelet, begin teardown" pod="default/be-1" '
            'podUID="06d29a07-339e-4f08-b0d2-679d92ff5440" updateType="kill"',
            "Pod is stopped",
            {
                "pod": "default/be-1",
                "podUID": "06d29a07-339e-4f08-b0d2-679d92ff5440",
                "because": "killed",
            },
            "lifecycle.PodTerminating",
        ),
        Line(
            'I1122 08:07:23.661259   22260 pod_workers.go:867] "Pod is being removed by the '
            'kubelet, begin teardown" pod="default/db-pinned-node-e" '
            'podUID="cca6d91bfe004f7e2bdfa4a80acf62b1" updateType="kill"',
            "Pod is stopped",
            {
                "pod": "default/db-pinned-node-e",
                "podUID": "cca6d91bfe004f7e2bdfa4a80acf62b1",
                "because": "removed",
            },
            "lifecycle.PodTerminating",
        ),
        Line(
            'I1122 08:07:07.607439   22260 pod_workers.go:854] "Pod is marked for graceful '
            'deletion, begin teardown" pod="default/iw-f" '
            'podUID="a8ca10ac-7bea-4d29-93a5-3070b4910d55" updateType="update"',
            "Pod is stopped",
            {
                "pod": "default/iw-f",
                "podUID": "a8ca10ac-7bea-4d29-93a5-3070b4910d55",
                "because": "deleted",
            },
            "lifecycle.PodTerminating",
        ),
        Line(
            'I1122 07:55:22.623291   22260 pod_workers.go:849] "Pod is orphaned and must be '
            'torn down" pod="default/gpu-a" podUID="a31d4364-24f0-48ef-8424-50fb4388aeaa" '
            'updateType="kill"',
            "Pod is stopped",
            {
                "pod": "default/gpu-a",
                "podUID": "a31d4364-24f0-48ef-8424-50fb4388aeaa",
                "because": "orphaned",
            },
            "lifecycle.PodTerminating",
        ),
        Line(
            'I1128 10:00:06.350000    2000 pod_startup_latency_tracker.go:102] "Observed pod '
            'startup duration" pod="default/web" podStartSLOduration=2.25 pod.CreationTimestamp='
            '"2026-11-28 18:00:01 +0800 CST" firstStartedPulling="2026-11-28 18:00:02.1 +0800 CST '
            'm=+3.1" lastFinishedPulling="2026-11-28 18:00:05.2 +0800 CST m=+6.2" '
            'observedRunningTime="2026-11-28 18:00:06.2 +0800 CST m=+7.2"',
            "Observed pod startup duration",
            {"pod": "default/web", "podStartSLOduration": 2.25},
            "lifecycle.PodStarted",
        ),
        Line(
            'I1122 08:07:07.630217   22260 kubelet.go:2038] "Pod terminating with grace '
            'period" pod="default/be-x" podUID="294f95c3-66e0-40cf-91c1-7eaf2bea06e4" '
            "gracePeriod=2",
            "Pod terminating with grace period",
            {
                "pod": "default/be-x",
                "podUID": "294f95c3-66e0-40cf-91c1-7eaf2bea06e4",
                "gracePeriod": 2,
            },
            None,
        ),
        Line(
            'I1122 08:05:05.598700   22260 preemption.go:104] "Preempting pod to free up '
            'resources" pod="default/iw-a" podUID="6470072d-c96b-43eb-8eca-bf8af2a7cfcb" '
            "insufficientResources=[{}]",
            "Preempting pod to free up resources",
            {
                "pod": "default/iw-a",
                "podUID": "6470072d-c96b-43eb-8eca-bf8af2a7cfcb",
                "insufficientResources": [{}],
            },
            "preemption.PodPreempted",
        ),
        Line(
            'I1122 07:41:50.944111   24528 topology_manager.go:215] "Topology Admit Handler" '
            'podUID="35f2daa9-2afe-4b6a-8d1e-181083858dbf" podNamespace="default" '
            'podName="win"',
            "Topology Admit Handler",
            {
                "podUID": "35f2daa9-2afe-4b6a-8d1e-181083858dbf",
                "podNamespace": "default",
                "podName": "win",
            },
            None,
        ),
        Line(
            'I1121 02:52:42.227248    8337 kubelet.go:1888] SyncLoop (ADD, "api"): ""',
            "SyncLoop ADD",
            {"source": "api", "pods": ""},
            None,
        ),
        Line(
            'I1121 03:01:39.493615    8337 kubelet.go:1904] SyncLoop (DELETE, "api"): '
            '"gpu-b_default(b864def5-691d-4c82-9573-66b2dcd9e328)"',
            "SyncLoop DELETE",
            {"source": "api", "pods": "gpu-b_default(b864def5-691d-4c82-9573-66b2dcd9e328)"},
            "lifecycle.PodConfigChanged",
        ),
        Line(
            'I1121 03:01:52.147922    8337 kubelet.go:1898] SyncLoop (REMOVE, "api"): '
            '"gpu-b_default(b864def5-691d-4c82-9573-66b2dcd9e328)"',
            "SyncLoop REMOVE",
            {"source": "api", "pods": "gpu-b_default(b864def5-691d-4c82-9573-66b2dcd9e328)"},
            "lifecycle.PodConfigChanged",
        ),
        Line(
            'I1121 02:54:06.127791    8337 kubelet.go:1901] SyncLoop (RECONCILE, "api"): '
            '"gpu-a_default(36aa1f99-e71c-4fcf-b3f7-3254b6127099)"',
            "SyncLoop RECONCILE",
            {"source": "api", "pods": "gpu-a_default(36aa1f99-e71c-4fcf-b3f7-3254b6127099)"},
            "lifecycle.PodConfigChanged",
        ),
        Line(
            "I1121 02:55:01.127309    8337 kubelet.go:1948] SyncLoop (SYNC): 1 pods; "
            "gpu-a_default(36aa1f99-e71c-4fcf-b3f7-3254b6127099)",
            "SyncLoop (SYNC) pods",
            {},
            None,
        ),
        Line(
            "I1121 02:52:44.127188    8337 kubelet.go:1971] SyncLoop (housekeeping)",
            "SyncLoop (housekeeping)",
            {},
            None,
        ),
        Line(
            "I1121 02:52:42.126570    8337 kubelet.go:1802] Starting kubelet main sync loop.",
            "Starting kubelet main sync loop",
            {},
            None,
        ),
        Line(
            "I1121 03:00:37.021980    8337 kubelet.go:1993] Pod "
            '"gpu-a_default(36aa1f99-e71c-4fcf-b3f7-3254b6127099)" has completed, ignoring '
            "remaining sync work: sync",
            "Pod has completed, ignoring remaining sync work",
            {"pod": "gpu-a_default(36aa1f99-e71c-4fcf-b3f7-3254b6127099)", "syncType": "sync"},
            "lifecycle.PodTerminated",
        ),
        Line(
            "I1121 03:01:52.146244    8337 kubelet.go:1986] Pod "
            '"gpu-b_default(b864def5-691d-4c82-9573-66b2dcd9e328)" has completed execution '
            "and should be deleted from the API server: update",
            "Pod has completed, ignoring remaining sync work",
            {"pod": "gpu-b_default(b864def5-691d-4c82-9573-66b2dcd9e328)", "syncType": "update"},
            "lifecycle.PodTerminated",
        ),
        Line(
            "I1121 03:01:52.147754    8337 status_manager.go:591] Pod "
            '"gpu-b_default(b864def5-691d-4c82-9573-66b2dcd9e328)" fully terminated and '
            "removed from etcd",
            "Pod fully terminated and removed from etcd",
            {"pod": "gpu-b_default(b864def5-691d-4c82-9573-66b2dcd9e328)"},
            "lifecycle.PodTerminated",
        ),
        Line(
            "I1121 03:00:32.009328    8337 predicate.go:143] Predicate failed on Pod: "
            "too-big_default(9f62a548-f34a-4eff-9521-ec8f90c0b239), for reason: Node didn't "
            "have enough resource: cpu, requested: 900, used: 1450, capacity: 1700",
            "Predicate failed on Pod",
            {
                "pod": "too-big_default(9f62a548-f34a-4eff-9521-ec8f90c0b239)",
                "message": (
                    "Node didn't have enough resource: cpu, requested: 900, used: 1450, "
                    "capacity: 1700"
                ),
            },
            "lifecycle.PodRejected",
        ),
        Line(
            "I1121 03:00:36.198190    8337 preemption.go:119] preemption: pod "
            "gpu-a_default(36aa1f99-e71c-4fcf-b3f7-3254b6127099) evicted successfully",
            "Pod evicted successfully",
            {"pod": "gpu-a_default(36aa1f99-e71c-4fcf-b3f7-3254b6127099)"},
            "preemption.PodPreempted",
        ),
    ),
    "probes": (
        Line(
            'I1122 07:43:52.839380   24528 prober.go:107] "Probe failed" '
            'probeType="Liveness" pod="default/probe-exec" '
            'podUID="e8eb5580-df9c-4779-a51c-6b4b701d5d0d" containerName="app" '
            'probeResult="failure" output=""',
            "Probe failed",
            {
                "probeType": "Liveness",
                "pod": "default/probe-exec",
                "podUID": "e8eb5580-df9c-4779-a51c-6b4b701d5d0d",
                "containerName": "app",
                "probeResult": "failure",
                "output": "",
            },
            "prober.ProbeExecuted",
        ),
        Line(
            'I1122 07:40:12.561947   24528 prober.go:116] "Probe succeeded" '
            'probeType="Liveness" pod="default/probe-tcp" '
            'podUID="9fae1dc9-fe45-49e5-8cd0-48a30fd4e188" containerName="app"',
            "Probe succeeded",
            {
                "probeType": "Liveness",
                "pod": "default/probe-tcp",
                "podUID": "9fae1dc9-fe45-49e5-8cd0-48a30fd4e188",
                "containerName": "app",
            },
            "prober.ProbeExecuted",
        ),
        Line(
            'I1122 07:40:08.795329   24528 kubelet.go:2546] "SyncLoop (probe)" '
            'probe="readiness" status="" pod="default/probe-tcp"',
            "SyncLoop (probe)",
            {"probe": "readiness", "status": "", "pod": "default/probe-tcp"},
            None,
        ),
        Line(
            "I1121 02:59:24.440794    8337 prober.go:126] Liveness probe for "
            '"live-fail_default(e87c67ca-371e-4b1a-ba0a-2940731faba2):app" succeeded',
            "Probe succeeded",
            {
                "probeType": "Liveness",
                "pod": "live-fail_default(e87c67ca-371e-4b1a-ba0a-2940731faba2)",
                "containerName": "app",
            },
            "prober.ProbeExecuted",
        ),
        Line(
            "I1121 03:00:03.881305    8337 prober.go:117] Readiness probe for "
            '"http-probe_default(e602daff-b367-4acd-8bbf-9f0a260445ab):web" failed '
            "(failure): HTTP probe failed with statuscode: 404",
            "Probe failed",
            {
                "probeType": "Readiness",
                "pod": "http-probe_default(e602daff-b367-4acd-8bbf-9f0a260445ab)",
                "containerName": "web",
                "probeResult": "failure",
                "output": "HTTP probe failed with statuscode: 404",
            },
            "prober.ProbeExecuted",
        ),
        Line(
            "I1121 02:59:33.697660    8337 prober.go:159] Exec-Probe Pod: startup-slow, "
            "Container: app, Command: [/bin/true]",
            "Exec-Probe runProbe",
            {"pod": "/startup-slow", "containerName": "app"},
            None,
        ),
        Line(
            "I1121 02:59:48.440398    8337 kubelet.go:1962] SyncLoop (container unhealthy): "
            '"live-fail_default(e87c67ca-371e-4b1a-ba0a-2940731faba2)"',
            "SyncLoop (probe)",
            {
                "probe": "liveness",
                "status": "unhealthy",
                "pod": "live-fail_default(e87c67ca-371e-4b1a-ba0a-2940731faba2)",
            },
            "ledger.FindingReported",
        ),
    ),
    "stages": (
        Line(
            'E0303 10:00:00.000001    2000 remote_runtime.go:453] "CreateContainer in sandbox from '
            'runtime service failed" err="The container name \\"/k8s_app_web_shop_0f5c_1\\" is in '
            'use" podSandboxID="62ff28"',
            "CreateContainer in sandbox from runtime service failed",
            {
                "err": 'The container name "/k8s_app_web_shop_0f5c_1" is in use',
                "podSandboxID": "62ff28",
            },
            "lifecycle.PodStageFailed",
        ),
        Line(
            "E0303 10:00:00.000001    2000 remote_runtime.go:200] CreateContainer in sandbox "
            '"62ff28" from runtime service failed: The container name "/k8s_app_web_shop_0f5c_1" '
            "is in use",
            "CreateContainer in sandbox from runtime service failed",
            {
                "err": 'The container name "/k8s_app_web_shop_0f5c_1" is in use',
                "podSandboxID": "62ff28",
            },
            "lifecycle.PodStageFailed",
        ),
        Line(
            'E0303 10:00:00.000001    2000 kuberuntime_manager.go:1181] "CreatePodSandbox for '
            'pod failed" err="no network" pod="shop/web"',
            "CreatePodSandbox for pod failed",
            {"pod": "shop/web", "err": "no network"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            'E0303 10:00:00.000001    2000 kuberuntime_sandbox.go:72] "Failed to create sandbox '
            'for pod" err="no network" pod="shop/web"',
            "Failed to create sandbox for pod",
            {"pod": "shop/web", "err": "no network"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            'E0303 10:00:00.000001    2000 kuberuntime_sandbox.go:45] "Failed to generate '
            'sandbox config for pod" err="no name" pod="shop/web"',
            "Failed to generate sandbox config for pod",
            {"pod": "shop/web"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            'E0303 10:00:00.000001    2000 kuberuntime_sandbox.go:53] "Failed to create log '
            'directory for pod" err="disk is full" pod="shop/web"',
            "Failed to create log directory for pod",
            {"pod": "shop/web"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            'E0303 10:00:00.000001    2000 desired_state_of_world_populator.go:302] "Error '
            'processing volume" err="no such claim" pod="shop/web" volumeName="data"',
            "Error processing volume",
            {"pod": "shop/web", "volumeName": "data"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            'E0303 10:00:00.000001    2000 desired_state_of_world_populator.go:312] "Failed to '
            'add volume to desiredStateOfWorld" err="no plugin" pod="shop/web" volumeName="data" '
            'volumeSpecName="pv-1"',
            "Failed to add volume to desiredStateOfWorld",
            {"pod": "shop/web", "volumeName": "data"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            'I0303 10:00:00.000001    2000 pod_container_manager_linux.go:221] "Failed to delete '
            'cgroup paths" '
            'cgroupName=["kubepods","burstable","pod0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2"] '
            'err="device or resource busy"',
            "Failed to delete cgroup paths",
            {"err": "device or resource busy"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            'I0303 10:00:00.000001    2000 kubelet_pods.go:2210] "Failed to destroy orphaned pod '
            'cgroup" podUID="0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2" err="busy"',
            "Failed to delete cgroup paths",
            {"podUID": "0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            'I0303 10:00:00.000001    2000 pod_container_manager_linux.go:211] "Failed to kill '
            'all the processes attached to cgroup" '
            'cgroupName=["kubepods","pod0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2"] err="timed out"',
            "Failed to kill all the processes attached to cgroup",
            {"err": "timed out"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            'E0303 10:00:00.000001    2000 kuberuntime_container.go:304] "Failed to execute '
            'PostStartHook" err="exited with 3" pod="shop/web" '
            'podUID="0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2" containerName="c" '
            'containerID="containerd://a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1'
            'a1a1a1"',
            "Failed to execute PostStartHook",
            {"containerName": "c", "podUID": "0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            'E0303 10:00:00.000001    2000 kuberuntime_manager.go:1594] "Failed to prepare '
            'dynamic resources" err="prepare dynamic resources: ResourceClaim gpu-1: no driver" '
            'pod="shop/web"',
            "Failed to prepare dynamic resources",
            {"pod": "shop/web"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            'E0303 10:00:00.000001    2000 kubelet_volumes.go:251] "Failed to remove orphaned '
            'pod dir" err="directory not empty" podUID="0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2"',
            "Failed to remove orphaned pod dir",
            {"podUID": "0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            'E0303 10:00:00.000001    2000 kubelet_volumes.go:242] "Failed to remove orphaned '
            'pod subdir" err="busy" podUID="0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2" '
            'path="/var/lib/kubelet/pods/0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2/etc-hosts"',
            "Failed to remove orphaned pod dir",
            {"podUID": "0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            'E0303 10:00:00.000001    2000 kubelet_volumes.go:237] "Orphaned pod found, but '
            'failed to remove volumes subdir" err="busy" '
            'podUID="0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2" '
            'path="/var/lib/kubelet/pods/0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2/volumes"',
            "Failed to remove orphaned pod dir",
            {"podUID": "0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            'E0303 10:00:00.000001    2000 kuberuntime_container.go:933] "Kill container failed" '
            'err="runtime is gone" pod="shop/web" podUID="0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2" '
            'containerName="c" '
            'containerID={"Type":"containerd","ID":"a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a'
            '1a1a1a1a1a1a1a1a1a1"}',
            "Kill container failed",
            {"containerName": "c"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            'E0303 10:00:00.000001    2000 kuberuntime_manager.go:1493] "killContainer for pod '
            'failed" err="runtime is gone" containerName="c" '
            'containerID={"Type":"containerd","ID":"a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a'
            '1a1a1a1a1a1a1a1a1a1"} pod="shop/web"',
            "Kill container failed",
            {"containerName": "c", "pod": "shop/web"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            'E0303 10:00:00.000001    2000 kubelet.go:1875] "KillPod failed" err="failed to '
            '\\"KillContainer\\" for \\"c\\" with KillContainerError: \\"gone\\"" pod="shop/web" '
            'podStatus={"ID":""}',
            "KillPod failed",
            {"pod": "shop/web"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            'E0303 10:00:00.000001    2000 kubelet.go:1702] "killPod failed" err="failed to '
            '\\"KillContainer\\" for \\"c\\" with KillContainerError: \\"gone\\"" pod="shop/web" '
            'podStatus={"ID":""}',
            "KillPod failed",
            {"pod": "shop/web"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            'E0303 10:00:00.000001    2000 kuberuntime_manager.go:1478] "killPodWithSyncResult '
            'failed" err="failed to \\"KillPodSandbox\\" for '
            '\\"0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2\\" with KillPodSandboxError: \\"gone\\""',
            "killPodWithSyncResult failed",
            {},
            "lifecycle.PodStageFailed",
        ),
        Line(
            'I0303 10:00:00.000001    2000 kubelet_volumes.go:264] "Orphan pod" err="orphaned '
            'pod \\"0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2\\" found, but failed to rmdir() volume at '
            "path /var/lib/kubelet/pods/0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2/volumes/x: "
            'directory not empty"',
            "Orphan pod",
            {},
            "lifecycle.PodStageFailed",
        ),
        Line(
            'E0303 10:00:00.000001    2000 kubelet_volumes.go:261] "There were many similar '
            'errors. Turn up verbosity to see them." err="orphaned pod '
            '\\"0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2\\" found, but error occurred when trying to '
            'remove the volumes dir: not empty" numErrs=2',
            "Orphan pod",
            {},
            "lifecycle.PodStageFailed",
        ),
        Line(
            'I0303 10:00:00.000001    2000 pod_workers.go:1180] "Pod cannot start yet" '
            'pod="shop/web" podUID="0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2"',
            "Pod cannot start yet",
            {"pod": "shop/web"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            'E0303 10:00:00.000001    2000 kubelet.go:1951] "Unable to attach or mount volumes '
            'for pod; skipping pod" err="unmounted volumes=[data], unattached volumes=[], failed '
            'to process volumes=[]: timed out" pod="shop/web"',
            "Unable to attach or mount volumes for pod; skipping pod",
            {"pod": "shop/web"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            "E0303 10:00:00.000001    2000 kubelet_pods.go:228] failed to create subPath directory "
            'for volumeMount "work" of container "app": lstat /x: file name too long',
            "Failed to create subPath directory for volumeMount of the container",
            {
                "volumeMountName": "work",
                "containerName": "app",
                "err": "lstat /x: file name too long",
            },
            None,
        ),
        Line(
            'E0303 10:00:00.000001    2000 kubelet_pods.go:349] "Failed to create subPath '
            'directory for volumeMount of the container" err="no" containerName="app" '
            'volumeMountName="work"',
            "Failed to create subPath directory for volumeMount of the container",
            {"volumeMountName": "work", "containerName": "app", "err": "no"},
            None,
        ),
        Line(
            "E0303 10:00:00.000001    2000 kubelet_pods.go:228] failed to prepare subPath "
            'for volumeMount "work" of container "app": lstat /x: file name too long',
            "Failed to prepare subPath for volumeMount of the container",
            {
                "volumeMountName": "work",
                "containerName": "app",
                "err": "lstat /x: file name too long",
            },
            None,
        ),
        Line(
            'E0303 10:00:00.000001    2000 kubelet_pods.go:349] "Failed to prepare subPath '
            'for volumeMount of the container" err="no" containerName="app" volumeMountName="work"',
            "Failed to prepare subPath for volumeMount of the container",
            {"volumeMountName": "work", "containerName": "app", "err": "no"},
            None,
        ),
        Line(
            'E0303 10:00:00.000001    2000 kubelet.go:1941] "Unable to make pod data directories '
            'for pod" err="no space left on device" pod="shop/web"',
            "Unable to make pod data directories for pod",
            {"pod": "shop/web"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            'E0303 10:00:00.000001    2000 kuberuntime_manager.go:1664] "Unhandled Error" '
            'err="container c start failed in pod '
            'web_shop(0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2): ErrImagePull: not found" '
            'logger="UnhandledError"',
            "Unhandled Error",
            {},
            "lifecycle.PodStageFailed",
        ),
        Line(
            "E0303 10:00:00.000001    2000 kuberuntime_manager.go:815] container "
            "&Container{Name:c,Image:web:1,Command:[]} start failed in pod "
            "web_shop(0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2): CreateContainerConfigError: secret "
            '"key" not found',
            "Unhandled Error",
            {},
            "lifecycle.PodStageFailed",
        ),
        Line(
            "E0303 10:00:00.000001    2000 nestedpendingoperations.go:301] Operation for "
            '"{volumeName:kubernetes.io/secret/0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2-key '
            'podName:0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2 nodeName:}" failed. No retries '
            "permitted until 2026-03-03 10:00:00.5 +0000 UTC m=+16.2 (durationBeforeRetry "
            '500ms). Error: "MountVolume.SetUp failed for volume \\"key\\" (UniqueName: '
            '\\"kubernetes.io/secret/0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2-key\\") pod \\"web\\" '
            '(UID: \\"0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2\\") : secret \\"key\\" not found"',
            "No retries permitted",
            {},
            "lifecycle.PodStageFailed",
        ),
        Line(
            "E0303 10:00:00.000001    2000 kubelet.go:1733] Unable to attach or mount volumes "
            'for pod "web_shop(0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2)": unmounted volumes=[data], '
            "unattached volumes=[data]: timed out waiting for the condition; skipping pod",
            "Unable to attach or mount volumes for pod; skipping pod",
            {
                "pod": "web_shop(0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2)",
                "err": "unmounted volumes=[data], unattached volumes=[data]: timed out waiting "
                "for the condition",
            },
            "lifecycle.PodStageFailed",
        ),
        Line(
            "E0303 10:00:00.000001    2000 kubelet_volumes.go:154] orphaned pod "
            '"0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2" found, but volume paths are still present on '
            "disk : There were a total of 3 errors similar to this. Turn up verbosity to see "
            "them.",
            "Orphan pod",
            {},
            "lifecycle.PodStageFailed",
        ),
        Line(
            "E0303 10:00:00.000001    2000 kuberuntime_manager.go:741] createPodSandbox for pod "
            '"web_shop(0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2)" failed: no network',
            "CreatePodSandbox for pod failed",
            {"err": "no network"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            "E0303 10:00:00.000001    2000 kuberuntime_sandbox.go:69] CreatePodSandbox for pod "
            '"web_shop(0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2)" failed: no network',
            "Failed to create sandbox for pod",
            {"err": "no network"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            "E0303 10:00:00.000001    2000 desired_state_of_world_populator.go:338] Error "
            'processing volume "data" for pod "web_shop(0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2)": '
            "no such claim",
            "Error processing volume",
            {"volumeName": "data"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            "E0303 10:00:00.000001    2000 desired_state_of_world_populator.go:352] Failed to "
            'add volume data (specName: pv-1) for pod "0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2" to '
            "desiredStateOfWorld: no plugin",
            "Failed to add volume to desiredStateOfWorld",
            {"volumeName": "data", "podUID": "0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            "W0303 10:00:00.000001    2000 pod_container_manager_linux.go:210] failed to delete "
            "cgroup paths for [kubepods burstable pod0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2] : "
            "device or resource busy",
            "Failed to delete cgroup paths",
            {"err": "device or resource busy"},
            "lifecycle.PodStageFailed",
        ),
        Line(
            "E0303 10:00:00.000001    2000 pod_workers.go:184] Error syncing pod "
            '0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2, skipping: failed to "StartContainer" for "c" '
            'with RunContainerError: "no such file"',
            "Error syncing pod, skipping",
            {"podUID": "0f5c2a7e-9b1d-4c36-8e44-5a7d10b3c9f2"},
            "lifecycle.PodStageFailed",
        ),
    ),
    "resizes": tuple(Line(*row) for row in rows(RESIZES)),
    "topology": (
        Line(
            'I1122 08:01:30.732437   22260 scope_pod.go:49] "Best TopologyHint" '
            'bestHint={"NUMANodeAffinity":null,"Preferred":true} pod="default/iw-a"',
            "ContainerTopologyHint",
            {"bestHint": {"NUMANodeAffinity": None, "Preferred": True}, "pod": "default/iw-a"},
            "topologymanager.AffinityDecided",
        ),
        Line(
            'I1121 03:07:08.164603   30095 topology_manager.go:274] "Pod Admit Result" '
            'Message="" pod="default/gpu-a-node-b"',
            "Pod Admit Result",
            {"pod": "default/gpu-a-node-b", "message": ""},
            None,
        ),
        Line(
            'I1122 07:55:21.330996   22260 scope_pod.go:83] "PodTopologyHint" '
            'bestHint={"NUMANodeAffinity":null,"Preferred":true}',
            "ContainerTopologyHint",
            {"bestHint": {"NUMANodeAffinity": None, "Preferred": True}},
            None,
        ),
        Line(
            'I1122 08:01:30.732442   22260 scope_pod.go:56] "Topology Affinity" '
            'bestHint={"NUMANodeAffinity":null,"Preferred":true} pod="default/iw-a" '
            'containerName="app"',
            "Topology Affinity",
            {
                "bestHint": {"NUMANodeAffinity": None, "Preferred": True},
                "pod": "default/iw-a",
                "containerName": "app",
            },
            "topologymanager.AffinityDecided",
        ),
        Line(
            "I1121 02:52:41.559463    8337 topology_manager.go:120] [topologymanager] "
            "Creating topology manager with best-effort policy per container scope",
            "Creating topology manager with policy per scope",
            {"topologyPolicyName": "best-effort", "topologyScopeName": "container"},
            "node.SettingsObserved",
        ),
        Line(
            "I1121 03:00:32.009176    8337 scope_container.go:80] [topologymanager] "
            "TopologyHints for pod 'too-big_default(9f62a548-f34a-4eff-9521-ec8f90c0b239)', "
            "container 'c': map[]",
            "TopologyHints",
            {
                "pod": "too-big_default(9f62a548-f34a-4eff-9521-ec8f90c0b239)",
                "containerName": "c",
                "hints": "map[]",
            },
            "topologymanager.HintsGenerated",
        ),
        Line(
            "I1121 02:54:06.016202    8337 scope_container.go:88] [topologymanager] "
            "ContainerTopologyHint: {01 true}",
            "ContainerTopologyHint",
            {"bestHint": "{01 true}"},
            None,
        ),
        Line(
            "I1121 03:00:32.009222    8337 scope_container.go:53] [topologymanager] Best "
            "TopologyHint for (pod: too-big_default(9f62a548-f34a-4eff-9521-ec8f90c0b239) "
            "container: c): {01 true}",
            "ContainerTopologyHint",
            {
                "pod": "too-big_default(9f62a548-f34a-4eff-9521-ec8f90c0b239)",
                "containerName": "c",
                "bestHint": "{01 true}",
            },
            "topologymanager.AffinityDecided",
        ),
        Line(
            "I1121 03:00:32.009227    8337 scope_container.go:63] [topologymanager] Topology "
            "Affinity for (pod: too-big_default(9f62a548-f34a-4eff-9521-ec8f90c0b239) "
            "container: c): {01 true}",
            "Topology Affinity",
            {
                "pod": "too-big_default(9f62a548-f34a-4eff-9521-ec8f90c0b239)",
                "containerName": "c",
                "affinity": "{01 true}",
            },
            "topologymanager.AffinityDecided",
        ),
        Line(
            "I1121 03:03:25.807141   26468 policy.go:78] [topologymanager] Hint Provider has "
            "no preference for NUMA affinity with resource 'vendor.io/nic'",
            "Hint Provider has no preference for NUMA affinity with resource",
            {"resource": "vendor.io/nic"},
            None,
        ),
        Line(
            "I1121 03:00:17.802180    8337 policy.go:84] [topologymanager] Hint Provider has "
            "no possible NUMA affinities for resource 'example.com/gpu'",
            "Hint Provider has no possible NUMA affinities for resource",
            {"resource": "example.com/gpu"},
            None,
        ),
    ),
}
