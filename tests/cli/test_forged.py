"""What somebody changed who knows the format is never answered, and audit names it."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest
from click.testing import CliRunner, Result

from kubeledger.cli.main import cli
from kubeledger.ledger.batch import Draft
from kubeledger.ledger.ledger import Ledger
from tests.query.fixture_ledger import whole_story


def run(*arguments: str | Path) -> Result:
    """One command."""
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A story; its records are in one open segment."""
    opened = Ledger.create(tmp_path / "ledger")
    with opened.writer() as writer:
        writer.append("node-a", [Draft(r.ts_ns, r.body, r.evidence) for r in whole_story()])
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
    ],
    ids=lambda question: question[0],
)
def test_a_line_with_a_fitted_crc_is_never_answered(
    ledger: Ledger, question: tuple[str, ...], *, covered: bool
) -> None:
    """Before any history, and in the tail behind one: file, record and offset are named."""
    if covered:
        assert run("index", "--ledger", ledger.path).exit_code == 0
    with ledger.writer() as writer:
        writer.append("node-a", [Draft(r.ts_ns, r.body, r.evidence) for r in whole_story()])
    offset = forge_line(ledger, 60)
    result = run(*question, "--ledger", ledger.path)
    assert result.exit_code != 0
    (segment,) = ledger.path.glob("nodes/*/segments/*.jsonl")
    assert f"{segment}" in result.stderr
    assert "record 60" in result.stderr
    assert str(offset) in result.stderr
    assert "chain" in result.stderr
