"""From records to rows and items, without a browser."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubeledger.analyze.histories.history import histories_of_ledger
from kubeledger.analyze.sql.api import connect
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.eviction import NodeConditionsChanged, PodSpared
from kubeledger.model.bodies.images import (
    EvictionSignalObserved,
    ImageDeleted,
    ImagesDetected,
    ListedImage,
)
from kubeledger.model.bodies.ledger import FindingReported, ImportCompleted
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerStarted,
    KubernetesEvent,
    PodAdmitted,
    PodListed,
    PodRejected,
    PodTerminated,
)
from kubeledger.model.bodies.node import (
    ClockStepped,
    KubeletStarted,
    LogThinned,
    NodeConditionChanged,
    NodeTroubled,
    PodStageFailed,
    Setting,
    SettingsObserved,
)
from kubeledger.model.bodies.prober import ProbeTicksFolded
from kubeledger.model.units import NS_PER_S
from kubeledger.timeline import Drawing, NodeView, Scope, build_drawing
from kubeledger.timeline.drawing import Item, Row, Section
from kubeledger.timeline.page import node_payload
from tests.analyze.sql.fixture_ledger import START_NS, Story, write_ledger


def drawn(directory: Path, story: Story, scope: Scope | None = None) -> Drawing:
    """The drawing of a story, which starts at second 0 of its first record."""
    ledger = write_ledger(directory, story.records)
    with connect(ledger) as queryable:
        (history,) = histories_of_ledger(Ledger.open(ledger))
        return build_drawing(NodeView(queryable, story.node, scope, history))


def section(drawing: Drawing, name: str) -> list[Row]:
    return next((each.rows for each in drawing.sections if each.id == name), [])


def pods(drawing: Drawing) -> list[Row]:
    return section(drawing, "problems") + section(drawing, "pods")


def second(ts_ns: int | None) -> int | None:
    return None if ts_ns is None else round((ts_ns - START_NS) / NS_PER_S)


def reported(row: Row) -> list[tuple[str, int | None, int | None, str]]:
    items = sorted(row.items, key=lambda item: (item.start_ns, item.seq))
    return [(item.kind, second(item.start_ns), second(item.end_ns), item.label) for item in items]


def begun(version: str = "1.36.2") -> Story:
    story = Story("node-a")
    story.add(KubeletStarted(pid=7, kubelet_version=version, version_source="log"))
    return story


def pod(name: str = "web", uid: str = "uid-1") -> dict[str, Any]:
    return {"namespace": "default", "pod": name, "pod_uid": uid}


def test_one_bar_for_one_container_id(tmp_path: Path) -> None:
    """A kubelet that starts again reports what runs; a restart is another ID."""
    story = begun()
    story.add(PodAdmitted(**pod()))
    story.add(ContainerStarted(**pod(), container="app", container_id="one"))
    story.add(KubeletStarted(pid=8, kubelet_version="1.36.2", version_source="log", restart=True))
    story.add(ContainerStarted(**pod(), container="app", container_id="one"))
    story.add(ContainerDied(**pod(), container="app", container_id="one", exit_code=3))
    story.add(ContainerStarted(**pod(), container="app", container_id="two"))
    (row,) = pods(drawn(tmp_path, story))
    assert row.label == "default/web/app"
    assert reported(row) == [
        ("admission", 2, 2, "admitted"),
        ("admitted", 2, 3, ""),
        ("running", 3, 6, ""),
        ("died", 6, 6, "exit code 3"),
        ("running", 7, None, ""),
    ]


@pytest.mark.parametrize("source", ["nothing", "status", "admission"])
def test_a_container_whose_start_was_not_seen(tmp_path: Path, source: str) -> None:
    """It ran before the records, or briefly where its pod was admitted in them."""
    story = begun()
    if source == "admission":
        story.add(PodAdmitted(**pod()))
    if source == "status":
        running = {"running": {"startedAt": "2026-11-20T03:00:00Z"}}
        status = {"containerStatuses": [{"containerID": "cri-o://one", "state": running}]}
        story.add(PodListed(**pod(), spec=None, status=status, listed_by="kubelet"))
    end = story.add(ContainerDied(**pod(), container="app", container_id="one", exit_code=0))
    drawing = drawn(tmp_path, story)
    (row,) = pods(drawing)
    bars = [item for item in row.items if item.kind == "running"]
    if source == "admission":
        assert not bars
        return
    assert second(bars[0].end_ns) == end
    assert bars[0].start_ns < drawing.start_ns
    before_s = (drawing.start_ns - bars[0].start_ns) // NS_PER_S
    assert before_s == (86401 if source == "status" else 0)
    assert node_payload(drawing)["items"]["start"][-2] < 0


def test_pods_of_one_name_are_distinguished_and_containers_stand_in_their_order(
    tmp_path: Path,
) -> None:
    """By the beginning of the UID; init containers and sidecars come first, as in the spec."""
    story = begun()
    spec = {
        "initContainers": [{"name": "zero"}, {"name": "mesh", "restartPolicy": "Always"}],
        "containers": [{"name": "app"}],
    }
    story.add(PodListed(**pod(), spec=spec, status=None, listed_by="api"))
    for name in ("app", "mesh", "zero"):
        story.add(ContainerStarted(**pod(), container=name, container_id=name))
    story.add(ContainerStarted(**pod(uid="uid-2345678"), container="app", container_id="late"))
    rows = pods(drawn(tmp_path, story))
    assert [(row.label, row.note, row.depth) for row in rows] == [
        ("default/web", "uid uid-1", 0),
        ("zero", "init", 1),
        ("mesh", "sidecar", 1),
        ("app", "", 1),
        ("default/web/app", "uid uid-2345", 0),
    ]


def test_a_refused_pod_lasts_until_it_is_gone(tmp_path: Path) -> None:
    """Not only until the kubelet is done with it, which is at once."""
    story = begun()
    story.add(PodRejected(**pod(), reason="OutOfcpu", message="no"))
    story.add(PodTerminated(**pod()))
    story.add(PodListed(**pod(), spec=None, status=None, listed_by="api", gone=True))
    (row,) = pods(drawn(tmp_path, story))
    assert reported(row) == [("rejected", 2, 4, ""), ("refused", 2, 2, "OutOfcpu")]


def test_folded_ticks_are_one_run_while_they_go_on(tmp_path: Path) -> None:
    """A pause of more than two periods, or another result, begins another."""
    story = begun()
    story.add(ContainerStarted(**pod(), container="app", container_id="one"))
    runs = ((0, 3, "success"), (3, 2, "success"), (9, 2, "success"), (11, 2, "failure"))
    for first, count, result in runs:
        story.add(
            ProbeTicksFolded(
                **pod(),
                container="app",
                container_id="one",
                probe_type="liveness",
                result=result,  # type: ignore[arg-type]
                output=None,
                count=count,
                first_ts_ns=START_NS + first * NS_PER_S,
                last_ts_ns=START_NS + (first + count - 1) * NS_PER_S,
                period_ns=NS_PER_S,
            )
        )
    drawing = drawn(tmp_path, story)
    ticks = next(row for row in pods(drawing) if row.shape == "ticks")
    assert [(item.kind, second(item.start_ns), item.count) for item in ticks.items] == [
        ("tick_success", 0, 5),
        ("tick_success", 9, 2),
        ("tick_failure", 11, 2),
    ]
    assert sorted(node_payload(drawing)["counts"].values()) == [2, 2, 5]


def test_an_image_is_there_from_each_listing_to_its_deletion(tmp_path: Path) -> None:
    """It may come back; of one that was never listed only the deletion is drawn."""
    story = begun()
    for listed in (("a", "b"), None, ("b",), ("a", "b"), None):
        if listed is None:
            story.add(ImageDeleted(image_id="a", size_bytes=9_000_000))
        else:
            images = tuple(ListedImage(image_id=each, size_bytes=9_000_000) for each in listed)
            story.add(ImagesDetected(images=images))
    story.add(ImageDeleted(image_id="c", size_bytes=None))
    rows = {row.label: row for row in section(drawn(tmp_path, story), "images")}
    bars = {
        name: [(start, end) for kind, start, end, _ in reported(row) if kind == "image"]
        for name, row in rows.items()
    }
    assert bars == {"a": [(2, 3), (5, 6)], "b": [(2, None)], "c": []}
    assert rows["a"].note == "9.0 MB"
    assert [item.kind for item in rows["c"].items] == ["deleted"]


def test_thresholds_are_steps_in_time(tmp_path: Path) -> None:
    """A value that two processes share is one line; another one begins where it was set."""
    story = begun()
    at = {}
    for hard, soft in (("1Gi", None), ("1Gi", "50%"), ("2Gi", "50%")):
        settings = {"evictionHard": f'{{"memory.available":"{hard}"}}'}
        if soft:
            settings["evictionSoft"] = f'{{"memory.available":"{soft}"}}'
        at[hard, soft] = story.add(
            SettingsObserved(
                settings={
                    name: Setting(value=value, source="config") for name, value in settings.items()
                }
            )
        )
        story.add(
            EvictionSignalObserved(signal="memory.available", available=3 << 30, capacity=8 << 30)
        )
    rows = section(drawn(tmp_path, story), "node")
    curve = next(row.curve for row in rows if row.label == "memory available")
    assert curve is not None
    assert curve.unit == "GiB"
    limits = [
        (each.label, each.value, second(each.from_ns), second(each.to_ns)) for each in curve.limits
    ]
    assert limits == [
        ("evicts below 1Gi", 1.0, at["1Gi", None], at["2Gi", "50%"]),
        ("evicts below 2Gi", 2.0, at["2Gi", "50%"], None),
        ("soft 50%", 4.0, at["1Gi", "50%"], None),
    ]


def test_the_page_ends_with_the_log(tmp_path: Path) -> None:
    """Where the last lines of a log show no decision the page continues to the last of them."""
    story = begun()
    story.add(FindingReported(finding="x", file=None, message="x"))
    story.add(ImportCompleted(digest="00", accounts=()))
    drawing = drawn(tmp_path, story)
    assert (second(drawing.start_ns), second(drawing.end_ns)) == (1, 3)


def test_holes_of_the_log_and_times_without_a_kubelet(tmp_path: Path) -> None:
    """Lines lost, steps of the clock, findings; from a process's last line to the next start."""
    story = begun()
    story.add(FindingReported(finding="truncated", file="kubelet.log", message="the end is gone"))
    story.add(
        LogThinned(
            from_ts_ns=START_NS + NS_PER_S,
            to_ts_ns=START_NS + 3 * NS_PER_S,
            beats_expected=90,
            beats_missing=5,
        )
    )
    story.add(ClockStepped(from_ts_ns=START_NS + 9 * NS_PER_S, to_ts_ns=START_NS + 4 * NS_PER_S))
    for _ in range(3):
        story.add(PodAdmitted(**pod()))
    started = KubeletStarted(pid=8, kubelet_version="1.36.2", version_source="log", restart=True)
    seq = story.add(started)
    last = story.records[-1]
    story.records[-1] = msgspec.structs.replace(last, ts_ns=last.ts_ns + 60 * NS_PER_S)
    rows = {row.label: row for row in section(drawn(tmp_path, story), "node")}
    assert reported(rows["log"]) == [
        ("gap", 1, 3, "lines lost: 5 of 90 periodic lines"),
        ("finding", 2, 2, "truncated: the end is gone"),
        ("clock_step", 4, 4, "clock set back by 5.0 s"),
    ]
    assert reported(rows["kubelet"]) == [
        ("kubelet", 1, seq - 1, "1.36.2 pid 7"),
        ("kubelet_start", 1, 1, "1.36.2 pid 7 started"),
        ("gap", seq - 1, seq + 60, "no sign of a kubelet"),
        ("kubelet", seq + 60, None, "1.36.2 pid 8"),
        ("kubelet_restart", seq + 60, seq + 60, "1.36.2 pid 8 restarted"),
    ]


def test_a_decision_without_a_row_has_a_place(tmp_path: Path) -> None:
    """What is no match and drawn nowhere else; and it is counted where pods are asked for."""
    story = begun()
    seq = story.add(PodSpared(**pod()))
    drawing = drawn(tmp_path, story)
    (row,) = [row for row in section(drawing, "node") if row.label == "other decisions"]
    assert [(item.kind, item.seq) for item in row.items] == [("decision", seq)]
    assert drawing.verdicts[seq] != "match"
    payload = node_payload(drawing)
    assert payload["items"]["verdict"][payload["items"]["seq"].index(seq)] > 0


def test_counts_and_headlines_are_of_what_is_shown(tmp_path: Path) -> None:
    """Of the pods asked for and of no pod, within the span; the payload says that it is a part."""
    story = begun()
    for name in ("a", "b"):
        story.add(PodRejected(**pod(name, f"uid-{name}"), reason=f"For-{name}", message=""))
    story.add(ImageDeleted(image_id="sha256:1", size_bytes=1))
    story.add(PodRejected(**pod("a", "uid-c"), reason="For-c", message=""))
    late_ns = story.records[-1].ts_ns
    ledger = write_ledger(tmp_path, story.records)
    (history,) = histories_of_ledger(Ledger.open(ledger))

    def shown(scope: Scope) -> tuple[int, set[str], bool]:
        with connect(ledger) as queryable:
            drawing = build_drawing(NodeView(queryable, story.node, scope, history))
        payload = node_payload(drawing)
        assert payload["only"] == ", ".join(scope.pods)
        reported = set(re.findall("For-.", " ".join(each.text for each in drawing.headlines)))
        return sum(payload["verdicts"].values()), reported, payload["is_part"]

    assert shown(Scope()) == (4, {"For-a", "For-b", "For-c"}, False)
    assert shown(Scope(pods=["default/a"])) == (3, {"For-a", "For-c"}, True)
    assert shown(Scope(pods=["uid-b"])) == (2, {"For-b"}, True)
    assert shown(Scope(pods=["a"], to_ns=late_ns - NS_PER_S // 2)) == (2, {"For-a"}, True)
    assert shown(Scope(from_ns=late_ns)) == (1, {"For-c"}, True)


def test_a_stage_that_a_pod_waits_in_is_a_bar(tmp_path: Path) -> None:
    """Until it is past it, or to the end; a first sandbox is not drawn, another is."""
    story = begun()
    failed = KubernetesEvent(
        **pod(),
        object_kind="Pod",
        type="Warning",
        reason="FailedCreatePodSandBox",
        message="Failed to create pod sandbox: no such image",
    )
    story.add(PodAdmitted(**pod()))
    story.add(failed)
    story.add(failed)
    story.add(ContainerStarted(**pod(), container=None, container_id="s0", sandbox=True))
    pull = PodStageFailed(
        **pod(),
        container="app",
        stage="image",
        reason="ErrImagePull",
        message="not found",
        about="reg/web:1",
        first_ts_ns=START_NS + 6 * NS_PER_S,
        last_ts_ns=START_NS + 6 * NS_PER_S,
    )
    story.add(pull)
    story.add(PodAdmitted(**pod("other", "uid-2")))
    for uid, container_id in (("uid-2", "s1"), ("uid-2", "s1"), ("uid-2", "s2")):
        about = pod("other", uid)
        story.add(
            ContainerStarted(**about, container=None, container_id=container_id, sandbox=True)
        )
    drawing = drawn(tmp_path, story)
    (bad,) = section(drawing, "problems")
    waits = [each for each in reported(bad) if each[0] in ("waits", "stuck")]
    assert sorted(waits) == [
        ("stuck", 6, None, "image: ErrImagePull: not found"),
        ("waits", 3, 5, "sandbox 2×: CreatePodSandboxError: no such image"),
    ]
    (other,) = section(drawing, "pods")
    assert reported(other)[2:] == [("sandbox", 10, 10, "another sandbox")]
    assert [each.text for each in drawing.headlines] == [
        "default/web has not started: its image reg/web:1 cannot be pulled"
        " (ErrImagePull: not found)"
    ]
    payload = node_payload(drawing)
    (headline,), (problem,) = payload["headlines"], payload["problems"]
    assert headline["item"] == problem["item"] is not None
    assert payload["items"]["seq"][headline["item"]] == headline["seq"]


def test_readiness_troubles_and_pressure_have_rows(tmp_path: Path) -> None:
    """A row each that was ever told, as long as it lasted, but for what was over at once."""
    story = begun()
    story.add(NodeConditionChanged(condition="Ready", status="True"))
    story.add(
        NodeConditionChanged(condition="Ready", status="False", message="PLEG is not healthy")
    )
    story.add(
        NodeTroubled(
            trouble="pleg_unhealthy",
            message="pleg was last seen active 3m1s ago",
            count=4,
            first_ts_ns=START_NS + 3 * NS_PER_S,
            last_ts_ns=START_NS + 4 * NS_PER_S,
        )
    )
    story.add(
        NodeTroubled(
            trouble="registration_failed",
            message='node "node-t" not found',
            first_ts_ns=START_NS,
            last_ts_ns=START_NS,
            passed_ts_ns=START_NS + NS_PER_S,
        )
    )
    story.add(NodeConditionChanged(condition="Ready", status="Unknown"))
    story.add(NodeConditionsChanged(conditions=("MemoryPressure",), observed=("MemoryPressure",)))
    story.add(NodeConditionsChanged(conditions=(), observed=()))
    rows = {row.label: reported(row) for row in section(drawn(tmp_path, story), "node")}
    assert rows["Ready"] == [
        ("ready", 2, 3, ""),
        ("not_ready", 3, 6, "PLEG is not healthy"),
        ("ready_unknown", 6, None, ""),
    ]
    assert rows["MemoryPressure"] == [("pressure", 7, 8, "")]
    assert rows["pleg unhealthy"] == [("trouble", 3, 4, "4×: pleg was last seen active 3m1s ago")]
    assert not {"DiskPressure", "registration failed"} & rows.keys()


def test_items_carry_their_own_verdict() -> None:
    """That of a decision that did not come is not that of the record it stands at."""
    row = Row(label="r")
    row.items = [
        Item(kind="not_taken", start_ns=0, end_ns=0, seq=1, verdict="impossible"),
        Item(kind="decision", start_ns=0, end_ns=0, seq=2),
    ]
    drawing = Drawing(
        node="n",
        versions=[],
        start_ns=0,
        end_ns=1,
        verdict_counts={},
        verdicts={2: "admissible"},
        sections=[Section(id="node", title="Node", rows=[row])],
        arrows=[],
        headlines=[],
    )
    assert node_payload(drawing)["items"]["verdict"] == [2, 1]
