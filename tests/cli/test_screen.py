"""What a command does on a terminal and nowhere else: cut, page, colour."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest


def on_terminal(ledger: Path, *args: str, **variables: str) -> tuple[int, str]:
    """Exit code and output of a command whose standard output and error are a terminal."""
    return run_on_terminal(["-m", "kubeledger", *args], KUBELEDGER=str(ledger), **variables)


def run_on_terminal(args: list[str], **variables: str) -> tuple[int, str]:
    environment = {**os.environ, "COLUMNS": "60", "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, *args],
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


def shown(text: str) -> str:
    """What stays on the screen: progress, where the machine is slow, ends with an escape."""
    return re.sub(r".*\x1b\[[0-9;?]*[A-Za-z]", "", text, flags=re.DOTALL)


QUERY = "SELECT repeat('x', 100) AS text, kind FROM events WHERE seq < 3"


def test_a_terminal_gets_what_fits_through_its_pager(query_ledger: Path) -> None:
    """The pager is asked with its arguments; without one, or with NO_PAGER, it is the same text."""
    code, paged = on_terminal(query_ledger, "sql", QUERY, PAGER="sed 's/^/> /'")
    assert code == 0
    lines = shown(paged).splitlines()
    assert all(line.startswith("> ") and len(line) <= 62 for line in lines)
    assert "…" in lines[-1]
    for variables in ({"NO_PAGER": "1"}, {"PAGER": "cat"}, {"PAGER": "no-such-pager"}):
        _, plain = on_terminal(query_ledger, "sql", QUERY, **variables)
        assert shown(plain).splitlines() == [line[2:] for line in lines]


def test_a_pipe_gets_it_all(query_ledger: Path) -> None:
    out = subprocess.run(
        [sys.executable, "-m", "kubeledger", "sql", QUERY],
        env={**os.environ, "COLUMNS": "60", "KUBELEDGER": str(query_ledger), "PAGER": "false"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "x" * 100 in out


def test_leaving_the_pager_early_is_no_error(query_ledger: Path) -> None:
    many = "SELECT repeat('x', 100) FROM range(20000)"
    code, text = on_terminal(query_ledger, "sql", many, PAGER="head -n 1")
    assert (code, shown(text).count("\n")) == (0, 1)


@pytest.mark.parametrize(("variables", "colored"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_errors_are_red_on_a_terminal(
    query_ledger: Path, variables: dict[str, str], colored: bool
) -> None:
    for args in (["ls", "--since", "soon"], ["ls", "--nope"]):
        code, text = on_terminal(query_ledger, *args, **variables)
        assert code == 2
        assert text.startswith("\x1b[31m") == colored
        assert "error: " in text
        assert ("\x1b" in text) == colored


@pytest.mark.parametrize(("variables", "colored"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_verdicts_have_their_colors(
    query_ledger: Path, variables: dict[str, str], colored: bool
) -> None:
    """In any table with a column of that name, through the pager as well."""
    query = "SELECT 'impossible' AS verdict, 'impossible' AS other"
    _, text = on_terminal(query_ledger, "sql", query, PAGER="sed ''", **variables)
    row = text.splitlines()[-1]
    assert row.count("impossible") == 2
    assert row.count("\x1b[31m") == colored


COUNTING = """
import sys, time
from threading import Semaphore
from kubeledger.cli import progress
from kubeledger.cli.screen import paged
progress._DELAY_S = float(sys.argv[1])
text, texts = progress.Progress._text, Semaphore(0)
progress.Progress._text = lambda shown: texts.release() or text(shown)
with progress.progress("counting") as shown, paged():
    shown.done, shown.total = 1234, 5000
    for _ in range(int(sys.argv[2])):
        texts.acquire()
    print("the answer")
    time.sleep(0.5)
"""
"""Arguments: when progress is shown, and at how many of its texts the answer comes."""


@pytest.mark.parametrize("variables", [{"PAGER": "cat"}, {"PAGER": "sed ''"}])
def test_progress_comes_after_a_while_and_goes_with_the_output(variables: dict[str, str]) -> None:
    """Its line is taken away before the answer stands there; quick work shows none."""
    code, text = run_on_terminal(["-c", COUNTING, "0", "3"], **variables)
    assert code == 0
    before, answer, after = text.partition("the answer\n")
    assert "counting: record 1,234 of 5,000" in before
    assert "\x1b[2K" in before  # the line is erased
    assert answer
    assert after == ""
    assert run_on_terminal(["-c", COUNTING, "600", "0"], **variables) == (0, "the answer\n")


def test_no_progress_without_a_terminal() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", COUNTING, "0", "0"], capture_output=True, text=True, check=True
    )
    assert (ended.stdout, ended.stderr) == ("the answer\n", "")
