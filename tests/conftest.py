"""Long runs are left out unless they are asked for; one browser for all tests of a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.timeline.browser import CHROMIUM, DRIVER, Browser, open_browser

# How long an example takes is the machine's affair; pytest's own limit finds what hangs.
settings.register_profile("kubeledger", deadline=None)
settings.load_profile("kubeledger")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without ``-m``, tests marked ``nightly`` do not run."""
    if config.getoption("-m"):
        return
    left_out = [item for item in items if item.get_closest_marker("nightly")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser; where there is none, the tests that need it are skipped and say so."""
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("no chromium and chromedriver on this machine: pages are not looked at")
    with open_browser() as started:
        yield started
