"""Kills of an old kernel, which may choose a thread where its table has processes alone."""

from pathlib import Path

import pytest

from tests.ingest.feeding import DATA
from tests.verify.histories import findings
from tests.verify.properties.bundles import imported

CHOSEN = b"Kill process 21001"


@pytest.mark.parametrize(
    ("chosen", "rows", "verdict"),
    [
        (b"21001", 2, "match"),
        (b"21002", 2, "impossible"),  # it scored less than the other
        (b"21003", 2, "unverifiable"),  # a thread of either
        (b"21003", 1, "match"),
    ],
)
def test_a_thread_may_be_chosen(chosen: bytes, rows: int, verdict: str, tmp_path: Path) -> None:
    """The process that was killed is in the table, and the one that was chosen may not be."""
    text = (DATA / "kernel" / "linux-3.10.log").read_bytes()
    lines = text.replace(CHOSEN, b"Kill process " + chosen).splitlines(keepends=True)
    kept = [line for line in lines if rows == 2 or b"[21001]" not in line]
    (tmp_path / "kernel.log").write_bytes(b"".join(kept))
    (found,) = findings(imported([tmp_path]), kind="oom.ProcessKilled")
    assert found.verdict == verdict
