"""Inputs are drawn alike in every run, long runs left out; a worker has a browser and a bucket."""

import gc
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers
from xdist.scheduler import LoadGroupScheduling

from tests import recordings
from tests.buckets import Place, name_storage, new_bucket, s3_at_work
from tests.tools import tool

if TYPE_CHECKING:
    from tests.timeline.browser import Browser

# How long an example takes is the machine's affair; pytest's own limit finds what hangs.
_ANY_SPEED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("nightly", _ANY_SPEED, derandomize=False)
# A failing example is shown as it was drawn: to make it smaller could take longer than that limit,
# which would end the worker before it has named the test. The nightly run makes it smaller.
settings.register_profile(
    "kubeledger",
    _ANY_SPEED,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate, Phase.target),
)
settings.load_profile("kubeledger")

if hasattr(providers, "_get_local_constants"):
    # Hypothesis draws constants of the program, too: of the modules that other tests have imported.
    _imported, _none = providers._get_local_constants, type(providers.GLOBAL_CONSTANTS)()
    providers._get_local_constants = lambda: (
        _imported() if settings.get_current_profile_name() == "nightly" else _none
    )

# A script's background commands ignore SIGINT, and so would those that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


_fstat = os.fstat


def _synced(descriptor: int) -> None:
    """An open file has reached the disk: no test cuts the power, and all would wait for it."""
    _fstat(descriptor)


os.fsync = _synced  # type: ignore[assignment]  # files are synced by their descriptors alone

_HERE = Path(__file__).parent
_NOT_QUICK = re.compile(
    r"^(?:from \S+ )?import (?:\([^)]*|[^\n(]*)\b(?:CARRIERS|CliRunner|LAYOUTS|RECORDINGS|extract"
    r"|import_anew|import_recording|recorded|subprocess)\b|\bpytester\b",
    re.MULTILINE,
)
"""A module that imports what takes whole recordings or commands, or starts other processes."""
_NOT_QUICK_PLACES = (
    *("damage", "fleet", "fuzz", "ledger/history", "mcp", "record", "remote", "timeline"),
    *("analyze/headlines", "cli", "ingest/test_prefixes.py"),
    *("simulate/engine/test_cpus.py", "simulate/engine/test_numa_memory.py"),
    *("ledger/test_damage.py", "ledger/test_faults.py"),
    *("ledger/test_foreign_files.py", "ledger/test_kept.py", "replay/test_instants.py"),
    *("test_notebook.py", "analyze/whatif/test_world.py", "simulate/engine/test_pulls.py"),
    *("verify/properties", "verify/test_guards.py"),
)
"""Where hardly a test is quick."""
_NOT_QUICK_FIXTURES = frozenset({"ask", "bucket", "needed", "nodes", "place"})
"""What comes with whole recordings, or with a server."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--quick`` leaves out all that takes longer than an eyeblink."""
    parser.addoption("--quick", action="store_true", help="only tests of small histories")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``--quick`` modules are not even imported that take longer."""
    if not config.getoption("--quick"):
        return None
    left_out = any(collection_path == _HERE / place for place in _NOT_QUICK_PLACES) or (
        collection_path.suffix == ".py"
        and _NOT_QUICK.search(collection_path.read_text(encoding="utf-8")) is not None
    )
    return True if left_out else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without ``-m``, tests marked ``slow`` or ``nightly`` do not run."""
    if config.getoption("-m"):
        return
    quick = config.getoption("--quick")
    kept, left_out = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        marked = item.get_closest_marker("nightly") or item.get_closest_marker("slow")
        asks = quick and not _NOT_QUICK_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))
        (left_out if marked or asks else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def pytest_collection_finish() -> None:
    """Tests and modules stay to the end: the garbage collector need not walk them ever again.

    Nor does it pay to look after every 700 objects of a test for circles, of which there are few.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadGroupScheduling:
    """A module's tests run in one process, which makes once what they share; so do a group's.

    Of those that are asked for by a mark each is long by itself, and goes to who is idle.
    """
    scheduler = LoadGroupScheduling(config, log)
    if not config.getoption("-m"):
        of_group = scheduler._split_scope
        scheduler._split_scope = lambda nodeid: of_group(nodeid).partition("::")[0]
    return scheduler


@pytest.fixture(scope="session", autouse=True)
def _shared(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Recordings are imported once a run: the directory of a worker stands in that of the run."""
    own = tmp_path_factory.getbasetemp()
    recordings.SHARED = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """The browser; where there is none, the tests that need it are skipped and say so."""
    for name in ("chromium", "chromedriver"):
        tool(name)
    from tests.timeline.browser import open_browser  # what drives it takes long to import

    with open_browser() as started:
        yield started


@pytest.fixture(scope="session")
def s3_server() -> Iterator[tuple[str, int]]:
    """Host and port of an S3 server on loopback."""
    with s3_at_work() as address:
        yield address


@pytest.fixture
def bucket(s3_server: tuple[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """An empty bucket, and the environment by which it is found."""
    name_storage(s3_server, monkeypatch)
    return new_bucket(s3_server, f"bucket-{abs(hash(tmp_path)):x}")


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "local":
        return Place(str(tmp_path / "place"))
    found = request.getfixturevalue("bucket")
    assert isinstance(found, Place)
    return found
