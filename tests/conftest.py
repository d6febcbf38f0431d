"""Inputs are drawn alike in every run, long runs left out; a worker has a browser and a bucket."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers

from tests.buckets import Place, name_storage, new_bucket, s3_at_work
from tests.timeline.browser import Browser, open_browser
from tests.tools import tool

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


_HERE = Path(__file__).parent
_NOT_QUICK = frozenset(
    {
        "CliRunner",
        "RECORDINGS",
        "extract",
        "import_anew",
        "import_recording",
        "recorded",
        "subprocess",
    }
)
"""What a module imports that takes whole recordings or commands, or starts other processes."""
_NOT_QUICK_FIXTURES = frozenset({"ask", "bucket", "nodes", "place"})
"""The same, of fixtures."""
_NOT_QUICK_ROOMS = ("fleet", "fuzz", "ledger/history", "mcp", "record", "remote", "timeline")
"""Rooms of which hardly a test is quick."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--quick`` leaves out all that takes longer than an eyeblink."""
    parser.addoption("--quick", action="store_true", help="only tests of small histories")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Their modules take seconds to import."""
    rooms = _NOT_QUICK_ROOMS if config.getoption("--quick") else ()
    return True if any(collection_path == _HERE / room for room in rooms) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without ``-m``, tests marked ``slow`` or ``nightly`` do not run."""
    if config.getoption("-m"):
        return
    quick = config.getoption("--quick")
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        marked = item.get_closest_marker("nightly") or item.get_closest_marker("slow")
        (left_out if marked or (quick and not _is_quick(item)) else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def _is_quick(item: pytest.Item) -> bool:
    """Whether a test needs neither a whole recording, nor another process or server."""
    if not isinstance(item, pytest.Function):
        return True
    return not (_NOT_QUICK & vars(item.module).keys() or _NOT_QUICK_FIXTURES & {*item.fixturenames})


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser; where there is none, the tests that need it are skipped and say so."""
    for name in ("chromium", "chromedriver"):
        tool(name)
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
    """A directory, and then a bucket."""
    if request.param == "local":
        return Place(str(tmp_path / "place"))
    found = request.getfixturevalue("bucket")
    assert isinstance(found, Place)
    return found
