"""``kubeledger record`` as a process: killed, stopped, started again, its log rotated meanwhile."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubeledger.cli.main import cli
from kubeledger.ledger.audit import audit
from kubeledger.ledger.ledger import Ledger
from kubeledger.record import recorder
from kubeledger.remote.restore import find_copies, restore
from kubeledger.remote.store import Store
from tests.cli.test_follow import following, metrics_of
from tests.ingest.node_files import log_text
from tests.record.feeding import NodeFiles, standing_of_import, standing_records
from tests.waiting import PATIENCE_S, until


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> NodeFiles:
    """A node of some minutes, of which only the log is there."""
    root = tmp_path_factory.mktemp("node")
    (root / "kubelet.log").write_text(log_text(seconds=240))
    return NodeFiles(root)


def command(directory: Path, log: Path, *more: str) -> tuple[str, ...]:
    return ("record", "--node", "node-x", "--ledger", str(directory), "--log", str(log), *more)


@contextmanager
def recording(directory: Path, log: Path) -> Iterator[subprocess.Popen[str]]:
    """A recorder that is at work, ended by the end of the context."""
    with following(*command(directory, log)) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("recording node-x: kubelet.log")
        yield process


def once(directory: Path, log: Path, *more: str) -> str:
    """Record what is left and end the chapter; what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "kubeledger", *command(directory, log, "--once", *more)],
        stderr=subprocess.PIPE,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    return done.stderr


def wait_for_records(directory: Path, more_than: int) -> int:
    """Wait until the ledger holds more than that; how many it holds."""

    def recorded() -> int:
        ledger = Ledger.open(directory)
        last = ledger.info("node-x").last_seq if ledger.nodes() else 0
        return last if last > more_than else 0

    return until(recorded)


def test_kills_and_rotations_on_the_way(node: NodeFiles, tmp_path: Path) -> None:
    """In the end it is as if the whole log had been imported."""
    chance = random.Random(7)
    ledger, log = tmp_path / "ledger", tmp_path / "kubelet.log"
    lines = [line.text for line in node.lines]
    seen = 0
    for _ in range(3):
        with recording(ledger, log) as process:
            for _ in range(4):
                count = chance.randrange(1, 60)
                with log.open("ab") as file:
                    file.write(b"".join(lines[:count]))
                del lines[:count]
                if not seen:  # where the log begins is where it is read first
                    seen = wait_for_records(ledger, 0)
                if log.stat().st_size and chance.random() < 0.4:
                    log.rename(tmp_path / f"kubelet.log.{100 - len(list(tmp_path.iterdir()))}")
                time.sleep(chance.random() / 5)
            process.kill()
    with log.open("ab") as file:
        file.write(b"".join(lines))
    assert "a chapter of node-x was ended" in once(ledger, log)
    root = node.write(tmp_path / "files")
    assert standing_records(Ledger.open(ledger)) == standing_of_import(root, tmp_path / "imported")
    assert not audit(Ledger.open(ledger)).findings
    assert "0 records" in once(ledger, log)


def test_a_signal_ends_it_and_the_chapter_goes_on(node: NodeFiles, tmp_path: Path) -> None:
    """It says how much it recorded, and ends with 0."""
    ledger, log = tmp_path / "ledger", tmp_path / "kubelet.log"
    log.write_bytes(b"".join(line.text for line in node.lines))
    with recording(ledger, log) as process:
        wait_for_records(ledger, 0)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr is not None
        assert "recorded node-x: " in process.stderr.read()
    assert list(ledger.rglob("*.open"))


def test_its_numbers_are_served_and_its_segments_shipped(node: NodeFiles, tmp_path: Path) -> None:
    """While it runs, until it is killed; the ledger that comes back holds the same."""
    ledger, log, place = tmp_path / "ledger", tmp_path / "kubelet.log", tmp_path / "place"
    log.write_bytes(b"".join(line.text for line in node.lines))
    options = ("--ship", str(place), "--metrics-address", "127.0.0.1:0")
    with following(*command(ledger, log, *options)) as process:
        assert metrics_of(process, "\nkubeledger_records_total{")
    once(ledger, log, "--ship", str(place))
    restore(Store(str(place)), find_copies(Store(str(place))), tmp_path / "back")
    back = Ledger.open(tmp_path / "back")
    assert standing_records(back) == standing_records(Ledger.open(ledger))


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    """It may be a name that is mistyped: that is said at once."""
    log = tmp_path / "kubelet.lgo"
    with recording(tmp_path / "ledger", log) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"warning: {log} is not there; it is waited for\n"


def test_a_log_that_is_a_pipe(tmp_path: Path) -> None:
    """It cannot be read again where it was left, and is refused in place of recording nothing."""
    pipe = tmp_path / "kubelet.log"
    os.mkfifo(pipe)
    arguments = ["record", "--log", str(pipe), "--ledger", str(tmp_path / "ledger"), "--once"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert "no file" in result.output


def test_nothing_to_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without a kubelet it says what to name."""
    monkeypatch.setattr(recorder, "found_on", lambda root, wanted: wanted)
    result = CliRunner().invoke(cli, ["record", "--ledger", str(tmp_path / "ledger")])
    assert result.exit_code == 2
    assert "name a source" in result.output
