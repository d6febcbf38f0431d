"""``kubeledger whatif`` as users call it."""

import csv
import io
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.cli.nodes import Nodes, answer, run
from tests.marks import slow
from tests.recordings import RECORDINGS, extract


@cache
def variants_of(*words: str) -> list[dict[str, Any]]:
    """What is answered about ledgers that nobody changes."""
    found: list[dict[str, Any]] = answer("whatif", *words)["variants"]
    return found


def test_images_that_would_have_stayed(nodes: Nodes) -> None:
    """With a high threshold of 80 %, no run of node-a begins."""
    (found,) = variants_of("--set", "imageGCHighThresholdPercent=80", nodes.ledger("node-a"))
    assert (found["node"], found["variant"]) == ("node-a", "imageGCHighThresholdPercent=80")
    assert found["decisions"] == 319
    assert sum(found[n] for n in ("same", "changed", "untrusted", "unknown")) == 319
    first, *others = found["changes"]
    assert first["kind"] == "images.GarbageCollectionStarted"
    assert first["recorded"]["high_threshold_percent"] == 5
    assert first["instead"] is None
    assert "72 % used, below the high threshold of 80 %" in first["why"]
    assert first["untrusted_since"] is None
    assert {change["kind"].partition(".")[0] for change in others} == {"images"}
    # What would have stayed is no percent of the disk: the second run would not begin either.
    assert {c["untrusted_since"] for c in others} == {None}
    said = [change["why"] for change in found["changes"]]
    assert not any("had to be" in why or "cannot have" in why for why in said)  # that is verify's
    assert any("would not have been removed: there was no space to be freed" in why for why in said)
    (end, *_) = [c for c in others if c["kind"] == "images.GarbageCollected"]
    assert end["why"].startswith("its outcome would be 'below_threshold', not 'failed'")
    assert end["why"].endswith("below the high threshold of 80 %, so no space pass begins")


def test_the_recorded_settings_change_nothing(nodes: Nodes) -> None:
    """Nor does the node's own version, or its own configuration file."""
    ledger = nodes.ledger("node-a")
    for args in (("--set", "maxPods=40"), ("--kubelet-version", "1.20.2")):
        (found,) = answer("whatif", *args, ledger)["variants"]
        assert (found["same"], found["changes"]) == (319, [])


@pytest.mark.parametrize(("name", "of_records"), [("node-a", 0), ("node-b", 27)])
def test_its_own_configuration_file_changes_nothing(
    nodes: Nodes, tmp_path: Path, name: str, of_records: int
) -> None:
    """Defaults are those of the version, and the command line stays.

    Of some decisions nothing is known: they rest on records of pulls, which were not collected.
    """
    config = next(extract(name, tmp_path).rglob("kubelet-config.yaml"))
    (found,) = answer("whatif", "--config", str(config), nodes.ledger(name))["variants"]
    assert found["variant"] == "kubelet-config.yaml"
    assert found["changes"] == []
    assert found["same"] + found["unknown"] == found["decisions"]
    assert found["unknown"] <= of_records + 1


def test_what_a_configuration_leaves_out_has_its_default(nodes: Nodes, tmp_path: Path) -> None:
    """And not the value of the file before: 110 pods, image GC at 85 %."""
    config = tmp_path / "small.yaml"
    config.write_text("kind: KubeletConfiguration\nimageGCLowThresholdPercent: 50\n")
    (found,) = answer("whatif", "--config", str(config), nodes.ledger("node-a"))["variants"]
    whys = " ".join(change["why"] for change in found["changes"])
    assert "below the high threshold of 85 %" in whys


def test_lines(nodes: Nodes) -> None:
    asked = ("whatif", "--set", "imageGCHighThresholdPercent=80", nodes.ledger("node-a"))
    expected = [
        {"node": found["node"], "variant": found["variant"], **change}
        for found in variants_of(*asked[1:])
        for change in found["changes"]
    ]
    lines = run(*asked, "-o", "jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == expected
    rows = list(csv.DictReader(io.StringIO(run(*asked, "-o", "csv").stdout)))
    assert [(row["variant"], int(row["seq"])) for row in rows] == [
        (change["variant"], change["seq"]) for change in expected
    ]
    assert [row["why"] for row in rows] == [change["why"] for change in expected]
    assert json.loads(rows[0]["recorded"]) == expected[0]["recorded"]
    assert rows[0]["instead"] == ""
    same = ("whatif", "--kubelet-version", "1.20.2", nodes.ledger("node-a"))
    assert run(*same, "-o", "csv").stdout == (
        "node,variant,seq,ts_ns,kind,subject,recorded,instead,why,untrusted_since\n"
    )
    assert run(*same, "-o", "jsonl").stdout == ""


def test_alternatives_side_by_side() -> None:
    short = ("admission-fits", "node-a-liveness")
    histories = [RECORDINGS / "golden" / f"{name}.ledger.jsonl" for name in short]
    found = answer("whatif", "--set", "maxPods=10|40", "--set", "podsPerCore=0|3", *histories)
    names = [f"maxPods={pods} podsPerCore={a_core}" for pods in (10, 40) for a_core in (0, 3)]
    assert [(one["node"], one["variant"]) for one in found["variants"]] == [
        (node, name) for node in ("node-1", "node-a") for name in names
    ]


LONG = "imageGCHighThresholdPercent=80|90", "evictionHard.memory.available=5%", "maxPods=9|7"


@pytest.mark.parametrize("full", [False, *slow(True)])
def test_several_variants_fit_a_screen(nodes: Nodes, full: bool) -> None:
    """What is common stands once, names fold, and only --full goes over the screen."""
    asked = [part for text in LONG for part in ("--set", text)]
    lines = run(
        "whatif", *asked, nodes.ledger("node-a"), *(["--full"] if full else [])
    ).stdout.splitlines()  # fmt: skip
    assert max(map(len, lines)) <= 80
    assert full or len(lines) <= 23
    assert lines[0] == "node-a, evictionHard.memory.available=5%"
    assert [line.split()[4:] for line in lines[2:6]] == [
        [f"imageGCHighThresholdPercent={percent}", f"maxPods={pods}"]
        for percent in (80, 90)
        for pods in (9, 7)
    ]
    assert lines.count("in all variants") == 1
    if full:
        (found, *_) = answer("whatif", *asked, nodes.ledger("node-a"))["variants"]
        sure = [change["seq"] for change in found["changes"] if change["untrusted_since"] is None]
        reported = " ".join(lines)
        assert all(f"record {seq}," in reported for seq in sure)
    else:
        assert any("(--full shows all)" in line for line in lines)


def test_the_reason_stands_whole_before_the_numbers(nodes: Nodes) -> None:
    """What it comes to, each reason and whom it concerns, then counts."""
    asked = ("whatif", "--set", "imageGCHighThresholdPercent=80", nodes.ledger("node-a"))
    (found,) = variants_of(*asked[1:])
    assert found["summary"][:2] == [
        "Would not have happened: 8× image deleted, 2× garbage collection started.",
        "Would have been decided otherwise: 2× garbage collected.",
    ]
    lines = run(*asked).stdout.splitlines()
    assert len(lines) <= 23
    assert lines[1:3] == found["summary"][:2]
    text = " ".join(" ".join(lines).split())
    reason = f"GarbageCollectionStarted would not have happened: {found['changes'][0]['why']}"
    assert text.index(found["summary"][0]) < text.index(reason) < text.index("12 of 319 decisions")
    assert "2: 02:57:42 node, 03:02:42 node" in text


def test_what_follows_a_change_is_not_trusted(nodes: Nodes) -> None:
    """A pod that would have been refused holds nothing, so what follows is marked."""
    result = run("whatif", "--set", "maxPods=10", nodes.ledger("node-a"), exits=0)
    assert "capacity: 10" in result.stdout
    (found,) = answer("whatif", "--set", "maxPods=10", nodes.ledger("node-a"))["variants"]
    assert found["changed"] == 1
    assert found["untrusted"] > 50
    first = found["changes"][0]["seq"]
    assert {change["untrusted_since"] for change in found["changes"][1:]} == {first}
    assert re.search(rf"untrusted: \d+ changes? after that of\s+record\s+{first},", result.stdout)


def test_inputs_that_are_missing_are_counted(nodes: Nodes) -> None:
    """Under other rules, 1.20's settings do not say all."""
    args = ("whatif", "--kubelet-version", "1.36.2", nodes.ledger("node-a"))
    (found,) = answer(*args)["variants"]
    assert found["unknown"] > 0
    assert found["missing"]["the setting imageMaximumGCAge"] > 0
    said = " ".join(run(*args).stdout.split())
    assert "because it is not known: the setting imageMaximumGCAge" in said
    assert " ".join(found["summary"])[:60] in said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: KubeletConfiguration\nmaxPods: many\n", 'must be a whole number, not "many"'),
        ("kind: KubeletConfiguration\nmaxPods: -1\n", "must not be a negative number"),
        (
            "kind: KubeletConfiguration\nimageGCHighThresholdPercent: 50\n",
            "imageGCLowThresholdPercent 80 must be less than imageGCHighThresholdPercent 50",
        ),
        ("kind: Pod\n", "is no KubeletConfiguration"),
        ("- 1\n", "is no KubeletConfiguration"),
        ("{", "cannot be read as YAML"),
        ("\x1b", "cannot be read as YAML"),
    ],
)
def test_bad_configuration_files(nodes: Nodes, tmp_path: Path, text: str, message: str) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(text)
    result = run("whatif", "--config", str(config), nodes.ledger("node-a"), exits=3)
    assert message in result.stderr
    assert "config.yaml: " in result.stderr
