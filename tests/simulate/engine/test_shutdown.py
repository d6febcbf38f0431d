"""A simulated node that shuts down: order, times, status, refusals; all of it verified."""

from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec
import pytest

from kubeledger.analyze.whatif import Outlook, outlook
from kubeledger.model.bodies.lifecycle import (
    ContainerKilled,
    PodListed,
    PodRejected,
    PodTerminating,
)
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.scenario.load import load_scenario
from kubeledger.simulate.scenario.plan import to_plan
from kubeledger.verify.variant import Variant
from tests.simulate.engine.scenes import bad, records, tally

SCENARIO = Path(__file__).parents[3] / "recordings" / "scenarios" / "shutdown.yaml"


def run(version: str) -> list[Record]:
    made = to_plan(load_scenario(SCENARIO))
    return records(msgspec.structs.replace(made, kubelet_version=version))


@pytest.mark.parametrize("version", ["1.21.3", "1.22.17", "1.25.12", "1.30.14", "1.36.2"])
def test_pods_are_stopped_by_priority(version: str) -> None:
    """A pod gets its own time or its group's; a static pod is critical only before 1.23."""
    minor = int(version.split(".")[1])
    found = run(version)
    begin_ns = found[0].ts_ns + 180 * NS_PER_S
    reported = {
        r.body.pod: ((r.ts_ns - begin_ns) // NS_PER_S, r.body.grace_period_s)
        for r in found
        if isinstance(r.body, ContainerKilled) and r.body.reason == "node_shutdown"
    }
    assert reported == {
        "slow": (0, 25),
        "quick": (0, 5),
        "manifest-node-1": (0, 20) if minor >= 23 else (25, 15),
        "dns": (25, 15),
    }
    given = {r.body.pod: r.body.grace_period_s for r in found if isinstance(r.body, PodTerminating)}
    assert given == {name: grace_s for name, (_, grace_s) in reported.items()}
    shown = {r.body.pod: r.body.status or {} for r in found if isinstance(r.body, PodListed)}
    assert {shown[name].get("reason") for name in reported} == {"Terminated"}
    phase = "Running" if minor == 22 else "Failed"
    assert {shown[name].get("phase") for name in reported} == {phase}
    assert shown["late"]["reason"] == "NodeShutdown"
    assert set(tally(found)) == {"match"}


def test_a_refusal_in_other_words_is_found() -> None:
    """The kubelet says why in one way (and the status says otherwise then)."""

    def reworded(record: Record) -> Record:
        if not isinstance(record.body, PodRejected):
            return record
        body = msgspec.structs.replace(record.body, message="The node goes down.")
        return msgspec.structs.replace(record, body=body)

    reported = bad([reworded(record) for record in run("1.36.2")])
    assert reported[0].endswith("the pod fits, and none is admitted while the node shuts down")


def test_another_shutdown_is_undecided() -> None:
    """What the shutdown manager would give to a pod is not decided again, and named."""
    found = run("1.36.2")

    def read(kinds: Collection[str] | None) -> Iterator[Record]:
        return iter([r for r in found if kinds is None or r.kind in kinds])

    missing = "the time that the shutdown manager would have given"
    for setting, count in (("shutdownGracePeriod", 4), ("syncFrequency", 0)):
        result = Outlook(variant=setting)
        list(outlook(read, Variant(settings={setting: "90s"}), result))
        assert result.missing.get(missing, 0) == count
