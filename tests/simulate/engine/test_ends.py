"""Ends of containers and pods in a simulated node, each with its reason and fully verified."""

from collections.abc import Collection, Iterator

import msgspec
import pytest

from kubeledger.analyze.histories.history import history_of_reader
from kubeledger.analyze.whatif import Outlook, outlook
from kubeledger.analyze.why import explain, parse_target
from kubeledger.model.bodies.lifecycle import (
    ContainerKilled,
    ContainerStarted,
    PodConfigChanged,
    PodListed,
    PodRejected,
    PodTerminated,
    PodTerminating,
)
from kubeledger.model.bodies.node import KubeletExited, KubeletStarted
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.finding import Finding
from kubeledger.verify.variant import Variant
from tests.simulate.engine.scenes import bad, outcomes, played, tally
from tests.verify.histories import reader

END_VERSIONS = ("1.25.12", "1.29.0", "1.30.14", "1.32.0", "1.36.2")


@pytest.mark.parametrize("version", END_VERSIONS)
def test_each_end_has_its_reason(version: str) -> None:
    """Kills, the pod worker's words, and the kubelet's own end."""
    minor = int(version.split(".")[1])
    found = played("ends", version)
    kills = [r.body for r in found if isinstance(r.body, ContainerKilled)]
    orphan_s = 2 if minor >= 28 else 1
    reported = {(k.pod, k.container, k.reason, k.grace_period_s) for k in kills}
    expected = {
        ("hook", "web", "post_start_hook", 4),
        ("late", "work", "deadline_exceeded", 5),
        ("gone", "web", "pod_deleted", 30),
        ("manifest-node-1", "web", "orphaned", orphan_s),
    }
    if minor >= 29:  # before, sidecars are behind a gate
        expected.add(("job", "proxy", "pod_ended", 30))
    assert reported == expected
    stopped = {(r.body.pod, r.body.reason) for r in found if isinstance(r.body, PodTerminating)}
    assert {("late", "ended"), ("gone", "deleted"), ("manifest-node-1", "orphaned")} <= stopped
    statuses = [r.body.status for r in found if isinstance(r.body, PodListed)]
    reasons = {(status or {}).get("reason") for status in statuses}
    assert "DeadlineExceeded" in reasons
    exits = {r.seq: r.body for r in found if isinstance(r.body, KubeletExited)}
    starts = [r for r in found if isinstance(r.body, KubeletStarted)]
    assert [start.cause in exits for start in starts] == [False, True]


@pytest.mark.parametrize("version", END_VERSIONS)
def test_all_of_it_is_verified(version: str) -> None:
    """Nothing is impossible, and only how often a failed hook raised the back-off is open."""
    found = played("ends", version)
    open_ = {o.why for o in outcomes(found) if isinstance(o, Finding) and o.verdict != "match"}
    hook = "cannot be decided again without which restarts of container web raised its back-off"
    assert {why for why in open_ if "cannot be decided again" in why} <= {hook}


# A simulated node that shuts down: order, times, status, refusals; all of it verified.


@pytest.mark.parametrize("version", ["1.21.3", "1.22.17", "1.25.12", "1.30.14", "1.36.2"])
def test_pods_are_stopped_by_priority(version: str) -> None:
    """A pod gets its own time or its group's; a static pod is critical only before 1.23."""
    minor = int(version.split(".")[1])
    found = played("shutdown", version)
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

    reported = bad([reworded(record) for record in played("shutdown")])
    assert reported[0].endswith("the pod fits, and none is admitted while the node shuts down")


def test_another_shutdown_is_undecided() -> None:
    """What the shutdown manager would give to a pod is not decided again, and named."""
    found = played("shutdown")

    def read(kinds: Collection[str] | None) -> Iterator[Record]:
        return iter([r for r in found if kinds is None or r.kind in kinds])

    missing = "the time that the shutdown manager would have given"
    for setting, count in (("shutdownGracePeriod", 4), ("syncFrequency", 0)):
        result = Outlook(variant=setting)
        list(outlook(read, Variant(settings={setting: "90s"}), result))
        assert result.missing.get(missing, 0) == count


# Changed specs in a simulated node: kills, restarts, another static pod, verification.


@pytest.mark.parametrize(("version", "waits"), [("1.21.3", False), ("1.36.2", True)])
def test_a_changed_manifest_is_another_pod(version: str, waits: bool) -> None:
    """It comes as the one before goes, and since 1.22 starts when that is down."""
    found = [
        r for r in played("updates", version) if getattr(r.body, "pod", "") == "manifest-node-1"
    ]
    configs = [r.body for r in found if isinstance(r.body, PodConfigChanged)]
    assert [c.operation for c in configs] == ["ADD", "REMOVE", "ADD"]
    old, new = configs[0].pod_uid, configs[2].pod_uid
    assert old == configs[1].pod_uid
    assert old != new
    gone = next(r.ts_ns for r in found if isinstance(r.body, PodTerminated))
    began = next(
        r.ts_ns for r in found if isinstance(r.body, ContainerStarted) and r.body.pod_uid == new
    )
    assert (began > gone) is waits


def test_why_tells_of_a_changed_definition() -> None:
    history = history_of_reader("node-1", "node-1", reader(played("updates")))
    found = explain(history, parse_target("container/default/web/server"))
    assert found is not None
    assert "was killed because its definition changed 2 times" in found.headline
