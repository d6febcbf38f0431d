"""Output that nobody reads, or that finds no room, in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kubeledger.cli.main import CLOSED_PIPE_EXIT_CODE
from tests.cli.nodes import Nodes

ROOT = Path(__file__).parents[2]


def piped(*arguments: str, reader: str = "head -1") -> tuple[int, int, bytes, str]:
    """Exit codes of the command and of a reader of a pipe; what the reader wrote; stderr."""
    script = f'set -o noglob; "$@" | {reader}; echo "${{PIPESTATUS[@]}}" >&2'
    done = subprocess.run(
        ["bash", "-c", script, "bash", sys.executable, "-m", "kubeledger", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=120,
    )
    *said, codes = done.stderr.decode().splitlines()
    command, other = map(int, codes.split())
    return command, other, done.stdout, "\n".join(said)


@pytest.mark.parametrize(
    "command",
    [
        ("ls", "-o", "jsonl"),
        ("ls", "-o", "table"),
        ("verify", "-o", "jsonl"),
        ("verify", "-o", "json"),
        ("export",),
        ("sql", "select * from evidence", "-o", "csv"),
    ],
    ids=" ".join,
)
def test_a_reader_that_has_gone(nodes: Nodes, command: tuple[str, ...]) -> None:
    """No finding and no word: 141, as shells have it, like every program before a pipe."""
    code, other, read, said = piped(*command, "--ledger", nodes.ledger("node-a"))
    assert (code, other, said) == (CLOSED_PIPE_EXIT_CODE, 0, "")
    assert len(read.splitlines()) == 1


@pytest.mark.parametrize("command", [("--help",), ("ls", "--help"), ("sql", "--list")])
def test_a_reader_that_reads_nothing(command: tuple[str, ...]) -> None:
    """What fits into a buffer fails only when that is flushed: as quiet."""
    # A pipe whose reader has surely gone before the first byte.
    script = '{ sleep 0.3; "$@"; } | true; echo "${PIPESTATUS[0]}"'
    done = subprocess.run(
        ["bash", "-c", script, "bash", sys.executable, "-m", "kubeledger", *command],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=120,
    )
    assert (done.stdout, done.stderr) == (b"141\n", b"")


def test_a_reader_that_reads_all(nodes: Nodes) -> None:
    ledger = nodes.ledger("node-a")
    code, _, read, said = piped("ls", "--ledger", ledger, "-o", "jsonl", reader="cat")
    assert (code, said) == (0, "")
    assert len(read.splitlines()) > 2000
    code, _, read, _ = piped("diff", f"{ledger}@5", f"{ledger}@500", reader="cat")
    assert code == 1
    assert read


@pytest.mark.parametrize("command", [("--help",), ("ls", "-o", "jsonl"), ("export",)], ids=" ".join)
def test_no_standard_output_at_all(nodes: Nodes, command: tuple[str, ...]) -> None:
    more = () if command == ("--help",) else ("--ledger", nodes.ledger("node-b"))
    done = subprocess.run(
        ["bash", "-c", '"$@" >&-', "bash", sys.executable, "-m", "kubeledger", *command, *more],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a file of Linux")
@pytest.mark.parametrize("command", [("ls",), ("ls", "--limit", "1"), ("export",)], ids=" ".join)
def test_a_full_disk_below_standard_output(nodes: Nodes, command: tuple[str, ...]) -> None:
    """One sentence, and no bug of kubeledger's."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kubeledger", *command, "--ledger", nodes.ledger("node-a")],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=120,
        )
    assert done.returncode == 2
    assert done.stderr.decode().startswith("error: output cannot be written: no space")
    assert len(done.stderr.splitlines()) <= 2
