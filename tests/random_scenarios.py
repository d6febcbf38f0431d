"""Random scenarios: each is drawn from one number, so that the number alone brings it back.

They are small nodes on which a lot happens in few minutes: pods of all kinds come, end, are
killed and deleted, devices fall ill, disks fill, the kubelet restarts. Every one is sound: a
scenario that is refused is a defect here.
"""

from pathlib import Path
from typing import Any, TypeVar

from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.simulate.engine.plan import Plan
from kubeledger.simulate.engine.schedule import Draws
from kubeledger.simulate.scenario.load import load_data
from kubeledger.simulate.scenario.plan import to_plan
from kubeledger.simulate.scenario.validate import Document
from tests.chance import Chance
from tests.random_managers import give_managers
from tests.random_pods import random_pods

T = TypeVar("T")

VERSIONS = ("1.20.2", "1.28.0", "1.30.14", "1.33.13", "1.34.9", "1.35.6", "1.36.2")
_GPU, _NIC = "example.com/gpu", "example.com/nic"


def random_plan(seed: int) -> Plan:
    """What the engine runs for a number."""
    return plan_of(random_scenario(seed))


def plan_of(scenario: dict[str, Any]) -> Plan:
    """A scenario's plan.

    Raises:
        ScenarioError: the scenario is not sound.
    """
    return to_plan(load_data(Document(file="random", data=scenario), Path()))


def random_scenario(seed: int) -> dict[str, Any]:
    """The scenario of a number, in the form of a scenario's file."""
    chance = Chance(Draws(seed, "random scenario"))
    version = chance.one(*VERSIONS)
    seconds = chance.one(120, 240, 400, 700)
    node = _node(chance.of("node"))
    pins = resolve(version).images.pinned_images_kept
    images = _images(chance.of("images"), seconds, node, pins=pins)
    plugins = _plugins(chance.of("plugins"), node["numaNodes"], seconds)
    scenario = {
        "kubeletVersion": version,
        "seed": seed,
        "duration": f"{seconds}s",
        "node": node,
        "config": _config(chance.of("config"), version, node),
        "plugins": plugins,
        "images": images,
        "pods": random_pods(
            chance.of("pods"),
            sidecars=resolve(version).prober.restartable_init_containers,
            cpus=node["cpus"],
            resources=[plugin["resource"] for plugin in plugins],
            images=[image["name"] for image in images if "at" not in image],
            seconds=seconds,
        ),
        "diskChanges": _disk_changes(chance.of("disks"), node, seconds),
        "kubeletRestarts": _restarts(chance.of("restarts"), seconds),
        "snapshotEvery": chance.one("15s", "15s", "5s", "40s"),
        "everyTick": chance.happens(20),
        "shuffle": chance.happens(30),
    }
    give_managers(chance, scenario)
    return scenario


def _node(chance: Chance) -> dict[str, Any]:
    node: dict[str, Any] = {
        "name": "random",
        "cpus": chance.one(1, 2, 4, 8),
        "memory": chance.one("2Gi", "4Gi", "16Gi"),
        "numaNodes": chance.one([0], [0], [0, 1], [0, 1], [0, 1, 2, 3]),
        "cgroupVersion": chance.one(1, 2),
        "cgroupDriver": chance.one("cgroupfs", "systemd"),
        "disk": {"size": "40Gi", "used": f"{chance.number(0, 24)}Gi"},
    }
    if chance.happens(25):
        node["imageDisk"] = {"size": "20Gi", "used": f"{chance.number(0, 10)}Gi"}
    if chance.happens(15):
        effect = chance.one("NoSchedule", "NoExecute", "PreferNoSchedule")
        node["taints"] = [{"key": "example.com/own", "effect": effect}]
    return node


def _config(chance: Chance, version: str, node: dict[str, Any]) -> dict[str, Any]:
    high = chance.number(40, 95)
    config: dict[str, Any] = {
        "imageGCHighThresholdPercent": high,
        "imageGCLowThresholdPercent": chance.number(20, high - 1),
        "imageMinimumGCAge": chance.one("0s", "30s", "2m"),
        "topologyManagerPolicy": chance.one(
            "none", "best-effort", "restricted", "single-numa-node"
        ),
        "maxPods": chance.one(110, 110, 6, 3),
        "enforceNodeAllocatable": chance.one(["pods"], ["pods"], []),
    }
    if config["topologyManagerPolicy"] != "none":
        config["topologyManagerScope"] = chance.one("container", "pod")
    if chance.happens(40):
        config["kubeReserved"] = {"cpu": "100m", "memory": "128Mi"}
    if chance.happens(40):
        config["systemReserved"] = {"cpu": "50m", "memory": "100Mi"}
    if chance.happens(30):
        config["evictionHard"] = {
            "memory.available": chance.one("100Mi", "10%", "1Gi"),
            "nodefs.available": chance.one("10%", "5%"),
            "imagefs.available": "15%",
        }
    if chance.happens(15):
        config["evictionSoft"] = {"memory.available": "1200Mi"}
        config["evictionSoftGracePeriod"] = {"memory.available": "20s"}
        config["evictionMaxPodGracePeriod"] = 10
    if chance.happens(20):
        config["cpuCFSQuota"] = False
    if chance.happens(15):
        config["podPidsLimit"] = 1000
    gates = {}
    if resolve(version).admission.sidecars_forbidden:
        gates["SidecarContainers"] = True
    if chance.happens(15):
        gates["QOSReserved"] = True
        config["qosReserved"] = {"memory": chance.one("50%", "100%")}
    if version in ("1.35.6", "1.36.2") and node["cgroupVersion"] == 1:
        config["failCgroupV1"] = False
    if resolve(version).images.maximum_age_gate_on and chance.happens(25):
        config["imageMaximumGCAge"] = chance.one("3m", "6m")
    if gates:
        config["featureGates"] = gates
    return config


def _plugins(chance: Chance, numa: list[int], seconds: int) -> list[dict[str, Any]]:
    if chance.happens(35):
        return []
    resources = chance.one([_GPU], [_GPU, _NIC])
    return [_plugin(chance.of(each), each, numa, seconds) for each in resources]


def _plugin(chance: Chance, resource: str, numa: list[int], seconds: int) -> dict[str, Any]:
    short = resource.rpartition("/")[2]
    plain = chance.happens(25)
    devices: list[dict[str, Any]] = []
    for number in range(chance.number(1, 6)):
        device: dict[str, Any] = {"id": f"{short}-{number}"}
        if not plain:
            device["numa"] = numa if chance.happens(8) else chance.one(*numa)
        devices.append(device)
    plugin: dict[str, Any] = {"resource": resource, "devices": devices}
    if (preferred := chance.one(None, "first", "spread", "packed")) is not None:
        plugin["preferred"] = preferred
    if chance.happens(20):
        plugin["registers"] = "20s"
    events: list[dict[str, Any]] = []
    at = 25
    while chance.happens(45) and (at := at + chance.number(1, 90)) < seconds:
        events.append({"at": f"{at}s", **_event(chance, [device["id"] for device in devices])})
    return {**plugin, "events": events}


def _event(chance: Chance, devices: list[str]) -> dict[str, Any]:
    kind = chance.one("unhealthy", "unhealthy", "healthy", "crash", "register")
    return {kind: chance.some(devices) if kind in ("unhealthy", "healthy") else True}


def _images(
    chance: Chance, seconds: int, node: dict[str, Any], *, pins: bool
) -> list[dict[str, Any]]:
    """As many as fit on the disk; pinned ones only where the kubelet spares them."""
    disk = node.get("imageDisk", node["disk"])
    free_mi = 1024 * (int(disk["size"][:-2]) - int(disk["used"][:-2]))
    images: list[dict[str, Any]] = []
    for number in range(chance.number(1, 8)):
        size_mi = chance.number(10, 2000)
        if (free_mi := free_mi - size_mi) <= 0:
            break
        image: dict[str, Any] = {"name": f"registry.local/app{number}:1", "size": f"{size_mi}Mi"}
        if number and chance.happens(10) and pins:
            image["pinned"] = True
        if number and chance.happens(25):
            image["at"] = f"{chance.number(1, seconds - 1)}s"
        images.append(image)
    return images


def _disk_changes(chance: Chance, node: dict[str, Any], seconds: int) -> list[dict[str, Any]]:
    changes: list[dict[str, Any]] = []
    at = 0
    while chance.happens(40) and (at := at + chance.number(1, 300)) < seconds:
        change: dict[str, Any] = {"at": f"{at}s"}
        if "imageDisk" in node:
            change["disk"] = chance.one("node", "image")
        if chance.happens(70):
            change["bytes"] = f"{chance.one(-8, -2, 1, 4, 8, 14)}Gi"
        else:
            change["perHour"] = f"{chance.one(10, 60, 200)}Gi"
        changes.append(change)
    return changes


def _restarts(chance: Chance, seconds: int) -> list[dict[str, Any]]:
    restarts: list[dict[str, Any]] = []
    at = 0
    while chance.happens(30) and (at := at + chance.number(2, 300)) < seconds:
        down = chance.one(1, 10, 45)
        restarts.append({"at": f"{at}s", "down": f"{down}s"})
        at += down
    return restarts
