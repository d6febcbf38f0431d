"""Every outcome that a run of allocations can have, by trying each choice of map order.

A second, plain account of the kubelet's steps, independent of the deciders: it walks them one
device at a time, asks ``Choices`` wherever Go iterates over a map, and is run again and again
until all answers have been tried. Only small cases are feasible.
"""

from collections.abc import Iterator
from typing import Any

from tests.kubelet.cases.conformance import canonical

Case = dict[str, Any]


class Choices:
    """Answers in the order asked, the last one counted up from run to run."""

    def __init__(self) -> None:
        self._answers: list[list[int]] = []
        self._at = 0

    def shuffled(self, items: list[Any]) -> Iterator[Any]:
        """The items in some order; what is not asked for is not chosen."""
        left = sorted(items)
        while left:
            yield left.pop(self._pick(len(left)))

    def next_run(self) -> bool:
        """Go on to other answers; False when there are none."""
        self._at = 0
        while self._answers and self._answers[-1][0] + 1 >= self._answers[-1][1]:
            self._answers.pop()
        if not self._answers:
            return False
        self._answers[-1][0] += 1
        return True

    def _pick(self, count: int) -> int:
        if count == 1:
            return 0
        if self._at == len(self._answers):
            self._answers.append([0, count])
        self._at += 1
        return self._answers[self._at - 1][0]


def every_outcome(case: Case, *, fixed: bool, sidecars: bool) -> set[bytes]:
    """All outcomes as canonical JSON.

    Args:
        case: input of a devices case.
        fixed: the kubelet sorts NUMA nodes by affinity and checks health first (1.28 on), and
            records devices without topology under -1.
        sidecars: restartable init containers keep their devices (1.29 on).
    """
    choices, outcomes = Choices(), set()
    while True:
        run = _Run(case, choices, fixed=fixed, sidecars=sidecars)
        steps = [run.step(step) for step in case["steps"]]
        outcomes.add(canonical({"steps": steps}))
        if not choices.next_run():
            return outcomes


class _Run:
    """One run, the answers given."""

    def __init__(self, case: Case, choices: Choices, *, fixed: bool, sidecars: bool) -> None:
        self.choices, self.fixed, self.sidecars = choices, fixed, sidecars
        self.resources = case["resources"]
        self.nodes = {
            (name, d["ID"]): d.get("numaNodes") or []
            for name, r in self.resources.items()
            for d in r["devices"]
        }
        self.held: dict[tuple[str, str], dict[str, list[str]]] = {}
        for entry in case["allocated"]:
            ids = [d for on_node in entry["deviceIDs"].values() for d in on_node]
            mine = self.held.setdefault((entry["podUID"], entry["containerName"]), {})
            mine[entry["resourceName"]] = ids
        self.active = {*case["activePods"], *(s["pod"]["metadata"]["uid"] for s in case["steps"])}
        self.reuse: dict[str, set[str]] = {}
        self.pod = ""
        self.rebuild()

    def rebuild(self) -> None:
        self.used: dict[str, set[str]] = {}
        for of_container in self.held.values():
            for name, ids in of_container.items():
                self.used.setdefault(name, set()).update(ids)

    def step(self, step: Case) -> Case:
        spec, uid = step["pod"]["spec"], step["pod"]["metadata"]["uid"]
        if uid != self.pod:
            self.pod, self.reuse = uid, {}
        inits = spec.get("initContainers", [])
        (container,) = (c for c in inits + spec["containers"] if c["name"] == step["container"])
        error = self.allocate(uid, container, step["affinity"])
        mine = self.held.get((uid, container["name"]), {})
        if not error:
            passes_on = container in inits and not (
                self.sidecars and container.get("restartPolicy") == "Always"
            )
            for name, ids in mine.items():
                before = self.reuse.get(name, set())
                self.reuse[name] = before | set(ids) if passes_on else before - set(ids)
        return {"error": error, "devices": {n: self.by_node(n, ids) for n, ids in mine.items()}}

    def by_node(self, name: str, ids: list[str]) -> dict[str, list[str]]:
        nodeless = [-1] if self.fixed else [0]
        record: dict[str, list[str]] = {}
        for device in sorted(ids):
            for node in self.nodes[name, device] or nodeless:
                record.setdefault(str(node), []).append(device)
        return record

    def allocate(self, uid: str, container: Case, affinity: list[int] | None) -> str:
        collected = False
        limits = container["resources"].get("limits", {})
        for name in self.choices.shuffled(list(limits)):
            if name not in self.resources and name not in self.used:
                continue
            if not collected and any(pod not in self.active for pod, _ in self.held):
                self.held = {k: v for k, v in self.held.items() if k[0] in self.active}
                self.rebuild()
            collected = True
            error, ids = self.choose(name, int(limits[name]), affinity)
            if error:
                return error
            if not ids:
                continue
            plugin = self.resources[name]
            failure = (
                f"unknown Device Plugin {name}" if plugin["noEndpoint"] else plugin["allocateError"]
            )
            if failure:
                self.rebuild()
                return str(failure)
            self.held.setdefault((uid, container["name"]), {})[name] = ids
        return ""

    def choose(self, name: str, n: int, affinity: list[int] | None) -> tuple[str, list[str]]:
        healthy = {d["ID"] for d in self.resources[name]["devices"] if d["health"] == "Healthy"}
        if self.fixed and not healthy:
            return f"no healthy devices present; cannot allocate unhealthy devices {name}", []
        if not n:
            return "", []
        picked: list[str] = []
        used = self.used.setdefault(name, set())

        def take(devices: set[str]) -> bool:
            for device in self.choices.shuffled([d for d in devices if d not in picked]):
                picked.append(device)
                used.add(device)
                if len(picked) == n:
                    return True
            return False

        if take(self.reuse.get(name, set())):
            return "", picked
        free, k = healthy - used, n - len(picked)
        if len(free) < k:
            return (
                f"requested number of devices unavailable for {name}. "
                f"Requested: {k}, Available: {len(free)}"
            ), []
        aligned, unaligned, none = self.filtered(name, free, affinity)
        if k < len(aligned):
            error, preferred = self.preferred(name, aligned, picked, n)
            _ = error or take(preferred & aligned) or take(aligned)
            return error, picked
        if take(aligned):
            return "", picked
        error, preferred = self.preferred(name, free, picked, n)
        _ = error or take(preferred & free) or take(unaligned) or take(none)
        return error, picked

    def preferred(
        self, name: str, offered: set[str], picked: list[str], n: int
    ) -> tuple[str, set[str]]:
        plugin = self.resources[name]
        if plugin["noEndpoint"]:
            return f"endpoint not found in cache for a registered resource: {name}", set()
        if plugin["preferredOrder"] is None:
            return "", set()
        order = [d for d in plugin["preferredOrder"] if d in offered and d not in picked]
        return "", set((picked + order)[:n])

    def filtered(
        self, name: str, free: set[str], affinity: list[int] | None
    ) -> tuple[set[str], set[str], set[str]]:
        topologies = [d.get("numaNodes") for d in self.resources[name]["devices"]]
        if affinity is None or not any(t if self.fixed else t is not None for t in topologies):
            return set(), set(), set(free)
        nodes = sorted({node for d in free for node in self.nodes[name, d]})
        # A node order matters only as far as devices with several nodes go.
        if self.fixed:
            nodes.sort(key=lambda node: node not in affinity)
        elif any(len(self.nodes[name, d]) > 1 for d in free):
            nodes = list(self.choices.shuffled(nodes))
        sets: tuple[set[str], set[str], set[str]] = (set(), set(), set())
        for device in free:
            first = next((node for node in nodes if node in self.nodes[name, device]), None)
            sets[2 if first is None else 0 if first in affinity else 1].add(device)
        return sets
