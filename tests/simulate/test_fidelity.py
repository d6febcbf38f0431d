"""The two recorded nodes, simulated: same decisions, same order, at times within a retry."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kubeledger.machine import Record
from kubeledger.scenario import load_scenario, to_plan
from kubeledger.simulate.sim import Sim
from tests.recordings import RECORDINGS, import_recording
from tests.simulate.fidelity import Compared, Pair, compare, orders, table

Node = tuple[str, list[Record], list[Record]]

EXPLAINED = {
    # Images were listed while they were removed, so their age counted from then (1.20.2).
    ("node-a", "images.ImageDeleted", 2): "5e3c775663b8 1330bc95f1ec",
    ("node-a", "images.GarbageCollected", 3): "",
    # The amounts stand in the error's text alone; the simulation has them as a field, too.
    ("node-b", "preemption.PreemptionFailed", 1): "too-big",
    # The log ends before a list shows the container.
    ("node-b", "lifecycle.ContainerRestarted", 6): "live-fail",
}
"""Node, kind, number -> parts of the subjects; docs/simulation.md says it at length."""

_RETRY_S = 15
"""A failed start is tried again after ten seconds and up to half of that."""
_WITHIN_S = {
    "lifecycle.ContainerKilled": _RETRY_S,
    "lifecycle.ContainerRestarted": _RETRY_S,
    "lifecycle.RestartBackedOff": _RETRY_S,
    "prober.ProbeTransitioned": _RETRY_S,
}


@pytest.fixture(scope="module", params=["node-a", "node-b"])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Node:
    """A node's name, its recording and its simulation."""
    name: str = request.param
    ledger, _ = import_recording(name, tmp_path_factory.mktemp("recorded") / "ledger")
    plan = to_plan(load_scenario(RECORDINGS / "scenarios" / f"{name}.yaml"))
    return name, list(ledger.records(name)), list(Sim(plan).run())


@pytest.fixture(scope="module")
def compared(node: Node) -> list[Compared]:
    """Both, side by side."""
    found = compare(node[1], node[2])
    print(f"\n{node[0]}\n{table(found)}")
    return found


def _told(name: str, pair: Pair) -> bool:
    parts = EXPLAINED.get((name, pair.kind, pair.number))
    return parts is not None and (not parts or any(p in pair.subject for p in parts.split()))


def test_the_same_is_decided(node: Node, compared: list[Compared]) -> None:
    """All but what is explained, which is all there."""
    odd = [p for each in compared for p in each.odd if not each.kind.startswith("cgroups.")]
    assert [pair for pair in odd if not _told(node[0], pair)] == []
    expected = sum(max(len(v.split()), 1) for k, v in EXPLAINED.items() if k[0] == node[0])
    assert len(odd) == expected


def test_in_the_same_order(node: Node) -> None:
    """Of each pod: admission, devices, probes, kills, back-offs, restarts."""
    recorded, simulated = orders(node[1]), orders(node[2])
    assert recorded
    for pod in recorded.keys() | simulated.keys():
        assert simulated.get(pod) == recorded.get(pod), pod


def test_at_about_the_same_time(compared: list[Compared]) -> None:
    """Within a second, and what follows a retry with jitter within that."""
    late = [
        pair
        for each in compared
        if not each.kind.startswith("cgroups.")
        for pair in each.both
        if abs(pair.apart_s) > _WITHIN_S.get(each.kind, 1)
    ]
    assert late == []


def test_cgroups_have_the_same_values(compared: list[Compared]) -> None:
    """What differs is due to when the agent looked, and to what the machine had before."""
    pairs = [p for each in compared if each.kind.startswith("cgroups.Cgroup") for p in each.odd]
    assert [pair for pair in pairs if not any(reason(pair) for reason in _REASONS)] == []


def _short(pair: Pair) -> bool:
    """A container's cgroup that lived about as long as the agent pauses."""
    alone = None in (pair.recorded_ns, pair.simulated_ns)
    return alone and pair.subject.endswith("/app>")


def _before(pair: Pair) -> bool:
    """Limits that another kubelet had left on the machine, and the limit of its kernel."""
    of_level = pair.subject in ("kubepods", "kubepods/burstable", "kubepods/besteffort")
    return of_level and pair.fields.keys() in ({"memory_limit_bytes"}, {"other"})


_REASONS: tuple[Callable[[Pair], bool], ...] = (_short, _before)


def test_a_difference_is_found(node: Node) -> None:
    """A decision that is left out is missed, and one that is changed differs."""
    simulated = node[2]
    last = max(i for i, r in enumerate(simulated) if r.kind == "lifecycle.PodAdmitted")
    found = compare(simulated, simulated[:last] + simulated[last + 1 :])
    assert [(p.kind, p.simulated_ns) for each in found for p in each.odd] == [
        ("lifecycle.PodAdmitted", None)
    ]
