"""True histories: the recorded nodes, the golden recordings, simulated and random nodes.

Simulated nodes write every probe tick as a record of its own, so that each record is what one
line of a log, or one file beside it, tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Literal

import msgspec

from kubeledger.analyze.histories.history import histories_of_recording
from kubeledger.model.bodies.resourcemanagers import (
    MemoryManagerStateRead,
    MemoryStateRefused,
    MemoryTable,
)
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.plan import KubeletRestart
from kubeledger.simulate.engine.sim import Sim
from kubeledger.simulate.scenario.load import load_scenario
from kubeledger.simulate.scenario.plan import to_plan
from tests.random_scenarios import random_plan
from tests.recordings import RECORDINGS
from tests.verify.histories import recorded

_HOUR_NS = 3_600 * NS_PER_S

Source = Literal["log", "lists", "settings", "node", "statistics", "metrics", "checkpoints",
                 "cgroups", "events", "kernel", "ledger"]  # fmt: skip
"""What files a record is read from, where it has no evidence that tells."""

_SOURCES: dict[str, Source] = {
    "allocation.PodsStateRead": "checkpoints",
    "cgroups.CgroupObserved": "cgroups",
    "cgroups.CgroupRemoved": "cgroups",
    "cgroups.CgroupUpdated": "cgroups",
    "cpumanager.CpuManagerStateRead": "checkpoints",
    "devicemanager.CheckpointRead": "checkpoints",
    "dra.DraManagerStateRead": "checkpoints",
    "eviction.PodUsageObserved": "statistics",
    "images.ImageFsObserved": "statistics",
    "lifecycle.PodListed": "lists",
    "lifecycle.ReasonReported": "events",
    "memorymanager.MemoryManagerStateRead": "checkpoints",
    "node.NodeObserved": "node",
    "node.SettingsObserved": "settings",
    "oom.OutOfMemory": "kernel",
    "oom.ProcessKilled": "kernel",
    "prober.ProbeCountersRead": "metrics",
}

RECORDED = ("node-a", "node-b", "node-e-evictions", "node-e-oom", "node-f")
SCENARIOS = tuple(
    sorted(
        path.stem for path in (RECORDINGS / "scenarios").glob("*.yaml") if path.stem != "node-day"
    )
)

_REFUSED: dict[str, dict[str, Any]] = {
    "cpus": {"cpuManagerPolicyOptions": {"strict-cpu-reservation": "true"}},
    "memory": {
        "reservedMemory": [
            {"numaNode": 0, "limits": {"memory": "1536Mi"}},
            {"numaNode": 1, "limits": {"memory": "512Mi"}},
        ]
    },
}
"""Scenario -> settings with which the next kubelet does not start."""
_MORE_BYTES = 512 << 20
"""So much more of NUMA node 0 they reserve."""


class Truth(msgspec.Struct, frozen=True):
    """A history in which nothing is wrong.

    Attributes:
        name: brings it back (``named``).
        records: in the order of replay.
        simulated: no log was read: its records are those of the simulator.
    """

    name: str
    records: tuple[Record, ...]
    simulated: bool


def source_of(record: Record) -> Source:
    """The kind of file that tells a record."""
    if record.kind.startswith("ledger."):
        return "ledger"
    return _SOURCES.get(record.kind, "log")


@cache
def named(name: str) -> Truth:
    """A recorded node, ``golden/NAME``, ``scenario/NAME/SEED``, ``random/NUMBER``, ``long/NUMBER``.

    A long one is a random one that goes on for an hour. In ``refused/cpus`` and ``refused/memory``
    a kubelet does not start with the state file of the one before.
    """
    first, _, rest = name.partition("/")
    if first == "golden":
        (history,) = histories_of_recording(RECORDINGS / "golden" / f"{rest}.ledger.jsonl")
        return Truth(name, tuple(history.read(None)), False)
    if first in ("random", "long"):
        plan = random_plan(int(rest))
        if first == "long":
            plan = msgspec.structs.replace(plan, duration_ns=plan.duration_ns + _HOUR_NS)
    elif first == "refused":
        plan = to_plan(load_scenario(RECORDINGS / "scenarios" / f"{rest}.yaml"))
        other = plan.settings | _REFUSED[rest]
        restart = KubeletRestart(at_ns=plan.duration_ns // 2, down_ns=NS_PER_S, settings=other)
        plan = msgspec.structs.replace(plan, kubelet_version="1.36.2", kubelet_restarts=(restart,))
    elif first == "scenario":
        path, _, seed = rest.partition("/")
        loaded = load_scenario(RECORDINGS / "scenarios" / f"{path}.yaml")
        plan = to_plan(loaded, seed=int(seed))
    else:
        return Truth(name, recorded(name), False)
    plan = msgspec.structs.replace(plan, every_tick=True)
    records = Sim(plan).run()
    told = _with_tables(records) if name == "refused/memory" else records
    return Truth(name, tuple(told), True)


def _with_tables(records: Iterable[Record]) -> Iterator[Record]:
    """As the log tells the first table that differs, where a kubelet refuses the memory's file."""
    stored: MemoryTable | None = None
    for record in records:
        body = record.body
        if isinstance(body, MemoryManagerStateRead):
            stored = body.machine["0"].memory["memory"] if "0" in body.machine else None
        elif isinstance(body, MemoryStateRefused) and stored is not None:
            more = _MORE_BYTES
            expected = msgspec.structs.replace(
                stored, system_reserved_bytes=stored.system_reserved_bytes + more,
                allocatable_bytes=stored.allocatable_bytes - more,
                free_bytes=stored.free_bytes - more,
            )  # fmt: skip
            told = msgspec.structs.replace(
                body, numa_node=0, type="memory", stored=stored, expected=expected
            )
            record = msgspec.structs.replace(record, body=told)
        yield record


def golden_names() -> list[str]:
    """All golden recordings."""
    paths = (RECORDINGS / "golden").glob("*.ledger.jsonl")
    return sorted(f"golden/{path.name.removesuffix('.ledger.jsonl')}" for path in paths)


def truths(seed: int, count: int) -> Iterator[Truth]:
    """Simulated histories: every scenario in turn, and random nodes between them."""
    for i in range(count):
        scenario = SCENARIOS[(seed + i // 2) % len(SCENARIOS)]
        number = seed * 1000 + i
        yield named(f"random/{number}" if i % 2 else f"scenario/{scenario}/{number}")
