"""``kubeledger verify`` as users call it."""

import csv
import io
import json
import re
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

from kubeledger.api import open_ledger
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.lifecycle import PodAdmitted, PodRejected
from kubeledger.model.bodies.node import SettingsObserved
from kubeledger.testing.scene import Scene
from kubeledger.verify import Finding
from tests.cli.nodes import Nodes, answer, lied, run, seq_of

HOSTILE = "web\x1b[2J<b>&\"'\x9b\u202e\ufffe\uffff\n]]>"
GC = "images.GarbageCollectionStarted"


def unknowing(
    path: Path, pod: str = "web", *, conflict: bool = False, inferred: bool = False
) -> str:
    """A recording with one decision and nothing that it can be decided from."""
    scene = Scene(node=f"node {pod}")
    if conflict:
        scene.at(0, SettingsObserved(settings={}, conflicts=("maxPods: a says 1, b says 2",)))
    scene.at(1, PodAdmitted(namespace="default", pod=pod, pod_uid=None, inferred=inferred))
    scene.save(path)
    return str(path)


def liar(tmp_path: Path) -> str:
    path = tmp_path / "lie.ledger.jsonl"
    return lied("node-a", path, seq_of("node-a", GC), bytes_to_free=1)


def test_the_json_of_the_contract(nodes: Nodes) -> None:
    found = answer("verify", "--ledger", nodes.ledger("node-a"))
    counts = [found[name] for name in ("match", "admissible", "impossible", "unverifiable")]
    apart = [item for item in found["items"] if item["inferred"]]
    assert found["decisions"] == sum(counts) == len(found["items"]) - len(apart) == 262
    assert found["inferred"] == {"match": 25, "admissible": 0, "impossible": 0, "unverifiable": 32}
    for item in apart:  # an admission is seen by what the pod does; a probe's change was worked out
        is_change = item["kind"] == "prober.ProbeTransitioned"
        assert item["verdict"] == ("unverifiable" if is_change else "match")
    assert found["impossible"] == 0
    assert sum(sum(kind.values()) for kind in found["kinds"].values()) == found["decisions"]
    for item in found["items"]:
        assert {"seq", "kind", "verdict", "expected", "recorded", "missing"} <= item.keys()
        assert item["verdict"] in {"match", "admissible"} or item["missing"]
        assert item["node"] == "node-a"


def test_every_form_of_a_source_gives_the_same_items(nodes: Nodes) -> None:
    """Ledger, recording, compressed recording, the node's own files."""
    sources = [
        nodes.ledger("node-b"),
        nodes.recording("node-b"),
        nodes.recording("node-b", ".zst"),
        nodes.raw("node-b"),
    ]
    first, *others = [answer("verify", source)["items"] for source in sources]
    assert len(first) > 200
    assert all(other == first for other in others)


def test_several_sources_at_once(nodes: Nodes) -> None:
    """Each node is verified on its own; ``--node`` chooses."""
    sources = (nodes.ledger("node-a"), nodes.recording("node-b"))
    found = answer("verify", *sources)
    assert {item["node"] for item in found["items"]} == {"node-a", "node-b"}
    only = answer("verify", *sources, "--node", "node-b")
    assert only["items"] == [item for item in found["items"] if item["node"] == "node-b"]


def test_json_lines(nodes: Nodes) -> None:
    result = run("verify", nodes.ledger("node-a"), "-o", "jsonl")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert {line["type"] for line in lines} == {"finding"}
    assert [{k: v for k, v in line.items() if k != "type"} for line in lines] == answer(
        "verify", nodes.ledger("node-a")
    )["items"]


def test_csv(nodes: Nodes) -> None:
    result = run("verify", nodes.ledger("node-a"), "-o", "csv", exits=0)
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    items = answer("verify", nodes.ledger("node-a"))["items"]
    assert len(rows) == len(items)
    for row, item in zip(rows, items, strict=True):
        assert row["type"] == "finding"
        assert row["sides"] == ""
        for name, value in item.items():
            text = row[name]
            assert (json.loads(text) if isinstance(value, dict | list) else text) == (
                value
                if isinstance(value, dict | list)
                else ""
                if value is None
                else str(value).lower()
                if isinstance(value, bool)
                else str(value)
            )


def test_csv_of_contradictions(tmp_path: Path) -> None:
    source = unknowing(tmp_path / "b.ledger.jsonl", conflict=True)
    row, _ = csv.DictReader(io.StringIO(run("verify", source, "-o", "csv").stdout))
    assert (row["type"], row["seq"], row["verdict"]) == ("contradiction", "", "")
    assert [side["says"] for side in json.loads(row["sides"])] == ["a says 1", "b says 2"]


def test_the_table(nodes: Nodes) -> None:
    """Counts by kind; ``--all`` lists every decision."""
    result = run("verify", nodes.ledger("node-a"), exits=0)
    assert "\nPodPreempted " in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert (
        "\npreemption.PodPreempted " in run("verify", nodes.ledger("node-a"), "-o", "wide").stdout
    )
    assert "match: preemption.PodPreempted" not in result.stdout
    assert "match: preemption.PodPreempted pod/default/gpu-a" in run(
        "verify", nodes.ledger("node-a"), "--all"
    ).stdout  # fmt: skip


def test_a_lie_is_shown_and_exits_with_1(tmp_path: Path) -> None:
    """With what was expected, what is recorded, and the place; nothing else is blamed."""
    source = liar(tmp_path)
    result = run("verify", source, exits=1)
    assert f"impossible: {GC} node" in result.stdout
    assert '"bytes_to_free":1,' in result.stdout
    assert "kubelet.log:" in result.stdout
    (item,) = (i for i in answer("verify", source, exit_code=1)["items"]
               if i["verdict"] == "impossible")  # fmt: skip
    assert item["seq"] == seq_of("node-a", GC)
    assert item["recorded"]["bytes_to_free"] == 1 != item["expected"]["bytes_to_free"]


def test_strict(tmp_path: Path) -> None:
    """5 only with ``--strict``, for what is unverifiable and for contradictions; 1 goes first."""
    source = unknowing(tmp_path / "a.ledger.jsonl")
    assert run("verify", source).exit_code == 0
    assert run("verify", source, "--strict").exit_code == 5
    conflict = unknowing(tmp_path / "b.ledger.jsonl", conflict=True)
    assert run("verify", conflict).exit_code == 0
    assert run("verify", conflict, "--strict").exit_code == 5
    assert run("verify", source, liar(tmp_path), "--strict").exit_code == 1


def test_inferred_decisions_are_counted_apart(tmp_path: Path) -> None:
    """In each form: they prove nothing, and nothing fails for them."""
    source, out = unknowing(tmp_path / "a.ledger.jsonl", inferred=True), tmp_path / "out.xml"
    result = run("verify", source, "--strict", "--junit", str(out), exits=0)
    assert re.search(r"\nall +0 .*\ninferred +1 ", result.stdout)
    assert "1 inferred decision, shown by no line: counted apart" in result.stdout
    (suite,) = ET.parse(out).getroot()
    assert (suite.get("name"), suite.get("skipped")) == (
        "node web lifecycle.PodAdmitted (inferred)",
        "1",
    )
    (skipped,) = suite.iter("skipped")
    assert str(skipped.get("message")).startswith("inferred, unverifiable: ")


def test_strict_of_what_is_fine(nodes: Nodes) -> None:
    assert run("verify", nodes.ledger("node-a"), "--strict").exit_code == 0


def test_contradictions_are_shown_with_both_sides(tmp_path: Path) -> None:
    source = unknowing(tmp_path / "b.ledger.jsonl", conflict=True)
    found = answer("verify", source)
    (contradiction,) = found["contradictions"]
    assert found["decisions"] == 1
    assert [side["says"] for side in contradiction["sides"]] == ["a says 1", "b says 2"]
    table = run("verify", source).stdout
    assert "contradiction: node" in table
    assert "a says 1" in table
    assert "1 contradiction between sources" in table
    lines = run("verify", source, "-o", "jsonl").stdout.splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["contradiction", "finding"]


def test_names_cannot_speak_to_the_terminal(tmp_path: Path) -> None:
    source = unknowing(tmp_path / "a.ledger.jsonl", pod=HOSTILE)
    out = tmp_path / "out.xml"
    result = run("verify", source, "--all", "--junit", str(out), exits=0)
    assert not set("\x1b\x9b\u202e") & set(result.stdout)
    assert "\\x1b[2J<b>" in result.stdout
    suites = ET.parse(out).getroot()  # our own output
    (suite,) = suites
    (case,) = suite
    assert "\\x1b[2J<b>&\"'" in str(case.get("name"))
    assert case[0].tag == "skipped"
    assert answer("verify", source)["items"][0]["subject"] == f"pod/default/{HOSTILE}"


def test_errors_cannot_speak_to_the_terminal(tmp_path: Path) -> None:
    result = run("verify", str(tmp_path / "no\x1b[2J.ledger.jsonl"), exits=3)
    assert "\x1b" not in result.output
    assert "no\\x1b[2J" in result.output


def test_junit(tmp_path: Path, nodes: Nodes) -> None:
    """Suites with counts that fit, failures with what was expected."""
    out = tmp_path / "out.xml"
    run("verify", liar(tmp_path), nodes.ledger("node-b"), "--junit", str(out), exits=1)
    root = ET.parse(out).getroot()  # our own output
    assert {str(suite.get("name")).split()[0] for suite in root} == {"node-a", "node-b"}
    for element in (root, *root):
        for count, tag in (("tests", "testcase"), ("failures", "failure"), ("skipped", "skipped")):
            assert int(str(element.get(count))) == len(list(element.iter(tag)))
    (failure,) = root.iter("failure")
    assert '"bytes_to_free":1,' in str(failure.text)
    assert list(tmp_path.glob("*.tmp")) == []


def test_junit_is_all_or_nothing(tmp_path: Path, nodes: Nodes) -> None:
    out = tmp_path / "out.xml"
    out.write_text("before")
    bad = tmp_path / "bad.ledger.jsonl"
    text = Path(nodes.recording("node-a")).read_bytes()
    bad.write_bytes(text[: len(text) // 2])
    assert run("verify", str(bad), "--junit", str(out)).exit_code == 3
    assert out.read_text() == "before"
    assert list(tmp_path.glob("*.tmp")) == []


def test_nothing_to_verify(tmp_path: Path) -> None:
    Ledger.create(tmp_path / "empty")
    assert run("verify", "--ledger", str(tmp_path / "empty")).exit_code == 2
    Scene("1.36.2").save(tmp_path / "start.ledger.jsonl")
    found = answer("verify", str(tmp_path / "start.ledger.jsonl"))
    assert (found["decisions"], found["items"], found["contradictions"]) == (0, [], [])


def test_a_damaged_recording(tmp_path: Path, nodes: Nodes) -> None:
    """Named with its line: exit code 3."""
    path = tmp_path / "bad.ledger.jsonl"
    path.write_bytes(Path(nodes.recording("node-a")).read_bytes().replace(b"gpu-a", b"gpu-z", 1))
    result = run("verify", str(path), exits=3)
    assert "bad.ledger.jsonl:" in result.stderr
    assert "its CRC does not fit its bytes" in result.stderr


def test_a_damaged_ledger(tmp_path: Path, nodes: Nodes) -> None:
    """Exit code 4."""
    copy = tmp_path / "ledger"
    shutil.copytree(nodes.ledger("node-b"), copy)
    segment = next((copy / "nodes" / "node-b" / "segments").iterdir())
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    run("verify", "--ledger", str(copy), exits=4)


def test_python_gives_the_same_findings(nodes: Nodes) -> None:
    """``OpenLedger.verify``."""
    with open_ledger(nodes.ledger("node-b")) as ledger:
        found = [outcome for outcome in ledger.verify() if isinstance(outcome, Finding)]
        assert [f.seq for f in ledger.verify(node="node-b") if isinstance(f, Finding)] == [
            f.seq for f in found
        ]
    items = answer("verify", nodes.ledger("node-b"))["items"]
    assert [(f.seq, f.kind, f.verdict) for f in found] == [
        (item["seq"], item["kind"], item["verdict"]) for item in items
    ]


def test_a_refusal_without_reason_is_no_crash(tmp_path: Path) -> None:
    scene = Scene("1.36.2", settings={})
    scene.at(1, PodRejected(namespace="", pod="", pod_uid=None, reason="", message=""))
    scene.save(tmp_path / "odd.ledger.jsonl")
    (item,) = answer("verify", str(tmp_path / "odd.ledger.jsonl"))["items"]
    assert item["verdict"] == "unverifiable"
