"""What a user reads when the disk, the rights or another writer are in the way."""

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kubeledger.ledger.audit import audit
from kubeledger.ledger.ledger import Ledger
from tests.cli.nodes import run
from tests.faults import Fault, FaultyDisk

ROOT = Path(__file__).parents[2]


def log_of(directory: Path, hours: list[int]) -> Path:
    """A kubelet's log with a line at each of these hours, in this order."""
    path = directory / "kubelet.log"
    lines = [
        f'I1121 {hour:02d}:00:00.000000    1234 kubelet.go:2098] "SyncLoop (PLEG): event for pod" '
        f'pod="default/web-{number}" event=&{{ID:0b0e6f3c-6f1e-4d0c-8c1d-{number:012d} '
        f"Type:ContainerStarted Data:{number:064x}}}\n"
        for number, hour in enumerate(hours)
    ]
    path.write_text("Log file created at: 2026/11/21 01:00:00\n" + "".join(lines))
    return path


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Some records; after each test they must still be there, and sound."""
    ledger = Ledger.create(tmp_path / "l")
    (tmp_path / "first").mkdir()
    assert run("import", log_of(tmp_path / "first", [1, 2]), "--ledger", ledger.path).exit_code == 0
    before = list(ledger.records())
    yield ledger
    assert list(ledger.records("first"))[: len(before)] == before
    assert audit(ledger).findings == ()
    assert len(before) > 2


@pytest.mark.parametrize(
    ("call", "error", "says", "hint"),
    [
        ("write", errno.ENOSPC, "no space left on device", "free some space"),
        ("write", errno.EDQUOT, "disk quota exceeded", "free some space"),
        ("open", errno.EROFS, "read-only file system", "is read-only"),
        ("open", errno.EACCES, "permission denied", " access to "),
        ("write", errno.EPERM, "operation not permitted", " access to "),
        ("fsync", errno.EIO, "input/output error", ""),
        ("fsync", errno.ENOSPC, "no space left on device", "free some space"),
    ],
    ids=lambda value: errno.errorcode.get(value) if isinstance(value, int) else None,
)
def test_the_system_refuses(
    ledger: Ledger, tmp_path: Path, call: str, error: int, says: str, hint: str
) -> None:
    """Exit code 4, the reason in words, what to do; the same import goes through later."""
    log = log_of(tmp_path, [3, 4, 5])
    with FaultyDisk(ledger.path, Fault(at=1, call=call, error=error, lasting=True)):
        result = run("import", log, "--ledger", ledger.path)
    assert result.exit_code == 4, result.output
    assert says in result.stderr
    assert ("hint: " in result.stderr and hint in result.stderr) or not hint
    assert "Traceback" not in result.output
    assert run("audit", "--ledger", ledger.path).exit_code == 0
    assert run("ls", "--ledger", ledger.path).exit_code == 0
    assert run("import", log, "--ledger", ledger.path).exit_code == 0


def command(*arguments: str | Path, before: Callable[[], None] | None = None) -> list[str]:
    """One command in a process of its own: its exit code and the lines of stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "kubeledger", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        preexec_fn=before,
        timeout=60,
    )
    return [str(done.returncode), *done.stderr.splitlines()]


def test_a_real_limit_on_files(ledger: Ledger, tmp_path: Path) -> None:
    """No simulation: the kernel lets no file grow beyond what the segment has plus a bit."""
    log = log_of(tmp_path, list(range(3, 23)))
    (segment,) = ledger.path.rglob("segments/*.jsonl")
    size = segment.stat().st_size + 1000

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    code, *said = command("import", log, "--ledger", ledger.path, before=limit)
    assert code == "4"
    assert any("file too large" in line for line in said)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_real_rights(ledger: Ledger, tmp_path: Path) -> None:
    log = log_of(tmp_path, [3])
    ledger.path.chmod(0o555)
    try:
        assert run("ls", "--ledger", ledger.path).exit_code == 0
        result = run("import", log, "--ledger", ledger.path)
    finally:
        ledger.path.chmod(0o755)
    assert result.exit_code == 4
    assert "permission denied" in result.stderr


def test_a_second_writer(ledger: Ledger, tmp_path: Path) -> None:
    log = log_of(tmp_path, [3])
    with ledger.writer():
        code, *said = command("import", log, "--ledger", ledger.path)
        assert run("ls", "--ledger", ledger.path).exit_code == 0
    assert code == "4"
    assert any(f"process {os.getpid()}" in line for line in said)
    assert any(line.startswith("hint: wait") for line in said)


def test_the_lock_of_a_crashed_writer(ledger: Ledger, tmp_path: Path) -> None:
    dying = (
        "import os, sys\nfrom kubeledger.ledger.ledger import Ledger\n"
        "with Ledger.open(sys.argv[1]).writer(): os._exit(9)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", dying, str(ledger.path)], env=environment, timeout=60)
    assert (ledger.path / "writer.pid").exists()
    assert run("import", log_of(tmp_path, [3]), "--ledger", ledger.path).exit_code == 0
    assert not (ledger.path / "writer.pid").exists()


def test_a_torn_write_is_reported(ledger: Ledger, tmp_path: Path) -> None:
    (segment,) = ledger.path.rglob("segments/*.jsonl")
    with segment.open("ab") as file:
        file.write(b'{"node":"x","seq":')
    assert run("audit", "--ledger", ledger.path).exit_code == 0
    result = run("import", log_of(tmp_path, [3]), "--ledger", ledger.path, exits=0)
    assert "18 bytes of an unfinished write were dropped" in result.stderr


def test_a_clock_that_goes_back(ledger: Ledger, tmp_path: Path) -> None:
    log = log_of(tmp_path, [9, 10, 4, 5])
    result = run("import", log, "--ledger", ledger.path, "--node", "back", exits=0)
    assert "the clock went back 21600" in result.stderr
    listed = run("ls", "--ledger", ledger.path, "--node", "back", "-o", "jsonl").stdout
    rows = [json.loads(line) for line in listed.splitlines()]
    assert [row["subject"] for row in rows if row["kind"] == "lifecycle.ContainerStarted"] == [
        f"default/web-{number}" for number in range(4)
    ]
    assert "node.ClockStepped" in [row["kind"] for row in rows]


def test_a_ledger_moved_away_and_back(ledger: Ledger, tmp_path: Path) -> None:
    shutil.copytree(ledger.path, tmp_path / "copy")
    assert (
        run("audit", "--ledger", tmp_path / "copy").stdout
        == run("audit", "--ledger", ledger.path).stdout
    )
