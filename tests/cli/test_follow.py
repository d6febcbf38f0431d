"""``ls -f`` and ``verify -f`` beside a writer in another process."""

import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest

from kubeledger.cli.main import cli
from kubeledger.cli.service import Waits
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.standalone import read_recording
from kubeledger.ledger.tail import Draft
from kubeledger.model.record import Record
from tests.recordings import RECORDINGS
from tests.waiting import PATIENCE_S, until

WRONG = RECORDINGS / "golden" / "mutated" / "prober-liveness-kill-1.36.2.ledger.jsonl"


def append(ledger: Ledger, records: list[Record]) -> None:
    with ledger.writer() as writer:
        drafts = [Draft(r.ts_ns, r.body, r.evidence, r.cause) for r in records]
        writer.append(records[0].node, drafts)


def metrics_of(process: subprocess.Popen[str], word: str) -> str:
    """What a command serves that was given port 0, once it holds a word."""
    assert process.stderr is not None
    found = re.fullmatch(r"metrics are served at (\S+)\n", process.stderr.readline())
    assert found

    def metrics() -> str:
        with urllib.request.urlopen(f"http://{found[1]}/metrics", timeout=PATIENCE_S) as answer:
            text: str = answer.read().decode()
        return text if word in text and "kubeledger_ready 1" in text else ""

    return until(metrics)


@contextmanager
def following(*command: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "kubeledger", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.fixture
def records() -> list[Record]:
    return list(read_recording(WRONG))


@pytest.fixture
def ledger(tmp_path: Path, records: list[Record]) -> Ledger:
    ledger = Ledger.create(tmp_path / "ledger")
    append(ledger, records[:5])
    return ledger


@pytest.mark.parametrize("output", ["jsonl", "csv", "table", "wide"])
def test_ls_goes_on(output: str, ledger: Ledger, records: list[Record]) -> None:
    """What is there, then what comes, up to the limit."""
    limit = len(records) - 1
    options = ("--follow", "--limit", str(limit), "-o", output)
    with following("ls", *options, "--ledger", str(ledger.path)) as process:
        heads = {"jsonl": 0, "csv": 1, "wide": 2, "table": 3}[output]
        lines = [line_of(process) for _ in range(heads + 5)][heads:]
        append(ledger, records[5:])
        assert process.stdout is not None
        lines += process.stdout.read().splitlines()
        assert process.wait(PATIENCE_S) == 0
    assert len(lines) == limit
    for number, line in enumerate(lines, 1):
        if output == "jsonl":
            assert json.loads(line)["seq"] == number
        else:
            assert str(number) in line


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_ls(signum: signal.Signals, ledger: Ledger, records: list[Record]) -> None:
    """With 0, as it ends every command that goes on."""
    with following("ls", "-f", "-o", "jsonl", "--ledger", str(ledger.path)) as process:
        assert [json.loads(line_of(process))["seq"] for _ in range(5)] == [1, 2, 3, 4, 5]
        append(ledger, records[5:6])
        assert json.loads(line_of(process))["seq"] == 6  # now it follows
        process.send_signal(signum)
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("words", ["ls -f", "verify -f", "ship --to there", "record --log log"])
def test_a_second_interrupt_ends_it_at_once(
    words: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ledger.path.parent)
    Path("log").touch()

    def busy(waits: Waits, _seconds: float) -> bool:
        signal.raise_signal(signal.SIGINT)
        assert waits.interrupted
        signal.raise_signal(signal.SIGINT)
        pytest.fail("it goes on")

    monkeypatch.setattr(Waits, "__call__", busy)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(click.Abort):  # of which run() makes 130
        cli.main([*words.split(), "--ledger", str(ledger.path)], standalone_mode=False)
    assert signal.getsignal(signal.SIGINT) == before


def test_a_list_in_json_has_an_end(ledger: Ledger) -> None:
    with following("ls", "-f", "-o", "json", "--ledger", str(ledger.path)) as process:
        assert process.wait(PATIENCE_S) == 2
        assert process.stderr is not None
        assert "-o jsonl" in process.stderr.read()


def test_verify_says_what_is_wrong_when_it_comes(ledger: Ledger, records: list[Record]) -> None:
    options = ("-f", "--settle", "0.1", "-o", "jsonl")
    with following("verify", *options, "--ledger", str(ledger.path)) as process:
        append(ledger, records[5:])
        found = json.loads(line_of(process))
        assert found["verdict"] == "impossible"
        assert not found["withdrawn"]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 1


def test_verify_serves_its_findings(ledger: Ledger, records: list[Record]) -> None:
    append(ledger, records[5:])
    options = ("-f", "--settle", "0", "-o", "jsonl", "--metrics-address", "127.0.0.1:0")
    with following("verify", *options, "--ledger", str(ledger.path)) as process:
        assert json.loads(line_of(process))["verdict"] == "impossible"
        assert metrics_of(process, '\nkubeledger_findings{what="impossible"} 1\n')


def test_verify_follows_the_ledger_only(ledger: Ledger) -> None:
    with following("verify", "-f", str(WRONG), "--ledger", str(ledger.path)) as process:
        assert process.wait(PATIENCE_S) == 2
