"""``ship`` and ``restore``: words, exit codes, and a real process that is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.buckets import Place
from tests.cli.nodes import run
from tests.cli.test_follow import metrics_of
from tests.ledger.making import append, batch, ledger_of, seqs
from tests.waiting import PATIENCE_S


def test_ship_and_restore(place: Place, tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path / "l", batch(0, 4), batch(4, 4), batch(8, 1), segment_bytes=1000)
    first = run("ship", "--ledger", ledger.path, "--to", place.url, "--once", exits=0)
    assert "node-a: records 1 to 4 stored, " in first.stdout
    assert first.stdout.endswith("2 segments shipped\n")
    assert "records from 9 on are in a segment that is not sealed yet" in first.stderr
    assert "kubeledger compact" in first.stderr
    again = run("ship", "--ledger", ledger.path, "--to", place.url, "--once")
    assert again.stdout == "0 segments shipped\n"
    back = run("restore", "--from", f"{place.url}/node-a", "--ledger", tmp_path / "back", exits=0)
    assert back.stdout.startswith("node-a: 8 records, seq 1 to 8\n  digest node-a=")
    audit = run("audit", "--ledger", tmp_path / "back")
    assert (audit.exit_code, back.stdout.split()[-1] in audit.stdout) == (0, True)
    run("restore", "--from", place.url, "--ledger", tmp_path / "back", exits=2)
    nothing = run(
        "restore", "--from", place.url, "--node", "node-x", "--ledger", tmp_path / "x", exits=2
    )
    assert "no shipped ledger of node-x is there" in nothing.stderr


def test_a_ledger_is_not_shipped_into_itself(tmp_path: Path) -> None:
    """Neither by ``ship`` nor by ``record``, however the place is named."""
    path = ledger_of(tmp_path / "l", batch(0, 4), segment_bytes=1000).path
    before = sorted(path.rglob("*"))
    (tmp_path / "link").symlink_to(path)
    for place in (path, path / "copies", f"file://{path}/x", tmp_path / "link/y"):
        for words in (["ship", "--to", place], ["ship", "--once", "--to", place]):
            refused = run(*words, "--ledger", path)
            assert (refused.exit_code, "is in the ledger itself" in refused.stderr) == (2, True)
    (tmp_path / "kubelet.log").touch()
    words = ["record", "--ledger", path, "--ship", path, "--once"]
    words += ["--log", tmp_path / "kubelet.log"]
    assert run(*words).exit_code == 2
    assert sorted(path.rglob("*")) == before
    assert run("ship", "--ledger", path, "--to", f"{path}-copy", "--once").exit_code == 0


def test_restore_of_nothing_or_to_nowhere(tmp_path: Path) -> None:
    path = ledger_of(tmp_path / "l", batch(0, 4), segment_bytes=1000).path
    assert run("ship", "--ledger", path, "--to", tmp_path / "p", "--once").exit_code == 0
    file = tmp_path / "file"
    file.touch()
    (tmp_path / "empty").mkdir()
    for place in ("absent", "file", "empty"):
        nothing = run("restore", "--from", tmp_path / place, "--ledger", tmp_path / "b")
        assert (nothing.exit_code, place in nothing.stderr) == (2, True)
    for where in (file / "b", tmp_path / ("b" * 300)):
        nowhere = run("restore", "--from", tmp_path / "p", "--ledger", where)
        assert (nowhere.exit_code, "no directory can be made" in nowhere.stderr) == (2, True)


def test_compact_says_what_stays_until_it_is_shipped(tmp_path: Path) -> None:
    batches = [batch(first, 4) for first in range(0, 24, 4)]
    ledger = ledger_of(tmp_path / "l", *batches[:3], segment_bytes=1000)
    assert run("ship", "--ledger", ledger.path, "--to", tmp_path / "p", "--once").exit_code == 0
    append(ledger, *batches[3:])
    words = ["compact", "--ledger", ledger.path, "--keep-bytes", "1"]
    held = run(*words, "--dry-run")
    assert "records 1 to 12 would be dropped" in held.stdout
    assert "records up to 20 stay until they are shipped" in held.stdout
    assert "records 1 to 20 would be dropped" in run(*words, "--unshipped", "--dry-run").stdout


def test_a_shipper_that_is_killed_and_one_that_is_ended(tmp_path: Path) -> None:
    """A process of its own beside a writer: it ships what is sealed while it runs, then ends."""
    ledger = ledger_of(tmp_path / "l", batch(0, 4), segment_bytes=1000)
    words = ["ship", "--ledger", str(ledger.path), "--to", str(tmp_path / "p"), "--every", "0.1"]
    words += ["--metrics-address", "127.0.0.1:0"]

    def begun() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "kubeledger", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    with begun() as first:
        assert first.stdout is not None
        assert "records 1 to 4 stored" in first.stdout.readline()
        first.kill()
        assert first.wait(PATIENCE_S) == -signal.SIGKILL
    with begun() as second:
        assert second.stdout is not None
        append(ledger, batch(4, 4))
        assert "records 5 to 8 stored" in second.stdout.readline()
        assert metrics_of(second, "\nkubeledger_segments_shipped_total 1\n")
        append(ledger, batch(8, 4))
        second.terminate()
        assert "records 9 to 12 stored" in second.stdout.read()
        assert second.wait(PATIENCE_S) == 0
    assert run("restore", "--from", tmp_path / "p", "--ledger", tmp_path / "b").exit_code == 0
    assert seqs(type(ledger).open(tmp_path / "b")) == list(range(1, 13))
