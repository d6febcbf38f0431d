"""What commands read and write besides the ledger: ``-``, and one exit code for one fault."""

import errno
import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import Result

from kubeledger.cli.files import new_output, output_errors
from kubeledger.ledger.standalone import read_recording
from kubeledger.model.errors import OutputError
from tests.cli.nodes import Nodes, answer, run

ROOT = Path(__file__).parents[2]
FIRST = ROOT / "recordings" / "scenarios" / "first.yaml"
CONFIG = "kind: KubeletConfiguration\nimageGCLowThresholdPercent: 50\n"
SHORT = ("--duration", "3m", "--seed", "1")


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def fed(data: bytes, *arguments: str, exits: int | None = None) -> Result:
    return run(*arguments, input=data, exits=exits)


def placed(nodes: Nodes, command: tuple[str, ...]) -> list[str]:
    return [nodes.ledger("node-a") if word == "A" else word for word in command]


def test_a_scenario_on_standard_input(tmp_path: Path) -> None:
    (tmp_path / "-").write_text("no: scenario\n")
    result = fed(FIRST.read_bytes(), "simulate", "-", "--check")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "the scenario is sound" in result.stdout
    fed(FIRST.read_bytes(), "simulate", "-", "--out", "a.ledger.jsonl", *SHORT)
    run("simulate", str(FIRST), "--out", "b.ledger.jsonl", *SHORT)
    assert Path("a.ledger.jsonl").read_bytes() == Path("b.ledger.jsonl").read_bytes()


def test_problems_of_a_scenario_on_standard_input(tmp_path: Path) -> None:
    """Named so; what it refers to is looked for in the present directory."""
    result = fed(b"kubeletVersion: 1.2.3\nduration: 10m\n", "simulate", "-", exits=3)
    assert "error: standard input:1:1: kubeletVersion" in result.stderr
    (tmp_path / "kubelet.yaml").write_text("kind: KubeletConfiguration\nmaxPods: -1\n")
    result = fed(
        b"kubeletVersion: 1.20.2\nduration: 10m\nconfigFile: kubelet.yaml\n", "simulate", "-"
    )
    assert "maxPods" in result.stderr


def test_a_configuration_on_standard_input(nodes: Nodes) -> None:
    Path("small.yaml").write_text(CONFIG)
    of_file = answer("whatif", "--config", "small.yaml", nodes.ledger("node-a"))["variants"]
    sources = (nodes.ledger("node-a"), nodes.ledger("node-b"))
    result = fed(CONFIG.encode(), "whatif", "--config", "-", "-o", "json", *sources, exits=0)
    of_a, of_b = json.loads(result.stdout)["variants"]
    assert of_a["changes"] == of_file[0]["changes"]
    assert (of_a["variant"], of_b["variant"]) == ("standard input",) * 2
    result = fed(CONFIG.encode(), "whatif", "--config", "-", "--config", "-", *sources, exits=2)
    assert "standard input can be read once" in result.stderr


def test_records_on_standard_output(nodes: Nodes, tmp_path: Path) -> None:
    """``--out -`` makes no file, and nothing else comes out there."""
    ledger = nodes.ledger("node-a")
    assert (
        run("export", "--ledger", ledger, "--out", "-").stdout_bytes
        == run("export", "--ledger", ledger).stdout_bytes
    )
    result = run("simulate", str(FIRST), "--out", "-", *SHORT, exits=0)
    Path("x.ledger.jsonl").write_bytes(result.stdout_bytes)
    records = list(read_recording("x.ledger.jsonl"))
    assert result.stderr == f"{len(records):,} records in standard output\n"
    assert [path.name for path in tmp_path.iterdir()] == ["x.ledger.jsonl"]
    result = run("simulate", str(FIRST), "--out", "-", "--ledger", "l", *SHORT)
    assert f"{len(records):,} records added to l\n" in result.stderr
    assert result.stdout_bytes == Path("x.ledger.jsonl").read_bytes()
    result = run("simulate", str(FIRST), "--out", "-", "-o", "json", exits=2)
    assert result.stdout == ""


def test_junit_on_standard_output(nodes: Nodes, tmp_path: Path) -> None:
    result = run("verify", nodes.ledger("node-b"), "--junit", "-", exits=0)
    assert len(list(ET.fromstring(result.stdout).iter("testcase"))) == 240  # our own output
    assert list(tmp_path.iterdir()) == []


def test_a_recording_on_standard_input(nodes: Nodes) -> None:
    ledger, whole = nodes.ledger("node-b"), Path(nodes.recording("node-b")).read_bytes()
    for command in (("verify",), ("completeness",), ("diff", ledger)):
        result = fed(whole, *command, "-", exits=0)
        assert "/" not in result.stdout.partition("\n")[0]
    assert '"decisions":228' in fed(whole, "verify", "-", "-o", "json").stdout
    damaged = fed(whole.replace(b'"seq":7,', b'"seq":8,', 1), "verify", "-", exits=3)
    assert damaged.stderr.startswith("error: standard input:7: ")


def test_an_audit_of_standard_input(nodes: Nodes) -> None:
    """As of a file: its digest counts, and what does not fit is reported with its place."""
    path = nodes.recording("node-b")
    whole = Path(path).read_bytes()
    of_file = run("audit", path)
    digest = re.search(r"digest (\S+)", of_file.stdout)
    assert digest is not None
    piped = fed(whole, "audit", "-", "--expect", digest[1])
    assert (piped.exit_code, piped.stdout) == (0, of_file.stdout)
    damaged = whole.replace(b'"seq":7,', b'"seq":8,', 1)
    Path("bad.ledger.jsonl").write_bytes(damaged)
    of_file, piped = run("audit", "bad.ledger.jsonl"), fed(damaged, "audit", "-")
    assert piped.exit_code == of_file.exit_code != 0
    assert piped.output == of_file.output.replace("bad.ledger.jsonl", "standard input")


def test_a_recording_in_a_real_pipe(nodes: Nodes) -> None:
    """What was looked at to see what it is, is not lost; so it is for a log."""
    export = [sys.executable, "-m", "kubeledger", "export", "--ledger", nodes.ledger("node-b")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    verify = [sys.executable, "-m", "kubeledger", "verify", "-"]
    with subprocess.Popen(export, stdout=subprocess.PIPE, env=environment) as source:
        done = subprocess.run(verify, stdin=source.stdout, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert any(line.split()[:2] == [b"all", b"228"] for line in done.stdout.splitlines())
    log = (ROOT / "tests" / "data" / "kubelet" / "liveness-1.20.2.log").read_bytes()
    done = subprocess.run(verify, input=log, env=environment, capture_output=True)
    Path("kubelet.log").write_bytes(log)
    of_file = run("verify", "kubelet.log").stdout
    assert done.stdout.decode().splitlines()[1:] == of_file.splitlines()[1:]


def test_a_recording_is_not_imported(nodes: Nodes) -> None:
    """The message is one sentence, and the hint says what reads it; of an export, too."""
    recording = nodes.recording("node-b")
    export = run("export", "--ledger", nodes.ledger("node-b"), "--pod", "default/filler-a-node-b")
    Path("pod.jsonl").write_text(export.stdout)
    for file in (recording, "pod.jsonl"):
        result = run("import", file, "--ledger", "l", exits=3)
        error, hint = result.stderr.strip().splitlines()
        assert error.endswith(
            ": is a recording: it holds the records of an import, so it is not imported again"
        )
        assert "`verify`, `timeline`" in hint


MISSING: tuple[tuple[str, ...], ...] = (
    ("decide", "qos", "none.x"),
    ("judge", "qos", "none.x"),
    ("whatif", "--config", "none.x", "--ledger", "A"),
    ("simulate", "none.x"),
    ("import", "none.x"),
    ("import", "none.tar"),
    ("verify", "none.x"),
    ("verify", "none.ledger.jsonl"),
    ("whatif", "none.x", "--set", "maxPods=1"),
    ("why", "pod/a/b", "none.x"),
    ("completeness", "none.x"),
    ("diff", "none.x", "none.x"),
)


@pytest.mark.parametrize("command", MISSING, ids=" ".join)
def test_an_input_that_is_not_there(nodes: Nodes, command: tuple[str, ...]) -> None:
    result = run(*placed(nodes, command), exits=3)
    assert result.stderr.startswith("error: none.")
    assert "no such file" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("command", MISSING, ids=" ".join)
def test_an_input_that_is_no_file(nodes: Nodes, command: tuple[str, ...], tmp_path: Path) -> None:
    """A directory is no document; a pipe that nobody writes to would never answer."""
    (name,) = {word for word in command if word.startswith("none.")}
    takes_pipes = command[0] in {"decide", "judge"} or name == "none.ledger.jsonl"
    if takes_pipes:
        (tmp_path / name).mkdir()
    else:
        os.mkfifo(tmp_path / name)
    run(*placed(nodes, command), exits=3)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
@pytest.mark.parametrize("command", MISSING, ids=" ".join)
def test_an_input_that_is_forbidden(nodes: Nodes, command: tuple[str, ...], tmp_path: Path) -> None:
    (name,) = {word for word in command if word.startswith("none.")}
    (tmp_path / name).touch(mode=0)
    result = run(*placed(nodes, command), exits=3)
    assert "permission denied" in result.stderr.lower()


@pytest.mark.parametrize(
    "command",
    [
        ("audit", "--chain-only", "-"),
        ("audit", "-"),
        ("sql", "--ledger", "A", "-"),
        ("sql", "--ledger", "A"),
    ],
    ids=" ".join,
)
def test_a_closed_standard_input(nodes: Nodes, command: tuple[str, ...]) -> None:
    """``<&-``: bad input, and no fault of the program."""
    words = placed(nodes, command)
    done = subprocess.run(
        ["sh", "-c", '"$@" <&-', "sh", sys.executable, "-m", "kubeledger", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3, done.stderr
    assert done.stderr.startswith("error: ")
    assert "standard input" in done.stderr
    assert done.stdout == ""


def test_a_query_on_standard_input_that_is_no_text(nodes: Nodes) -> None:
    result = fed(b"select '\xff'", "sql", "--ledger", nodes.ledger("node-a"), "-")
    assert (result.exit_code, result.stderr) == (3, "error: standard input: is not UTF-8\n")


def test_the_subsystem_is_looked_at_first() -> None:
    result = run("judge", "foo", "x", exits=2)
    assert "unknown subsystem 'foo'" in result.stderr


def test_a_file_that_is_named_with_a_dot(nodes: Nodes) -> None:
    """``./x`` is the same file as ``x`` and is named as it was given."""
    result = run("decide", "qos", "./none.x", exits=3)
    assert result.stderr.startswith("error: ./none.x: cannot be read: no such file")


@pytest.mark.parametrize("name", ["t.ledger.jsonl", "t.ledger.jsonl.zst"])
@pytest.mark.parametrize("command", ["verify", "completeness", "whatif"])
def test_an_empty_recording(command: str, name: str) -> None:
    Path(name).touch()
    more = ("--set", "maxPods=1") if command == "whatif" else ()
    result = run(command, name, *more, exits=3)
    assert "no source holds a record" in result.stderr


UNWRITABLE: tuple[tuple[str, ...], ...] = (
    ("export", "--ledger", "A", "--out"),
    ("simulate", str(FIRST), *SHORT, "--out"),
    ("verify", "A", "--junit"),
)


@pytest.mark.parametrize("command", UNWRITABLE, ids=lambda words: words[0])
def test_an_output_that_cannot_be_written(nodes: Nodes, command: tuple[str, ...]) -> None:
    """A wrong call, and no damage of a ledger; the hint is about the file."""
    words = placed(nodes, command)
    result = run(*words, "no/such/place.ledger.jsonl", exits=2)
    assert result.stderr == (
        "error: no/such/place.ledger.jsonl: cannot be written: no such file or directory\n"
        "hint: make the directory first\n"
    )
    Path("file").touch()
    result = run(*words, "file/x.ledger.jsonl", exits=2)
    assert "file/x.ledger.jsonl: cannot be written: not a directory" in result.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
@pytest.mark.parametrize("command", UNWRITABLE, ids=lambda words: words[0])
def test_an_output_that_is_forbidden(
    nodes: Nodes, command: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "closed").mkdir(mode=0o555)
    words = placed(nodes, command)
    result = run(*words, "closed/x.ledger.jsonl", exits=2)
    assert "closed/x.ledger.jsonl: cannot be written: permission denied" in result.stderr
    assert "ledger" not in result.stderr.partition("hint: ")[2]


@pytest.mark.parametrize("command", UNWRITABLE, ids=lambda words: words[0])
def test_an_output_without_room(nodes: Nodes, command: tuple[str, ...], tmp_path: Path) -> None:
    """A real limit of the kernel's: the same code, and no half of a file stays."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    words = placed(nodes, command)
    done = subprocess.run(
        [sys.executable, "-m", "kubeledger", *words, "x.ledger.jsonl"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        preexec_fn=limit,
        timeout=120,
    )
    assert done.returncode == 2, done.stderr
    assert "cannot be written: file too large" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_names_the_output(tmp_path: Path) -> None:
    """The error of a write knows no name, and nothing is left of the file."""
    path = tmp_path / "out.tar.gz"
    with pytest.raises(OutputError) as caught, output_errors(path), new_output(path):
        raise OSError(errno.EIO, "Input/output error")
    assert caught.value.file == str(path)
    assert "input/output error" in str(caught.value)
    assert list(tmp_path.iterdir()) == []
