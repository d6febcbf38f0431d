"""A ledger that lost acknowledged records, as users meet it."""

import os
import shutil
from pathlib import Path

import pytest

from kubeledger.ledger.ledger import Ledger
from tests.cli.nodes import run
from tests.recordings import extract

WARNING = "warning: the ledger lost acknowledged records of node-b ("


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Node-b's files with the beginning of its log, and the end of it in another file."""
    directory = extract("node-b", tmp_path_factory.mktemp("losses"))
    lines = (directory / "kubelet.log").read_text().splitlines(keepends=True)
    (directory / "kubelet.log").write_text("".join(lines[:3000]))
    (directory.parent / "later.log").write_text("".join(lines[-40:]))
    return directory


@pytest.fixture(scope="module")
def cut_once(files: Path) -> Path:
    """A ledger whose segment was cut in half, before any writer saw it."""
    ledger = files.parent / "cut"
    assert run("import", files, "--ledger", ledger).exit_code == 0
    (segment,) = ledger.glob("nodes/*/segments/*.jsonl")
    os.truncate(segment, segment.stat().st_size // 2)
    return ledger


@pytest.fixture(scope="module")
def lossy_once(cut_once: Path, files: Path) -> Path:
    """The same after an import of something else, which reported the loss."""
    ledger = Path(shutil.copytree(cut_once, files.parent / "lossy"))
    later = files.parent / "later.log"
    result = run("import", later, "--node", "node-b", "--year", "2026", "--ledger", ledger, exits=0)
    assert "recovered: node-b: records " in result.stderr
    assert "a record says so" in result.stderr
    return ledger


@pytest.fixture
def cut(cut_once: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(cut_once, tmp_path / "l"))


@pytest.fixture
def lossy(lossy_once: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(lossy_once, tmp_path / "l"))


def test_before_a_writer_comes(cut: Path) -> None:
    for command in ("verify", "completeness", "state", "ls"):
        assert run(command, "--ledger", cut).exit_code == 4
    result = run("audit", "--ledger", cut, exits=1)
    assert "were acknowledged and are not there" in result.stdout
    assert "unfinished write" not in result.stdout


@pytest.mark.parametrize(
    "command",
    [
        ("verify",),
        ("completeness",),
        ("state",),
        ("sql", "select 1"),
        ("why", "image/x"),
        ("export",),
        ("ls",),
    ],
    ids=lambda command: command[0],
)
def test_readers_warn(lossy: Path, command: tuple[str, ...]) -> None:
    result = run(*command, "--ledger", lossy)
    assert [line for line in result.stderr.splitlines() if line.startswith(WARNING)] != []
    assert WARNING not in result.stdout
    if command[0] != "why":
        assert result.exit_code == 0, result.output


def test_diff_warns(lossy: Path, files: Path) -> None:
    assert run("diff", lossy, files).stderr.startswith(WARNING)
    assert run("diff", files, f"{lossy}").stderr.startswith(WARNING)
    assert run("diff", f"{lossy}@1", f"{lossy}@2").stderr.count(WARNING) == 2
    assert run("import", files, "--ledger", lossy).exit_code == 0
    assert WARNING not in run("diff", lossy, files).stderr


def test_completeness_names_it(lossy: Path) -> None:
    """Among the sources; the lines of the import that was cut off are not known."""
    text = run("completeness", "--full", "--ledger", lossy).stdout
    assert "records that the ledger lost: 1\n  records " in text
    assert "import the same sources again" in text


def test_it_is_never_forgotten(lossy: Path, files: Path) -> None:
    assert run("audit", "--ledger", lossy).exit_code == 1
    (lossy / "ledger.json").unlink()
    later = files.parent / "later.log"
    result = run("import", later, "--node", "node-b", "--year", "2026", "--ledger", lossy)
    assert f"recovered: {lossy / 'ledger.json'}: it was lost or damaged" in result.stderr
    result = run("audit", "--ledger", lossy, exits=1)
    assert "a recovery did not find them" in result.stdout
    assert result.stdout.endswith("\n1 finding\n")
    assert run("verify", "--ledger", lossy).stderr.startswith(WARNING)


def test_it_is_healed_by_the_same_import(lossy: Path, files: Path) -> None:
    assert run("import", files, "--ledger", lossy).exit_code == 0
    result = run("audit", "--ledger", lossy, exits=0)
    assert "nothing of these imports is missing" in result.stdout
    for command in ("verify", "completeness", "state"):
        assert WARNING not in run(command, "--ledger", lossy).stderr


def test_recordings_report_it_too(lossy: Path, files: Path, tmp_path: Path) -> None:
    """Whole, an excerpt, redacted; and a healed loss is one there, too."""
    for name, options in (
        ("whole", ()),
        ("excerpt", ("--kind", "prober.*")),
        ("redacted", ("--redact",)),
    ):
        out = tmp_path / f"{name}.ledger.jsonl"
        assert run("export", "--ledger", lossy, "--out", out, *options).exit_code == 0
        assert "the ledger lost acknowledged records" in run("verify", out).stderr
        assert "a recovery did not find them" in run("audit", out).stdout
        assert run("audit", out).exit_code == 1
    assert run("import", files, "--ledger", lossy).exit_code == 0
    for options in ((), ("--redact",), ("--kind", "prober.*")):
        out = tmp_path / "healed.ledger.jsonl"
        assert run("export", "--ledger", lossy, "--out", out, *options).exit_code == 0
        assert "the ledger lost" not in run("verify", out).stderr
        assert run("audit", out).exit_code == 0


def test_the_state_is_the_same_when_healed(cut: Path, files: Path, tmp_path: Path) -> None:
    assert run("import", files, "--ledger", cut).exit_code == 0
    whole = tmp_path / "whole"
    run("import", files, "--ledger", whole)
    assert run("diff", cut, whole).exit_code == 0
    lost = [record for record in Ledger.open(cut).records() if record.kind == "ledger.RecordsLost"]
    assert len(lost) == 1
