"""``kubeledger diff`` as users call it."""

import csv
import io
import json
from pathlib import Path

import msgspec
from freezegun import freeze_time

from kubeledger.model.bodies.lifecycle import PodAdmitted, PodRejected
from kubeledger.model.record import Evidence
from kubeledger.testing.scene import Scene
from tests.cli.nodes import Nodes, answer, lied, run, seq_of

GC = "images.GarbageCollectionStarted"
NOON = "2026-11-21T03:00:00Z"


def test_nothing_differs(nodes: Nodes) -> None:
    sides = (nodes.ledger("node-a"), nodes.recording("node-a", ".zst"))
    assert run("diff", *sides).stdout == "the same decisions\n"
    assert answer("diff", *sides) == {"differences": []}
    assert answer("diff", *sides, "--exact") == {"differences": []}


def test_one_changed_decision(nodes: Nodes, tmp_path: Path) -> None:
    seq = seq_of("node-a", GC)
    other = lied("node-a", tmp_path / "b.ledger.jsonl", seq, bytes_to_free=1)
    (found,) = answer("diff", nodes.ledger("node-a"), other, exit_code=1)["differences"]
    assert (found["what"], found["kind"], found["occurrence"]) == ("differs", GC, 1)
    assert found["a"] == found["b"]
    assert (found["a"]["seq"], found["a"]["file"]) == (seq, "kubelet.log")
    assert found["fields"] == {"bytes_to_free": [183562994319, 1]}
    result = run("diff", nodes.ledger("node-a"), other, exits=1)
    assert result.stdout.splitlines()[:2] == ["first difference:", f"{GC}: differs"]
    assert "bytes_to_free: 183562994319 -> 1" in result.stdout


def test_evidence_without_a_line(tmp_path: Path) -> None:
    sides = []
    for reason in ("OutOfcpu", "OutOfmemory"):
        scene = Scene()
        rejected = PodRejected(namespace="default", pod="a", pod_uid="u", reason=reason, message="")
        scene.at(1, rejected)
        place = (Evidence(file="events.json"),)
        scene.records[-1] = msgspec.structs.replace(scene.records[-1], evidence=place)
        sides.append(tmp_path / f"{reason}.ledger.jsonl")
        scene.save(sides[-1])
    result = run("diff", *map(str, sides))
    assert "events.json\n" in result.stdout
    assert "None" not in result.stdout


def test_two_nodes(nodes: Nodes) -> None:
    found = answer("diff", nodes.ledger("node-a"), nodes.ledger("node-b"), exit_code=1)
    ways = [one["what"] for one in found["differences"]]
    assert set(ways) == {"differs", "only_in_a", "only_in_b"}
    for one in found["differences"]:
        assert (one["a"] is None) == (one["what"] == "only_in_b")
        assert (one["b"] is None) == (one["what"] == "only_in_a")
    times = [(one["a"] or one["b"])["ts_ns"] for one in found["differences"]]
    assert times == sorted(times)
    text = run("diff", nodes.ledger("node-a"), nodes.ledger("node-b")).stdout
    assert f"all {len(ways)} differences, with the first:" in text
    assert "only in A" in text


def test_lines(nodes: Nodes) -> None:
    """A line a difference, as JSON and as CSV; exit code 1 as ever."""
    for sides in (
        (nodes.ledger("node-a"), nodes.ledger("node-b")),
        (f"{nodes.ledger('node-a')}@100", f"{nodes.ledger('node-a')}@101"),
    ):
        expected = answer("diff", *sides, exit_code=1)["differences"]
        lines = run("diff", *sides, "-o", "jsonl", exits=1)
        assert [json.loads(line) for line in lines.stdout.splitlines()] == expected
        rows = list(csv.DictReader(io.StringIO(run("diff", *sides, "-o", "csv").stdout)))
        assert len(rows) == len(expected)
        for row, one in zip(rows, expected, strict=True):
            assert list(row) == list(one)
    same = (nodes.ledger("node-a"), nodes.ledger("node-a"))
    assert run("diff", *same, "-o", "csv").stdout == "what,kind,subject,occurrence,a,b,fields\n"
    assert run("diff", *same, "-o", "jsonl").stdout == ""


def test_states(nodes: Nodes) -> None:
    """By time and by record, of a source or of the ledger; paths are those of ``state -o json``."""
    ledger = nodes.ledger("node-a")
    assert run("diff", f"{ledger}@{NOON}", f"{ledger}@{NOON}").stdout == "the same state\n"
    found = answer("diff", f"{ledger}@100", f"{ledger}@101", exit_code=1)["differences"]
    assert {"path": "seq", "a": 100, "b": 101} in found
    assert [one["path"] for one in found] == sorted(one["path"] for one in found)
    for call in ((f"{ledger}@100", f"{ledger}@101"), ("@100", "@101", "--ledger", ledger)):
        text = run("diff", *call, exits=1)
        assert "seq: 100 -> 101\n" in text.stdout


def test_states_are_those_of_the_state_command(nodes: Nodes) -> None:
    ledger = nodes.ledger("node-a")
    then = answer("state", "--ledger", ledger, "--at", NOON)
    later = answer("state", "--ledger", ledger, "--at", "2026-11-21T03:01:00Z")
    found = answer(
        "diff", f"{ledger}@{NOON}", f"{ledger}@2026-11-21T03:01:00Z", exit_code=1
    )["differences"]  # fmt: skip
    assert {"path": "seq", "a": then["seq"], "b": later["seq"]} in found


def test_states_at_times_before_now(nodes: Nodes) -> None:
    ledger = nodes.ledger("node-a")
    with freeze_time("2026-11-21T05:00:00Z"):
        assert run("diff", f"{ledger}@-2h", f"{ledger}@{NOON}").exit_code == 0
        assert run("diff", f"{ledger}@-2h", f"{ledger}@now").exit_code == 1


def test_a_path_may_hold_an_at(tmp_path: Path) -> None:
    path = tmp_path / "a@5.ledger.jsonl"
    scene = Scene("1.36.2")
    scene.at(1, PodAdmitted(namespace="default", pod="web", pod_uid=None))
    scene.save(path)
    assert run("diff", str(path), str(path)).stdout == "the same decisions\n"
    assert run("diff", f"{path}@1", f"{path}@2").exit_code == 1


def test_several_nodes_in_one_source(tmp_path: Path) -> None:
    both = tmp_path / "both.ledger.jsonl"
    for name in ("node-1", "node-2"):
        scene = Scene("1.36.2", node=name)
        scene.at(1, PodAdmitted(namespace="default", pod=name, pod_uid=None))
        scene.save(tmp_path / f"{name}.ledger.jsonl")
    both.write_bytes(b"".join((tmp_path / f"node-{n}.ledger.jsonl").read_bytes() for n in (1, 2)))
    one = str(tmp_path / "node-1.ledger.jsonl")
    result = run("diff", str(both), one, exits=2)
    assert "holds 2 nodes: node-1, node-2" in result.stderr
    assert run("diff", str(both), one, "--node", "node-1").exit_code == 0
    empty = tmp_path / "empty.ledger.jsonl"
    empty.touch()
    assert "holds no records" in run("diff", str(empty), one).stderr


def test_names_cannot_speak_to_the_terminal(tmp_path: Path) -> None:
    for name in ("a", "b\x1b[2J"):
        scene = Scene("1.36.2", node="node-1")
        scene.at(1, PodAdmitted(namespace="default", pod=name, pod_uid=None))
        scene.save(tmp_path / f"{name[0]}.ledger.jsonl")
    result = run(
        "diff", str(tmp_path / "a.ledger.jsonl"), str(tmp_path / "b.ledger.jsonl"), exits=1
    )
    assert "b\\x1b[2J: only in B" in result.stdout
    assert "\x1b" not in result.stdout
