"""``import``, ``demo`` and ``audit`` as a user runs them."""

import json
import re
import shutil
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from tests.cli import nodes
from tests.recordings import RECORDINGS

NODE_B = str(RECORDINGS / "node-b.tar.zst")


run = partial(nodes.run, env={"COLUMNS": "200"})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="module")
def by_format(place: Path) -> str:
    """What the import of node-b says, which makes ``ledger``."""
    return run("import", NODE_B, "--ledger", place / "ledger", exits=0).stdout


@pytest.fixture(scope="module")
def by_file(place: Path) -> str:
    return run("import", NODE_B, "--ledger", place / "files", "--files", exits=0).stdout


@pytest.fixture(scope="module")
def document(place: Path) -> dict[str, Any]:
    stdout = run("import", NODE_B, "--ledger", place / "json", "-o", "json", exits=0).stdout
    found: dict[str, Any] = json.loads(stdout)
    return found


@pytest.fixture(scope="module")
def ledger(place: Path, by_format: str) -> Path:
    """A ledger of node-b, made by the command; no test of this module changes it."""
    return place / "ledger"


def test_import_prints_an_account(by_format: str, by_file: str) -> None:
    """Per source: bytes, lines, records, lines not understood; and the totals."""
    assert "node-b (kubelet 1.36.2)" in by_format
    assert "prober.ProbeExecuted" not in by_format
    reported = " ".join(by_format.split())
    assert (
        "What happened on node-b: 1 preempted pod, 2 refused pods, 13 kills by probes or hooks"
        in reported
    )
    assert "kubeledger why pod/default/filler-a-node-b --ledger" in reported
    assert "prober.ProbeExecuted" in by_file
    assert "not understood" in by_format
    assert max(map(len, by_format.splitlines()[:-12])) <= 80
    assert "…" not in by_format


def test_import_of_many_files(by_format: str, by_file: str, document: dict[str, Any]) -> None:
    """A row a format, whose sums are those of the files; all files when asked for."""
    files, formats = table(by_file), table(by_format)
    assert len(files) == len(document["bundles"][0]["accounts"]) > 20
    assert [row["format"] for row in formats] == sorted({row["format"] for row in files})
    assert sum(int(row["files"]) for row in formats) == len(files)
    for column in ("lines", "noise", "not understood", "records"):
        assert sum(int(r[column]) for r in formats) == sum(int(r[column]) for r in files)
    assert "with --files a row a file" in by_format
    assert re.search(r"\n\d,\d{3} records added", by_format)
    assert len(by_format.splitlines()) < 100


def test_import_of_a_few_files(tmp_path: Path) -> None:
    log = tmp_path / "kubelet.log"
    log.write_text(
        "Log file created at: 2026/11/21 01:00:00\nI1121 01:00:00.000000    1234 x.go:1] hello\n"
    )
    shown = run("import", log, "--ledger", tmp_path / "l").stdout
    (row,) = table(shown)
    assert (row["file"], row["format"], row["lines"]) == ("kubelet.log", "klog-text", "2")
    assert "(a guess, by the directory's name: see --node; kubelet ?) from " in shown
    counts = r"(\d+) records?, (\d+) of them about the import itself"
    added, own = re.findall(counts, " ".join(shown.split()))[0]
    assert int(row["records"]) + int(own) == int(added)
    named = run("import", log, "--ledger", tmp_path / "named", "--node", "a").stdout
    assert named.startswith("a (kubelet ?) from ")


@pytest.mark.parametrize(("width", "cut"), [(130, 4), (900, 0)])
def test_import_of_lines_that_a_pager_cut(tmp_path: Path, width: int, cut: int) -> None:
    log = tmp_path / "kubelet.log"
    line = (
        "Nov 21 01:00:0{0} n1 kubelet[7]: E1121 01:00:0{0}.000000       7 pod_workers.go:1301] "
        '"Error syncing pod, skipping" err="failed to \\"StartContainer\\" for \\"c\\" with '
        'ErrImagePull: \\"not found\\"" pod="a/b" podUID="u-b"'
    )
    lines = [line.format(second) for second in range(4)]
    log.write_text("".join(f"{x[:width]}>\n" if len(x) > width else f"{x}\n" for x in lines))
    shown = " ".join(run("import", log, "--ledger", tmp_path / "l").stdout.split())
    assert (f"The ends of {cut} lines are missing" in shown) == bool(cut)
    assert ("`journalctl -u kubelet --no-pager` prints them whole." in shown) == bool(cut)


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "empty"), ("hello\n", "no known format: line 1 is no line of klog: hello")],
)
def test_import_of_what_is_no_log(tmp_path: Path, text: str, says: str) -> None:
    """What it is instead, the usual things to give, and where all of them stand."""
    (tmp_path / "my.log").write_text(text)
    result = run("import", tmp_path / "my.log", "--ledger", tmp_path / "l", exits=3)
    error, hint = result.stderr.splitlines()
    assert error.endswith(f"holds nothing that can be imported: {says}")
    assert hint.startswith("hint: give a kubelet's log (`journalctl -u kubelet")
    assert "docs/sources.md" in hint


def table(text: str) -> list[dict[str, str]]:
    lines = text.splitlines()
    ruler = next(i for i, line in enumerate(lines) if line.startswith("---"))
    spans = [match.span() for match in re.finditer("-+", lines[ruler])]
    heads = [line for line in lines[ruler - 2 : ruler] if line != lines[0]]  # one may be in two
    names = [" ".join(line[b:e].strip() for line in heads).strip() for b, e in spans]
    rows = takewhile(bool, lines[ruler + 1 :])
    return [
        dict(zip(names, (row[begin:end].strip() for begin, end in spans), strict=True))
        for row in rows
    ]


def test_import_again_adds_nothing(ledger: Path) -> None:
    result = run("import", NODE_B, "--ledger", ledger, exits=0)
    assert "0 records added" in result.stdout
    assert "imported before" in result.stdout


def test_import_as_json(document: dict[str, Any]) -> None:
    assert document["bundles"][0]["node"] == "node-b"
    assert document["bundles"][0]["added"] > 2000


@pytest.mark.parametrize(
    ("arguments", "exit_code", "says"),
    [
        ((NODE_B, "--format", "novel"), 2, "novel"),
        ((NODE_B, "--year", "3"), 2, "year"),
        ((NODE_B, "--kubelet-version", "latest"), 2, "latest"),
        ((), 2, "SOURCE"),
    ],
)
def test_import_refuses(
    arguments: tuple[str, ...], exit_code: int, says: str, tmp_path: Path
) -> None:
    """With the exit code of the contract, naming what is wrong, without a traceback."""
    result = run("import", *arguments, "--ledger", tmp_path / "new", exits=exit_code)
    assert says in result.output


def test_import_of_an_empty_directory(tmp_path: Path) -> None:
    """Nothing useful in it: bad input, and it says what was looked for."""
    (tmp_path / "empty").mkdir()
    result = run("import", tmp_path / "empty", "--ledger", tmp_path / "new", exits=3)
    assert "error:" in result.output


def test_audit_of_a_sound_ledger(ledger: Path) -> None:
    result = run("audit", "--ledger", ledger, exits=0)
    assert "sound" in result.stdout
    digest = next(line.split()[-1] for line in result.stdout.splitlines() if "digest" in line)
    assert run("audit", "--ledger", ledger, "--expect", digest).exit_code == 0
    other = "node-b=" + "0" * 64
    refused = run("audit", "--ledger", ledger, "--expect", other, exits=1)
    assert other in refused.stdout


def test_audit_finds_a_flipped_byte(ledger: Path, tmp_path: Path) -> None:
    """With file and offset, and exit code 1."""
    copy = tmp_path / "copy"
    shutil.copytree(ledger, copy)
    segment = next(copy.rglob("segments/*.jsonl*"))
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    result = run("audit", "--ledger", copy, exits=1)
    assert segment.name in result.stdout
    as_json = run("audit", "--ledger", copy, "-o", "json")
    assert json.loads(as_json.stdout)["findings"]


def test_demo_leaves_a_ledger_alone(ledger: Path) -> None:
    before = {path: path.read_bytes() for path in ledger.rglob("*") if path.is_file()}
    result = run("demo", "--ledger", ledger, exits=2)
    assert "is already a ledger" in result.stderr
    assert result.stdout == ""
    assert {path: path.read_bytes() for path in ledger.rglob("*") if path.is_file()} == before


def test_demo(tmp_path: Path) -> None:
    """Import, verdicts, answers, a page and what to try next, on two screens; the ledger stays."""
    page, kept = tmp_path / "page.html", tmp_path / "kept"
    for records in (",765 records added", "\n0 records added"):
        result = run("demo", "--ledger", kept, "--page", page, exits=0)
        assert records in result.stdout
        assert page.resolve().as_uri() in result.stdout
        for words in ("gpu-a was preempted", "0 impossible", "94.4Mi", f"KUBELEDGER={kept}"):
            assert words in result.stdout
        assert re.search(r"  pod was preempted for (?s:.*) \[14\]\n", result.stdout)
        assert re.search(r"\n\[14\] kubelet.log:\d+  preemption: ", result.stdout)
        assert len(result.stdout.splitlines()) <= 50
    assert "critical-1" in page.read_text(encoding="utf-8")
    assert run("audit", "--ledger", kept).exit_code == 0
    assert run("why", "live-fail", "--ledger", kept).exit_code == 0


def test_files_that_are_not_read_are_folded(tmp_path: Path) -> None:
    """One line a reason: names of few files, the first ones of many, all when asked for."""
    node = tmp_path / "node"
    (node / "snapshots").mkdir(parents=True)
    (node / "kubelet.log").write_text("I1121 02:00:00.000000 1 kubelet.go:1] Starting kubelet\n")
    for number in range(9):
        (node / "snapshots" / f"notes-{number}").write_text(f"{number} words\n")
    (node / "empty").write_text("")
    folded = run("import", node, "--ledger", tmp_path / "a").stderr
    assert folded.count("not read: ") == 2
    first = "snapshots/notes-0, snapshots/notes-1, snapshots/notes-2, ..."
    assert f"not read: 9 files ({first}): no known format" in folded
    assert "not read: empty: empty" in folded
    named = run("import", node, "--ledger", tmp_path / "b", "--files").stderr
    assert "snapshots/notes-8" in named


def test_what_many_nodes_share_is_said_once(tmp_path: Path) -> None:
    """Warnings that differ in values only, and nodes on which nothing happened."""
    line = 'I1121 02:00:{:02}.000000 7 kubelet.go:1] "Starting kubelet"\n'
    for number in range(9):
        (tmp_path / f"node-{number}").mkdir()
        log = tmp_path / f"node-{number}" / "kubelet.log"
        log.write_text("".join(map(line.format, (20, 21, number, number + 1))))
    nodes = sorted(tmp_path.glob("node-?"))
    result = run("import", *nodes, "--ledger", tmp_path / "a")
    assert result.stderr.count("the kubelet's version") == 1
    assert "--kubelet-version says it (9 times)" in result.stderr
    assert result.stderr.count("the clock went back") == 2
    assert "warning: and 7 more of that kind (--files prints them)" in result.stderr
    assert result.stdout.count("What happened") == 1
    assert "9 nodes (node-0, node-1, node-2, ...)" in result.stdout
    every = run("import", *nodes, "--ledger", tmp_path / "b", "--files")
    assert every.stderr.count("the clock went back") > 2
