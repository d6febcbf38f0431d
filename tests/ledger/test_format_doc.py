"""docs/internals/format.md says what the code does."""

import hashlib
import re
import zlib
from pathlib import Path

from kubeledger.ledger.manifest import FORMAT_VERSION
from kubeledger.ledger.segments import LINE_BYTES_MAX
from kubeledger.ledger.writer import WriterOptions
from tests.ledger.making import batch, ledger_of, segment_paths

HERE = Path(__file__).parent
TEXT = (HERE.parents[1] / "docs" / "internals" / "format.md").read_text()
RECOVERY = TEXT.partition("## Recovery")[2].partition("\n## ")[0]


def test_every_row_of_the_recovery_table_is_a_test() -> None:
    rows = [line for line in RECOVERY.splitlines() if line.startswith("|")][2:]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row.split(" | ")[-1])]
    assert all(re.search(r"`test_\w+`(: `\w+`)? \|$", row) for row in rows)
    sources = "".join(path.read_text() for path in HERE.glob("test_*.py"))
    assert [name for name in named if f"def {name}(" not in sources] == []
    own = set(re.findall(r"def (test_\w+)\(", (HERE / "test_recovery.py").read_text()))
    assert own - set(named) == {"test_nothing_to_recover"}


def test_numbers_in_the_text() -> None:
    assert f"Version {FORMAT_VERSION}." in TEXT
    assert f"at most {LINE_BYTES_MAX >> 20} MiB" in TEXT
    assert f"reached {WriterOptions().segment_bytes >> 20} MiB" in TEXT


def test_a_segment_can_be_proved_from_the_description_alone(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path / "l", batch(0, 5))
    digest = bytes(32)
    for line in segment_paths(ledger)[0].read_bytes().splitlines():
        before_crc, _, crc = line.rpartition(b',"crc":"')
        payload, _, chain = before_crc.rpartition(b',"chain":"')
        digest = hashlib.blake2b(digest + payload, digest_size=32).digest()
        assert chain == digest.hex().encode() + b'"'
        assert crc == b'%08x"}' % zlib.crc32(before_crc)
