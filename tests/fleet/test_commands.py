"""``kubeledger fleet import`` and ``verify``, as users run them."""

import csv
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from kubeledger.cli.fleet import SUBCOMMANDS
from kubeledger.cli.fleet_options import Tally, print_summary, watched_results
from kubeledger.fleet.engines.choose import engine_of
from kubeledger.fleet.lake import Lake
from kubeledger.fleet.layout import ROW_ROOMS
from kubeledger.fleet.run import Plan
from kubeledger.fleet.types import Failure, NodeResult, NodeSpec
from kubeledger.remote.store import Store, digest_of_file
from tests.cli import nodes
from tests.fleet.places import log_lines, task, write_bundle
from tests.waiting import PATIENCE_S, until

ROOT = Path(__file__).parents[2]
NODES = 4
LINES = 400
SPEC = NodeSpec(lake="/lake", rules="r", source="/in")

WITH_RAY = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")


run = partial(nodes.run, "fleet")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sources")
    for number in range(NODES):
        node = f"node-{number}"
        log = log_lines(last=LINES, node=node)
        write_bundle(root / node, node=node, machine=f"{number}" * 32, log=log)
    return root


@pytest.fixture(scope="module")
def whole(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = tmp_path_factory.mktemp("whole") / "lake"
    run("import", f"{sources}/*", "--lake", lake, "--year", 2026, "--pool", "gpu", exits=0)
    return lake


def truth_of(lake: Path) -> dict[str, str]:
    """Path -> digest, of all that does not tell what it cost; and the names of what does."""
    files = [each.path for each in Store(str(lake)).list()]
    costly = ("nodes/", "done/", "claims/")
    return {path: "" if path.startswith(costly) else digest_of_file(lake / path) for path in files}


# --- one lake -----------------------------------------------------------------------------


def test_again_does_nothing_and_a_broken_source_is_a_row(
    whole: Path, sources: Path, tmp_path: Path
) -> None:
    before = truth_of(whole)
    broken = tmp_path / "broken.tar.gz"
    broken.write_bytes(b"\x1f\x8b no more than that")
    listed = tmp_path / "list"
    listed.write_text(f"# all\n{sources}/node-0\n\n  {sources}/node-1  \n")
    words = ("--from", listed, "--lake", whole)

    result = run("import", *words, exits=0)
    assert result.stdout.startswith("2 sources: 2 unchanged (local, ")
    assert "nodes      none changed; the lake has 4\n" in result.stdout
    reported = [run("import", *words, "--shard", f"{number}/2").stdout for number in range(2)]
    unchanged = [re.match(r"(\d) sources?: \d unchanged", text) for text in reported]
    assert sum(int(match[1]) for match in unchanged if match) == 2
    assert sum("of other shards" in text for text in reported) >= 1
    assert truth_of(whole) == before

    result = run("import", broken, *words, "-o", "csv", exits=1)
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [row["outcome"] for row in rows] == ["unchanged", "unchanged", "failed"]
    assert (rows[2]["source"], rows[2]["kind"]) == (str(broken), "input")
    assert [failure.source for failure in Lake.open(str(whole)).failures()] == [str(broken)]
    Lake.open(str(whole)).forget_failure(str(broken))


def test_verify_lists_the_nodes(whole: Path) -> None:
    result = run("verify", "--lake", whole, "-o", "json", exits=0)
    rows = json.loads(result.stdout)
    assert [(row["node"], row["pool"]) for row in rows] == [(f"node-{n}", "gpu") for n in range(4)]
    assert all(row["decisions"] > 0 for row in rows)
    reported = run("verify", "--lake", whole).stdout
    assert reported.splitlines()[0].split() == [
        "node",
        "pool",
        "versions",
        "decisions",
        "impossible",
    ]
    assert max(map(len, reported.splitlines())) <= 80
    assert "4 nodes, 0 of them verified again\n" in reported
    assert "4 nodes, 4 of them verified again\n" in run("verify", "--lake", whole, "--all").stdout


def test_what_other_rules_verified_is_verified_again(
    whole: Path, sources: Path, tmp_path: Path
) -> None:
    """By either command; an import leaves the sources unread that the lake has."""
    lake = tmp_path / "lake"
    with pytest.MonkeyPatch.context() as patch:
        for module in ("task", "generation"):
            patch.setattr(f"kubeledger.fleet.{module}.rules_version", lambda: "0.0.1+yesterday")
        for number in range(2):
            options = {"rules": "0.0.1+yesterday", "pool": "gpu"}
            assert task(str(lake), str(sources / f"node-{number}"), **options).failure is None
    result = run("import", sources / "node-0", "--lake", lake, "-o", "jsonl")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["source"], row["outcome"]) for row in rows] == [
        (str(sources / "node-0"), "unchanged"),
        ("node node-0", "verified"),
    ]
    for again in (1, 0):
        reported = f"2 nodes, {again} of them verified again\n"
        assert reported in run("verify", "--lake", lake, "--workers", 1).stdout
    found, expected = contents_of(lake), contents_of(whole)
    assert len(found) == 8
    assert found.items() <= expected.items()


def contents_of(lake: Path) -> dict[str, str]:
    """Directory -> digest of its file; a file that another ID would not change keeps its name."""
    rooms = (*(f"{room}/" for room in ROW_ROOMS), "ledgers/")
    found = truth_of(lake)
    return {path.rpartition("/")[0]: found[path] for path in found if path.startswith(rooms)}


@pytest.mark.parametrize("command", ["import", "verify"])
def test_workers_of_other_rules_are_told_of_once(
    command: str, whole: Path, sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = truth_of(whole)
    monkeypatch.setattr("kubeledger.fleet.identity.rules_version", lambda: "9.9.9+other")
    words = [f"{sources}/*"] if command == "import" else []
    result = run(command, *words, "--lake", whole, exits=2)
    assert result.stderr.count("a worker has another kubeledger (") == 1
    assert "than this run (9.9.9+other)" in result.stderr
    assert "hint: install the same one on all workers" in result.stderr
    assert truth_of(whole) == before


@WITH_RAY
@pytest.mark.nightly  # test_end_to_end.py has the same without the command line
@pytest.mark.xdist_group("ray")
def test_ray_makes_the_same_lake(
    whole: Path, sources: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address = request.getfixturevalue("cluster").address
    lake = tmp_path / "lake"
    words = ("--lake", lake, "--year", 2026, "--pool", "gpu", "--engine", f"ray={address}")
    result = run("import", f"{sources}/*", *words, exits=0)
    assert "nodes      4 new; the lake has 4\n" in result.stdout
    assert truth_of(lake) == truth_of(whole)


# --- who dies, who stops ------------------------------------------------------------------


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where all tasks wait; see ``gated``."""
    (tmp_path / "gate").mkdir()
    monkeypatch.setenv("KUBELEDGER_TEST_GATE", str(tmp_path / "gate"))
    return tmp_path / "gate"


def started(*words: object, **options: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401 # Popen's
    """A command of the group in a process and session of its own; its tasks wait at the gate."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.fleet.gated", "fleet", *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"},
        start_new_session=True,
        **options,
    )


def waiting(gate: Path, count: int) -> list[int]:
    """Process IDs of the workers that have come to the gate, when there are so many."""

    def found() -> list[int]:
        held = [each for each in gate.iterdir() if each.suffix != ".open"]
        return [int(each.suffix[1:]) for each in held] if len(held) >= count else []

    return until(found)


def is_over(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.slow
def test_whoever_is_killed_the_next_import_completes_the_lake(
    whole: Path, sources: Path, tmp_path: Path, gate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker, whose task is tried again; then the command itself, and its workers go with it."""
    lake, scratch = tmp_path / "lake", tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", None)  # where it was found before
    (gate / "node-0.open").touch()
    words = ("import", f"{sources}/*", "--lake", lake, "--year", 2026, "--pool", "gpu")
    with started(*words, "--workers", 2, stdout=subprocess.DEVNULL) as process:
        waiting(gate, 3)  # node-0, and each worker with one of the others
        (first,) = map(int, (each.suffix[1:] for each in gate.glob("node-1.*")))
        os.kill(first, signal.SIGKILL)
        workers = waiting(gate, 4)
        process.kill()
    until(lambda: all(map(is_over, workers)))
    assert len(Lake.open(str(lake)).heads()) == 1
    assert any(scratch.iterdir()), "what they were killed at"
    run(*words, exits=0)
    assert truth_of(lake) == truth_of(whole)
    assert not any(scratch.iterdir()), "also what the killed ones left is gone"


def test_an_interrupt_on_a_terminal_stops_it_at_once(
    sources: Path, tmp_path: Path, gate: Path
) -> None:
    """A bar shows progress until then; then no process is left, and nothing failed."""
    lake = tmp_path / "lake"
    words = ("import", f"{sources}/*", "--lake", lake, "--year", 2026, "--pool", "gpu")
    ours, theirs = pty.openpty()
    with started(*words, "--workers", 1, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        (worker,) = waiting(gate, 1)
        shown = b""
        while b"importing: node 0 of 4" not in shown:
            shown += os.read(ours, 1 << 16)
        os.killpg(process.pid, signal.SIGINT)  # as the terminal does for Ctrl-C
        shown += b"".join(everything(ours))
        assert process.wait(PATIENCE_S) == 130
    assert shown.decode().rstrip().endswith("interrupted")
    assert b"Traceback" not in shown
    until(lambda: is_over(worker))
    assert Lake.open(str(lake)).failures() == []


def everything(terminal: int) -> Iterator[bytes]:
    """What is written to a terminal until the last process leaves it."""
    try:
        while written := os.read(terminal, 1 << 16):
            yield written
    except OSError:  # Linux' way to say that all have left
        pass
    finally:
        os.close(terminal)


# --- what is shown ------------------------------------------------------------------------


def results_of(count: int, failed: int = 0) -> Iterator[NodeResult]:
    """Results without nodes, the first ones failures of many reasons."""
    for number in range(count):
        failure = Failure(
            source=f"/data/{'a-long-path/' * 20}node-{number:04}.tar.gz",
            kind="input",
            reason=f"{'deep/' * 99}log: has the fault {number % 30}: " + "and more " * 30,
            advice="look at it " * 40,
        )
        yield NodeResult(spec=SPEC, failure=failure if number < failed else None)


def test_a_run_of_a_thousand_fits_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally(Plan(specs=(), unchanged=(), elsewhere=7, heads={}, failed=frozenset()))
    assert sum(1 for _ in tally.counting(results_of(1000, failed=300))) == 1000
    print_summary(tally, engine_of("local", workers=2), "/lake", 5000)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1,000 sources: 700 unchanged, 300 failed, in 83m (local, 2 workers)"
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert any("and 27 other reasons; -o csv has all" in line for line in lines)
    assert any("log: has the fault 0" in line for line in lines)
    assert any(line.endswith("30.tar.gz, 8 more") for line in lines)


def test_lines_now_and_then_where_no_terminal_shows_a_bar(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now_s = iter(range(10_000))
    results = results_of(1000, failed=3)
    failure = attrgetter("failure")
    shown = watched_results(results, "importing", 1000, failure, lambda: float(next(now_s)))
    assert sum(1 for _ in shown) == 1000
    lines = capsys.readouterr().err.splitlines()
    assert 10 < len(lines) < 110
    found = re.fullmatch(r"(\d+) of 1,000 nodes, 3 failed, about (\d+)m left", lines[5])
    assert found is not None, lines[5]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["import", "--lake", "{lake}"], "no source is named"),
        (["import", "x", "--lake", "{lake}", "--shard", "2/2"], "'2/2' is not a shard"),
        (["import", "x", "--lake", "{lake}", "--engine", "spark"], "there is no engine 'spark'"),
        (["import", "x", "--lake", "{lake}", "--year", "26"], "no year of a kubelet's log: 26"),
        (["verify", "--lake", "{lake}/none"], "there is no lake"),
        (["import", "no-*-such", "--lake", "{lake}"], "nothing matches the pattern"),
        (["import", "x", "--lake", __file__], f"{__file__}: no directory can be made there"),
        (["import", "x", "--lake", f"{__file__}/lake"], "no directory can be made there"),
        (["import", "x", "--lake", "{lake}", "--node", "a/b", "--cluster", "c"], "not of c"),
    ],
)
def test_usage_errors_make_no_lake(words: list[str], message: str, tmp_path: Path) -> None:
    """Exit code 2."""
    lake = tmp_path / "lake"
    result = run(*(word.format(lake=lake) for word in words))
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr
    assert not lake.exists()


def test_ray_that_is_missing_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    result = run("import", tmp_path, "--lake", tmp_path / "lake", "--engine", "ray", exits=2)
    assert result.stderr == ("error: Ray is not installed\nhint: pip install 'kubeledger[fleet]'\n")


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_command_of_the_group_has_an_example(name: str) -> None:
    """The help of a command shows how it is used; that of the group lists it."""
    result = run(name, "--help")
    assert (result.exit_code, "Example" in result.output) == (0, True)
    assert f"  {name} " in run("--help").output
