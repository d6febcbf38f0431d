"""Times in the names of snapshots."""

from __future__ import annotations

import pytest

from kubeledger.model.units import parse_ts
from kubeledger.replay.node.state import time_in_name


@pytest.mark.parametrize(
    ("name", "ts"),
    [
        ("snapshots/20261121T025401Z/pods.json", "2026-11-21T02:54:01Z"),
        ("snapshots/20261121T025401.296Z/pods.json", "2026-11-21T02:54:01.296Z"),
        ("2026-11-21_02-54-01/20261122T025401Z.json", "2026-11-22T02:54:01Z"),
        ("pods-2026-11-21T02:54:01,5Z.json", "2026-11-21T02:54:01.5Z"),
        ("snapshots/20261121T025401/pods.json", "2026-11-21T02:54:01Z"),
    ],
)
def test_the_innermost_time(name: str, ts: str) -> None:
    assert time_in_name(name) == parse_ts(ts)


@pytest.mark.parametrize("name", ["pods.json", "20261321T025401Z/pods.json", "120261121T025401Z"])
def test_no_time(name: str) -> None:
    assert time_in_name(name) is None
