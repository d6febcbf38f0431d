"""Random scenarios: what CPU, memory, allocation and DRA managers get to decide."""

from typing import Any, Final

from kubeledger.kubelet.profile.facts import parse_version
from kubeledger.kubelet.profile.resolve import resolve
from tests.chance import Chance

_CPUS_MIN: Final = 4
_CPU_OPTIONS: Final = {
    "full-pcpus-only": 22,
    "distribute-cpus-across-numa": 23,
    "prefer-align-cpus-by-uncorecache": 33,
}
"""Option of the static policy -> minor version that has it first."""
_SIDECARS_KEEP: Final = 29
_CRITICAL: Final = 2_000_000_000
_DRIVERS: Final = ("gpu.example.com", "nic.example.com")


def give_managers(chance: Chance, scenario: dict[str, Any]) -> None:
    """Let a scenario, which has all else, decide something in some of its managers.

    Args:
        chance: what is drawn.
        scenario: that is changed.
    """
    profile = resolve(scenario["kubeletVersion"])
    if scenario["node"]["cpus"] >= _CPUS_MIN and chance.of("static CPUs").happens(40):
        _give_cpus(chance.of("CPUs"), scenario)
    memory = profile.resourcemanagers.memory_manager_gate_on
    if memory and chance.of("static memory").happens(40):
        _give_memory(chance.of("NUMA memory"), scenario)
    if profile.kuberuntime.resizes_in_place and chance.of("resizes").happens(60):
        for number, planned in enumerate(scenario["pods"]):
            end = planned.get("deleted", scenario["duration"])
            _resize(chance.of(f"resize {number}"), planned, int(end.removesuffix("s")))
    if profile.stages.dynamic_resources and chance.of("claims").happens(30):
        _claim(chance.of("claim"), scenario)


def _give_cpus(chance: Chance, scenario: dict[str, Any]) -> None:
    """The static policy, and pods that get CPUs alone.

    Without strict reservation, with which the shared pool may become empty, and without sidecars
    for kubelets up to 1.28, which give their CPUs to others as well.
    """
    node, config = scenario["node"], scenario["config"]
    node["sockets"], node["threadsPerCore"] = chance.one((1, 1), (1, 2), (2, 1), (2, 2))
    if chance.happens(50):
        node["uncoreCaches"] = 2
    config |= {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}
    since = parse_version(scenario["kubeletVersion"]).minor
    options = {name: "true" for name, first in _CPU_OPTIONS.items()
               if first <= since and chance.happens(30)}  # fmt: skip
    if not {"distribute-cpus-across-numa", "prefer-align-cpus-by-uncorecache"} <= options.keys():
        config["cpuManagerPolicyOptions"] = options
    config["featureGates"] = config.get("featureGates", {}) | {"CPUManagerPolicyAlphaOptions": True}
    for planned in scenario["pods"]:
        spec = planned["pod"]["spec"]
        containers = (*spec.get("initContainers", ()), *spec["containers"])
        shares = any("restartPolicy" in each for each in containers)
        if chance.happens(50) and not (shares and since < _SIDECARS_KEEP):
            for container in containers:
                resources = container.setdefault("resources", {})
                amounts = {"cpu": chance.number(1, 3), "memory": "32Mi"}
                resources["limits"] = resources.get("limits", {}) | amounts
                resources["requests"] = resources.get("requests", {}) | amounts


def _give_memory(chance: Chance, scenario: dict[str, Any]) -> None:
    """The static memory manager, and pods that want much of a NUMA node, or of several."""
    node, config = scenario["node"], scenario["config"]
    parts = [chance.number(50, 350)]
    parts.append(400 - parts[0])
    numbers = sorted(chance.one(node["numaNodes"], node["numaNodes"][:1]))[:2]
    kept = parts if len(numbers) > 1 else [400]
    config.pop("systemReserved", None)
    config |= {
        "memoryManagerPolicy": "Static",
        "kubeReserved": {"cpu": "100m", "memory": "300Mi"},
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "5%"},
        "reservedMemory": [
            {"numaNode": number, "limits": {"memory": f"{mib}Mi"}}
            for number, mib in zip(numbers, kept, strict=True)
        ],
    }
    part = int(node["memory"].removesuffix("Gi")) * 1024 // len(node["numaNodes"])
    for planned in scenario["pods"]:
        spec = planned["pod"]["spec"]
        if not chance.happens(60):
            continue
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            resources = container.setdefault("resources", {})
            mib = chance.number(part // 8, part + part // 4) // len(spec["containers"])
            own = {"cpu": resources.get("limits", {}).get("cpu", "100m"), "memory": f"{mib}Mi"}
            resources["limits"] = resources.get("limits", {}) | own
            resources["requests"] = resources.get("requests", {}) | own


def _resize(chance: Chance, planned: dict[str, Any], end: int) -> None:
    """A pod of which containers ask for other amounts, and no other class comes of it."""
    spec = planned["pod"]["spec"]
    critical = "priorityClassName" in spec or spec.get("priority", 0) >= _CRITICAL
    if planned["source"] == "file" or critical or chance.happens(20):
        return
    at = int(planned["arrives"].removesuffix("s"))
    while (at := at + chance.number(10, 90)) < end:
        container = chance.one(*spec["containers"])
        resources = container["resources"]
        limits, alike = resources.get("limits", {}), "requests" not in resources
        free = [name for name in ("cpu", "memory") if alike == (name in limits)]
        if not resources or not free:
            continue
        amounts = {
            "cpu": f"{chance.number(10, chance.one(500, 3000))}m",
            "memory": f"{chance.number(16, 2000)}Mi",
        }
        asked = {name: amounts[name] for name in chance.some(free)}
        wanted = {"requests": asked} | ({"limits": asked} if alike else {})
        update = {"at": f"{at}s", "resources": {container["name"]: wanted}}
        planned.setdefault("updates", []).append(update)


def _claim(chance: Chance, scenario: dict[str, Any]) -> None:
    """Claims of API pods: one that many share, not all of them being allowed to, or their own."""
    pods = [each for each in scenario["pods"] if each["source"] == "api"]
    shared: list[str] = []
    for planned in pods:
        pod = planned["pod"]
        if pod["metadata"]["namespace"] == "default" and chance.happens(60):
            shared.append(pod["metadata"]["name"])
            _name_claim(pod["spec"], {"name": "shared", "resourceClaimName": "shared"})
        if chance.happens(30):
            _name_claim(pod["spec"], {"name": "own", "resourceClaimTemplateName": "own"})
    if not shared:
        return
    devices = {name: [f"{name[:3]}-{n}" for n in range(chance.number(1, 2))]
               for name in chance.some(_DRIVERS)}  # fmt: skip
    claim: dict[str, Any] = {"name": "shared", "drivers": devices}
    if chance.happens(50):
        claim["reservedFor"] = chance.some(shared)
    scenario["claims"] = [claim]
    seconds = int(scenario["duration"].removesuffix("s"))
    if chance.happens(50):
        failure = {"what": "driver", "of": chance.one(*devices)}
        begin = chance.number(0, seconds // 2)
        failure |= {"from": f"{begin}s", "for": f"{chance.number(20, 200)}s"}
        scenario["failures"] = [failure]


def _name_claim(spec: dict[str, Any], claim: dict[str, str]) -> None:
    spec.setdefault("resourceClaims", []).append(claim)
    resources = spec["containers"][0].setdefault("resources", {})
    resources.setdefault("claims", []).append({"name": claim["name"]})
