"""A ledger holds what pods were given, so it is its user's alone, whatever the umask."""

import mmap
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeledger.cli.service import SharedBound, _data_bytes
from kubeledger.ledger.history.history import History
from kubeledger.ledger.ledger import Ledger
from tests.analyze.sql.fixture_ledger import whole_story, write_ledger
from tests.cli.nodes import WORLDS, Nodes, output_in, run
from tests.ingest.feeding import DATA
from tests.marks import nightly, slow


@pytest.fixture
def _careless() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(root: Path) -> dict[str, int]:
    return {
        str(path.relative_to(root)): path.stat().st_mode & 0o777
        for path in (root, *root.rglob("*"))
    }


@pytest.mark.usefixtures("_careless")
def test_a_ledger_is_its_users_alone(tmp_path: Path) -> None:
    """Imported or recorded, with its history, that queries make; not so the directories above."""
    ledger = tmp_path / "new" / "ledger"
    told = run("import", DATA / "kubelet" / "startup-1.36.2.log", "--ledger", ledger, exits=0)
    assert "other users" not in told.output
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    History(Ledger.open(ledger), scratch).cover(grow_bytes=0)
    log = DATA / "kubelet" / "startup-1.36.2.log"
    other = tmp_path / "new" / "recorded"
    assert run("record", "--once", "--node", "n", "--log", log, "--ledger", other).exit_code == 0
    assert run("fleet", "import", log, "--lake", tmp_path / "new" / "lake").exit_code == 0
    assert (tmp_path / "new" / "lake").stat().st_mode & 0o777 == 0o700
    assert ledger.parent.stat().st_mode & 0o777 == 0o777
    assert any(name.endswith(".parquet") for name in modes(ledger))
    for root, found in ((ledger, modes(ledger)), (other, modes(other))):
        assert {
            name: oct(mode)
            for name, mode in found.items()
            if mode != (0o700 if (root / name).is_dir() else 0o600)
        } == {}


def test_a_ledger_that_others_can_read_is_told(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    ledger.mkdir(0o755)
    told = run("import", DATA / "kubelet" / "startup-1.36.2.log", "--ledger", ledger, exits=0)
    assert f"other users can read {ledger}" in told.output
    assert f"chmod -R go= {ledger}" in told.output


# The bound of the page's queries: what they freed is no more room for the next one.

_SIZE = 64 << 20
_LARGE = 4 << 30

_STARVED = """
import resource, sys
from kubeledger.analyze.sql.api import Queryable
from kubeledger.analyze.sql.ledger_tables import LedgerTables
from kubeledger.cli.service import _data_bytes
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


# What holds of every command: the same bytes in any process, and a ledger that is not there.

NOON = "2026-11-21T03:00:00Z"


@pytest.mark.parametrize(
    "command",
    [
        ("completeness", "A", "-o", "json"),
        ("diff", "A", "B", "-o", "json"),
        ("diff", f"A@{NOON}", f"B@{NOON}"),
        ("verify", "A", "--all"),
        *slow((("whatif", "--set", "maxPods=5|10", "A", "-o", "json"),)),
        ("why", "pod/default/gpu-c", "A", "-o", "json"),
        *nightly(
            (("verify", "A", "-o", "jsonl"),),
            (("whatif", "--set", "maxPods=5|10", "A"),),
            (("why", "pod/default/gpu-c", "A"),),
        ),
    ],
    ids=" ".join,
)
def test_the_same_bytes_in_any_world(nodes: Nodes, command: tuple[str, ...]) -> None:
    ledgers = {"A": nodes.ledger("node-a"), "B": nodes.ledger("node-b")}
    words = [
        ledgers.get(word[:1], "") + word[1:] if word[:1] in ledgers else word for word in command
    ]
    assert len({output_in(world, *words) for world in WORLDS}) == 1


@pytest.mark.parametrize(
    "command",
    ["audit", "compact", "completeness", "export", "get pods", "index", "ls", "show 1", "sql x",
     "state", "timeline", "verify", "whatif --set maxPods=1", "why x"],
)  # fmt: skip
def test_without_a_ledger(tmp_path: Path, command: str) -> None:
    result = run(*command.split(), "--ledger", tmp_path / "none")
    assert (result.exit_code, result.stdout) == (2, "")
    assert str(tmp_path / "none") in result.stderr
    assert "kubeledger import" in result.stderr
    assert list(tmp_path.iterdir()) == []
