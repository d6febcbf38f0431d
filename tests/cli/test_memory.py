"""The bound of the page's queries: what they freed is no more room for the next one."""

from __future__ import annotations

import mmap
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from kubeledger.cli.memory import SharedBound, _data_bytes
from tests.analyze.sql.fixture_ledger import whole_story, write_ledger

_SIZE = 64 << 20
_LARGE = 4 << 30

_STARVED = """
import resource, sys
from kubeledger.analyze.sql.api import Queryable
from kubeledger.analyze.sql.ledger_tables import LedgerTables
from kubeledger.cli.memory import _data_bytes
from kubeledger.model.errors import BadQuestionError
from pathlib import Path

with Queryable(LedgerTables(Path(sys.argv[1]))) as database:
    print(list(database.sql("SELECT 1")))
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + (8 << 20), before[1]))
    try:
        database.sql("SELECT 2")
    except BadQuestionError as error:
        print(error.message)
    resource.setrlimit(resource.RLIMIT_DATA, before)
    print(list(database.sql("SELECT 3")))
"""


def _soft() -> int:
    return resource.getrlimit(resource.RLIMIT_DATA)[0]


@pytest.mark.skipif(sys.platform != "linux", reason="the system knows no such limit")
def test_addresses_without_memory_are_less_room_but_some() -> None:
    """As an allocator keeps them of what a query has freed: the next one is answered still."""
    bound, before = SharedBound(_SIZE, lambda: 0), _soft()
    with bound.held():
        at_first = _soft() - _data_bytes()
    with mmap.mmap(-1, _LARGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), bound.held():
        assert _SIZE < _soft() - _data_bytes() < at_first // 2
    assert _soft() == before


@pytest.mark.skipif(sys.platform != "linux", reason="the system knows no such limit")
def test_a_query_without_room_for_its_thread_is_refused(tmp_path: Path) -> None:
    """It does not wait for a thread that never begins, and the next one is answered."""
    ledger = write_ledger(tmp_path / "ledger", whole_story())
    command = [sys.executable, "-c", _STARVED, str(ledger)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "[(1,)]", "the query needs more memory than it may take", "[(3,)]"
    ]  # fmt: skip
