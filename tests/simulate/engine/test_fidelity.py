"""The two recorded nodes, simulated: same decisions, same order, at times within a retry.

With any seed: what a draw of the kubelet decides is free, and nothing else; see ``pod_histories``.
"""

from collections.abc import Callable
from functools import cache

import msgspec
import pytest

from kubeledger.model.record import Record
from kubeledger.simulate.engine.sim import Sim
from kubeledger.simulate.scenario import load_scenario, to_plan
from tests.recordings import RECORDINGS, import_recording
from tests.simulate.engine.fidelity import Compared, Pair, compare, orders, pulls, table
from tests.simulate.engine.pod_histories import KINDS

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

_PERIOD_S, _RETRY_S = 12, 31
"""Workers begin within a period; a retry comes after ten to sixteen seconds, in 1.36 when a
back-off is over, or after a minute, and up to half of that later."""
_WITHIN_S = {
    "lifecycle.ContainerKilled": _PERIOD_S,
    "lifecycle.ContainerRestarted": _RETRY_S,
    "lifecycle.RestartBackedOff": _RETRY_S,
    "prober.ProbeTransitioned": _PERIOD_S,
}
_NODES = tuple((name, seed) for seed in range(12) for name in ("node-a", "node-b"))
_DRAWN = [*_NODES[:8], *(pytest.param(node, marks=pytest.mark.nightly) for node in _NODES[8:])]
_LIVES_COMPARED = 0.5
"""Where a draw led elsewhere early, not much is left to compare: of all decisions in lives at
least so many are, with each seed, and nearly all with most."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Record]]:
    @cache
    def records(name: str) -> list[Record]:
        ledger, _ = import_recording(name, tmp_path_factory.mktemp("recorded") / "ledger")
        return list(ledger.records(name))

    return records


@pytest.fixture(scope="module", params=_DRAWN)
def node(request: pytest.FixtureRequest, recorded: Callable[[str], list[Record]]) -> Node:
    """A node's name, its recording and its simulation with some seed."""
    name: str = request.param[0]
    loaded = load_scenario(RECORDINGS / "scenarios" / f"{name}.yaml")
    return name, recorded(name), list(Sim(to_plan(loaded, seed=request.param[1])).run())


@pytest.fixture(scope="module")
def compared(node: Node) -> list[Compared]:
    found = compare(node[1], node[2])
    print(f"\n{node[0]}\n{table(found)}")
    return found


def _reported(name: str, pair: Pair) -> bool:
    parts = EXPLAINED.get((name, pair.kind, pair.number))
    return parts is not None and (not parts or any(p in pair.subject for p in parts.split()))


def test_the_same_is_decided(node: Node, compared: list[Compared]) -> None:
    odd = [p for each in compared for p in each.odd if not each.kind.startswith("cgroups.")]
    assert [pair for pair in odd if not _reported(node[0], pair)] == []
    expected = sum(
        max(len(v.split()), 1)
        for k, v in EXPLAINED.items()
        if k[0] == node[0] and k[1] not in KINDS
    )
    assert len([pair for pair in odd if pair.kind not in KINDS]) == expected


def test_most_of_it_is_no_draws_choice(compared: list[Compared]) -> None:
    pairs = [pair for each in compared if each.kind in KINDS for pair in each.pairs]
    assert sum(not pair.free for pair in pairs) >= _LIVES_COMPARED * len(pairs)


def test_in_the_same_order(node: Node) -> None:
    recorded, simulated = orders(node[1]), orders(node[2])
    assert recorded
    for pod in recorded.keys() | simulated.keys():
        assert simulated.get(pod) == recorded.get(pod), pod


def test_images_are_pulled_or_not(node: Node) -> None:
    assert pulls(node[1]) == pulls(node[2])


def test_at_about_the_same_time(compared: list[Compared]) -> None:
    """Within a second; in a container's life within what draws can do."""
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


def _changed(records: list[Record], kind: str, **fields: object) -> list[Record]:
    """The same but for the first record of a kind; without fields it is left out."""
    index = next(i for i, r in enumerate(records) if r.kind == kind)
    replace = msgspec.structs.replace
    new = [replace(records[index], body=replace(records[index].body, **fields))] if fields else []
    return [*records[:index], *new, *records[index + 1 :]]


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("lifecycle.ContainerKilled", {}),
        ("lifecycle.ContainerKilled", {"reason": "startup_probe"}),
        ("lifecycle.ContainerKilled", {"grace_period_s": 7}),
        ("lifecycle.ContainerRestarted", {"restart_count": 5}),
        ("lifecycle.RestartBackedOff", {"back_off_s": 20}),
        ("prober.ProbeTransitioned", {}),
        ("prober.ProbeTransitioned", {"threshold": 9}),
    ],
)
def test_no_draw_explains_a_lie(
    recorded: Callable[[str], list[Record]], kind: str, fields: dict[str, object]
) -> None:
    """What is left out or changed in a container's life is found, with whatever seed."""
    name = "node-a"
    plan = to_plan(load_scenario(RECORDINGS / "scenarios" / f"{name}.yaml"), seed=1)
    simulated = _changed(list(Sim(plan).run()), kind, **fields)
    found = compare(recorded(name), simulated)
    assert [p for each in found if each.kind in KINDS for p in each.odd if not _reported(name, p)]


def test_a_probe_that_is_late_is_found(recorded: Callable[[str], list[Record]]) -> None:
    plan = to_plan(load_scenario(RECORDINGS / "scenarios" / "node-a.yaml"), seed=1)
    simulated = list(Sim(plan).run())
    index = max(i for i, r in enumerate(simulated) if r.kind == "prober.ProbeTransitioned")
    late = msgspec.structs.replace(simulated[index], ts_ns=simulated[index].ts_ns + 13 * 10**9)
    found = compare(recorded("node-a"), [*simulated[:index], *simulated[index + 1 :], late])
    apart = [p.apart_s for e in found if e.kind in KINDS for p in e.both if not p.free]
    assert max(apart) > _PERIOD_S
