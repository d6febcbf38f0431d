"""What somebody changed who knows the format is never answered, and audit names it."""

import json
from pathlib import Path
from zlib import crc32

import duckdb
import msgspec
import pytest

from kubeledger.ledger.history.parts import HISTORY, Index, load_index, save_index
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.storage import file_crc
from kubeledger.ledger.tail import Draft
from kubeledger.model.bodies.resourcemanagers import CpuManagerStateRead
from kubeledger.replay import refresh_snapshots
from kubeledger.replay.instants import STATE_VERSION
from tests.analyze.sql.fixture_ledger import whole_story
from tests.cli.nodes import run


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A story without CPU pools that overlap; its records are in one open segment."""
    sound = [r for r in whole_story() if not isinstance(r.body, CpuManagerStateRead)]
    opened = Ledger.create(tmp_path / "ledger")
    with opened.writer() as writer:
        writer.append("node-a", [Draft(r.ts_ns, r.body, r.evidence) for r in sound])
    return opened


def forge_line(ledger: Ledger, number: int) -> int:
    """Change a record, fit its CRC, and leave the chain alone; the offset of its line."""
    (segment,) = ledger.path.glob("nodes/*/segments/*.jsonl")
    lines = segment.read_bytes().splitlines(keepends=True)
    head = lines[number - 1].rpartition(b',"crc":"')[0].replace(b'"ts_ns":1', b'"ts_ns":2', 1)
    lines[number - 1] = head + b',"crc":"%08x"}\n' % crc32(head)
    segment.write_bytes(b"".join(lines))
    return sum(map(len, lines[: number - 1]))


@pytest.mark.parametrize("covered", [False, True])
@pytest.mark.parametrize(
    "question",
    [
        ("sql", "SELECT max(ts_ns) FROM events"),
        ("ls",),
        ("ls", "--pod", "default/web"),
        ("show", "47"),
        ("state",),
        ("verify",),
        ("export",),
        ("completeness",),
    ],
    ids=lambda question: question[0],
)
def test_a_line_with_a_fitted_crc_is_never_answered(
    ledger: Ledger, question: tuple[str, ...], *, covered: bool
) -> None:
    """Before any history, and in the lines after one: file, record and offset are named."""
    if covered:
        assert run("index", "--ledger", ledger.path).exit_code == 0
    with ledger.writer() as writer:
        writer.append("node-a", [Draft(r.ts_ns, r.body, r.evidence) for r in whole_story()])
    forged = len(whole_story()) + 6
    offset = forge_line(ledger, forged)
    result = run(*question, "--ledger", ledger.path)
    assert result.exit_code != 0
    (segment,) = ledger.path.glob("nodes/*/segments/*.jsonl")
    assert f"{segment}" in result.stderr
    assert f"record {forged}" in result.stderr
    assert str(offset) in result.stderr
    assert "chain" in result.stderr


def forge_history(ledger: Ledger) -> Path:
    """Change rows of the one Parquet file and fit size and CRC; its path."""
    root = ledger.path / HISTORY
    (path,) = root.glob("node=*/date=*/*.parquet")
    changed = path.with_suffix(".changed")
    with duckdb.connect(":memory:") as connection:
        connection.execute(
            f"COPY (SELECT * REPLACE (ts_ns + 1 AS ts_ns)"
            f" FROM read_parquet('{path}', hive_partitioning = false))"
            f" TO '{changed}' (FORMAT parquet)"
        )
    changed.replace(path)
    ((node, (part,)),) = load_index(root).nodes.items()
    file = msgspec.structs.replace(
        part.files[0], size_bytes=path.stat().st_size, crc=file_crc(path)
    )
    save_index(root, Index(nodes={node: [msgspec.structs.replace(part, files=(file,))]}))
    return path


def forge_snapshot(ledger: Ledger) -> Path:
    store = ledger.snapshots("node-a")
    states = [store.load(seq, STATE_VERSION) for seq in store.seqs()]
    assert states[0] is not None
    assert states[-1] is not None
    return store.save(msgspec.structs.replace(states[-1], state=states[0].state))


def test_audit_proves_what_caches_hold(ledger: Ledger) -> None:
    """A true one is sound; a forged one is named, but for --chain-only; the records are not."""
    refresh_snapshots(ledger, "node-a", 10)
    assert run("index", "--ledger", ledger.path).exit_code == 0
    sound = run("audit", "--ledger", ledger.path)
    assert (sound.exit_code, sound.stdout.splitlines()[-1]) == (0, "sound")
    digest = next(line.split()[1] for line in sound.stdout.splitlines() if "digest" in line)
    for path in (forge_snapshot(ledger), forge_history(ledger)):
        found = run("audit", "--ledger", ledger.path, "--expect", digest, exits=1)
        assert str(path) in found.stdout
    reported = json.loads(run("audit", "--ledger", ledger.path, "-o", "json").stdout)
    assert len(reported["findings"]) == 2
    assert "checkpoints" in reported  # the records are sound, so what they hold is judged
    assert run("audit", "--ledger", ledger.path, "--chain-only").exit_code == 0


def test_audit_checks_the_bytes_of_the_history(ledger: Ledger) -> None:
    assert run("index", "--ledger", ledger.path).exit_code == 0
    (path,) = (ledger.path / HISTORY).glob("node=*/date=*/*.parquet")
    path.write_bytes(path.read_bytes()[:-1])
    for option in ((), ("--chain-only",)):
        found = run("audit", "--ledger", ledger.path, *option, exits=1)
        assert f"{path} (record 1): the bytes of this file were changed" in found.stdout
        assert "`kubeledger index --rebuild`" in found.stdout
    assert run("index", "--rebuild", "--ledger", ledger.path).exit_code == 0
    assert run("audit", "--ledger", ledger.path).stdout.endswith("sound\n")


def test_a_damaged_record_is_the_only_finding(ledger: Ledger) -> None:
    """It proves nothing about caches, and they are not to blame for it."""
    refresh_snapshots(ledger, "node-a", 10)
    assert run("index", "--ledger", ledger.path).exit_code == 0
    forge_line(ledger, 20)
    found = run("audit", "--ledger", ledger.path, exits=1)
    assert found.stdout.endswith("\n1 finding\n")
