"""Programs that tests run, of this machine or of the environment that runs them."""

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

import pytest

_NEEDED = frozenset(os.environ.get("KUBELEDGER_TEST_TOOLS", "").split())
"""Names of those that are there for certain: a test that does not find one fails."""

_PLACES = (str(Path(sys.executable).parent), "/usr/lib/systemd", "/lib/systemd")
"""Beside those of PATH: what pip brings, and what systemd has for itself."""


def find(name: str) -> str | None:
    places = os.pathsep.join((os.environ.get("PATH", os.defpath), *_PLACES))
    return shutil.which(name, path=places)


def tool(name: str) -> str:
    """Where a program is; a test for which there is none is skipped."""
    return find(name) or missing(name)


def missing(name: str) -> NoReturn:
    """End a test that cannot run without this program or library: it is skipped and says why."""
    (pytest.fail if name in _NEEDED else pytest.skip)(f"no {name} on this machine")
