"""What a command does on a terminal and nowhere else: cut, page, colour."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest


def on_terminal(ledger: Path, *args: str, **variables: str) -> tuple[int, str]:
    """Exit code and output of a command whose standard output and error are a terminal."""
    environment = {**os.environ, "COLUMNS": "60", "TERM": "xterm", "KUBELEDGER": str(ledger)}
    environment.pop("NO_COLOR", None)
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "kubeledger", *args],
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=slave,
        env={**environment, **variables},
    )
    os.close(slave)
    output = b""
    while True:
        try:
            block = os.read(master, 1 << 16)
        except OSError:  # Linux' way to say that nobody writes any more
            break
        if not block:
            break
        output += block
    os.close(master)
    return process.wait(), output.decode().replace("\r\n", "\n")


QUERY = "SELECT repeat('x', 100) AS text, kind FROM events WHERE seq < 3"


def test_a_terminal_gets_what_fits_through_its_pager(query_ledger: Path) -> None:
    """The pager is asked with its arguments; without one, or with NO_PAGER, it is the same text."""
    code, paged = on_terminal(query_ledger, "sql", QUERY, PAGER="sed 's/^/> /'")
    assert code == 0
    lines = paged.splitlines()
    assert all(line.startswith("> ") and len(line) <= 62 for line in lines)
    assert "…" in paged
    for variables in ({"NO_PAGER": "1"}, {"PAGER": "cat"}, {"PAGER": "no-such-pager"}):
        _, plain = on_terminal(query_ledger, "sql", QUERY, **variables)
        assert plain.splitlines() == [line[2:] for line in lines]


def test_a_pipe_gets_it_all(query_ledger: Path) -> None:
    """Nothing is cut, no pager runs."""
    out = subprocess.run(
        [sys.executable, "-m", "kubeledger", "sql", QUERY],
        env={**os.environ, "COLUMNS": "60", "KUBELEDGER": str(query_ledger), "PAGER": "false"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "x" * 100 in out


def test_leaving_the_pager_early_is_no_error(query_ledger: Path) -> None:
    """More than a pipe holds, of which one line is read."""
    many = "SELECT repeat('x', 100) FROM range(20000)"
    code, text = on_terminal(query_ledger, "sql", many, PAGER="head -n 1")
    assert (code, text.count("\n")) == (0, 1)


@pytest.mark.parametrize(("variables", "colored"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_errors_are_red_on_a_terminal(
    query_ledger: Path, variables: dict[str, str], colored: bool
) -> None:
    """But not with NO_COLOR; those of click and ours alike."""
    for args in (["ls", "--since", "soon"], ["ls", "--nope"]):
        code, text = on_terminal(query_ledger, *args, **variables)
        assert code == 2
        assert text.startswith("\x1b[31m") == colored
        assert "error: " in text
        assert ("\x1b" in text) == colored
