"""How far a changed decision reaches, and what is counted."""

from typing import Any

import msgspec
import pytest

from kubeledger.analyze.whatif import Change, Outlook, outlook
from kubeledger.analyze.whatif.pods import Pods
from kubeledger.analyze.whatif.taint import Taint
from kubeledger.verify import Finding, Variant
from tests.verify.histories import reader, recorded


def finding(seq: int, kind: str, subject: str) -> Finding:
    return Finding(seq=seq, ts_ns=seq, kind=kind, subject=subject, verdict="impossible")


@pytest.mark.parametrize(
    ("changed", "others"),
    [
        (("lifecycle.PodAdmitted", "pod/d/a"),
         {("lifecycle.PodAdmitted", "pod/d/b"): True,
          ("devicemanager.DevicesAllocated", "container/d/b/c"): True,
          ("topologymanager.AffinityDecided", "container/d/none/c"): False,
          ("prober.ProbeTransitioned", "container/d/a/c"): True,
          ("prober.ProbeTransitioned", "container/d/b/c"): False,
          ("images.ImageDeleted", "image/x"): False,
          ("cgroups.CgroupUpdated", "cgroup/kubepods"): True,
          ("cgroups.CgroupUpdated", "pod/d/b"): False}),
        (("prober.ProbeTransitioned", "container/d/a/c"),
         {("prober.ProbeTransitioned", "container/d/a/c"): True,
          ("lifecycle.ContainerKilled", "container/d/a/c"): True,
          ("lifecycle.ContainerKilled", "container/d/a/other"): False,
          ("lifecycle.PodAdmitted", "pod/d/b"): False}),
        (("devicemanager.DevicesReleased", "pod/d/a"),
         {("devicemanager.DevicesAllocated", "container/d/b/c"): True,
          ("topologymanager.AffinityDecided", "container/d/b/c"): True,
          ("lifecycle.PodAdmitted", "pod/d/b"): False}),
        (("cgroups.CgroupUpdated", "cgroup/kubepods"),
         {("cgroups.CgroupUpdated", "cgroup/kubepods/burstable"): False,
          ("lifecycle.PodAdmitted", "pod/d/b"): False}),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)  # fmt: skip
def test_reach(changed: tuple[str, str], others: dict[tuple[str, str], bool]) -> None:
    taint = Taint(pods=Pods(claims={"pod/d/none": False}))
    taint.change(finding(7, *changed))
    taint.change(finding(8, *changed))
    found = {other: taint.of(finding(9, *other)) for other in others}
    assert found == {other: 7 if touched else None for other, touched in others.items()}


@pytest.mark.parametrize(
    ("admit", "pod", "reaches"), [(True, "a", False), (False, "a", True), (True, "b", True)]
)
def test_another_alignment_reaches_no_further(admit: bool, pod: str, reaches: bool) -> None:
    """A pod that is let in all the same has its allocations decided by the new hint."""
    other: dict[str, Any] = {"hint": {"numa_nodes": None}, "admit": admit, "pod": pod}
    same: dict[str, Any] = {"hint": {"numa_nodes": [0]}, "admit": True, "pod": "a"}
    merged = finding(7, "topologymanager.AffinityDecided", "container/d/a/c")
    taint = Taint()
    taint.change(msgspec.structs.replace(merged, expected=other, recorded=same))
    grant = finding(9, "devicemanager.DevicesAllocated", "container/d/b/c")
    assert (taint.of(grant) == 7) is reaches


def test_a_collection_is_one_decision() -> None:
    """Its parts follow from the same inputs; what comes after it saw another disk."""
    taint = Taint()
    taint.change(finding(1, "images.GarbageCollectionStarted", "node"))
    removal, end = finding(2, "images.ImageDeleted", "image/x"), finding(
        3, "images.GarbageCollected", "node"
    )  # fmt: skip
    assert taint.of(removal) is None
    taint.pass_by(removal)
    taint.change(removal)
    assert taint.of(end) is None
    taint.pass_by(end)
    assert taint.of(finding(4, "images.GarbageCollectionStarted", "node")) == 1


def test_a_collection_that_removes_nothing_leads_to_nothing() -> None:
    """Its words and its beginning are others, and the images stay as they are."""
    taint = Taint()
    for seq, kind in ((1, "images.GarbageCollectionStarted"), (2, "images.GarbageCollected")):
        taint.change(finding(seq, kind, "node"))
        taint.pass_by(finding(seq, kind, "node"))
    assert taint.of(finding(3, "images.ImageDeleted", "image/x")) is None


@pytest.mark.parametrize(
    ("kept_bytes", "used_percent", "since"), [(5 * 10**9, 72, None), (20 * 10**9, 72, 1),
                                              (5 * 10**9, 79, 1)]
)  # fmt: skip
def test_images_that_stay_fill_the_disk(
    kept_bytes: int, used_percent: int, since: int | None
) -> None:
    """Of 200 GB, they decide about the next collection only near the threshold of 80 %."""
    taint = Taint(high_threshold_percent=80)
    removal = finding(1, "images.ImageDeleted", "image/x")
    taint.change(msgspec.structs.replace(removal, recorded={"size_bytes": kept_bytes}))
    taint.pass_by(finding(2, "images.GarbageCollected", "node"))
    amount = 200 * 10**9 * (used_percent - 5) // 100
    reported = {"usage_percent": used_percent, "low_threshold_percent": 5, "bytes_to_free": amount}
    start = finding(3, "images.GarbageCollectionStarted", "node")
    assert taint.of(msgspec.structs.replace(start, recorded=reported)) == since
    assert taint.of(finding(4, "images.ImageDeleted", "image/x")) == since


def test_a_pod_that_has_gone_makes_no_difference() -> None:
    """Nor do its cgroups to another pod; whoever came meanwhile may not have been let in."""
    pods = Pods({"u-b": "pod/d/b", "u-c": "pod/d/c"}, {"pod/d/a": [5], "pod/d/b": [9]})
    taint = Taint(pods=pods)
    taint.change(finding(1, "lifecycle.PodAdmitted", "pod/d/a"))
    asked = finding(3, "lifecycle.PodAdmitted", "pod/d/b")
    taint.pass_by(asked, taint.of(asked))
    kind, cgroup = "cgroups.CgroupUpdated", "cgroup/kubepods/besteffort"
    found = {
        (seq, subject): taint.of(finding(seq, kind, subject))
        for seq in (4, 6, 10)
        for subject in (cgroup, f"{cgroup}/podu-b", f"{cgroup}/podu-c", f"{cgroup}/podu-unknown")
    }
    assert {seq for (seq, subject), since in found.items() if since == 1} == {4, 6}
    assert [found[seq, f"{cgroup}/podu-c"] for seq in (4, 6, 10)] == [None, None, None]
    assert [found[seq, f"{cgroup}/podu-b"] for seq in (4, 6, 10)] == [1, 1, None]


def changes_of(name: str, variant: Variant) -> tuple[Outlook, list[Change]]:
    result = Outlook(variant=variant.name)
    return result, list(outlook(reader(recorded(name)), variant, result))


def test_counts_add_up() -> None:
    decisions = sum(record.role == "decision" for record in recorded("node-b"))
    for settings in ({"maxPods": 5}, {"imageGCHighThresholdPercent": 90}, {}):
        result, changes = changes_of("node-b", Variant(settings=settings))
        assert result.decisions == decisions
        added = sum(change.recorded is None for change in changes)
        total = result.same + result.changed + result.untrusted + result.unknown
        assert decisions <= total <= decisions + added


def test_what_is_not_sound_as_recorded_is_no_change() -> None:
    records = recorded("node-b")
    _, changes = changes_of("node-b", Variant())
    assert changes == []
    blind = tuple(r for r in records if r.kind != "node.SettingsObserved")
    result = Outlook(variant="")
    found = list(outlook(reader(blind), Variant(settings={"podsPerCore": 1}), result))
    assert found == []
    assert result.unknown > 0
