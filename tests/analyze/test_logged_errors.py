"""A shape that was seen once is shown as its line has it."""

from __future__ import annotations

import msgspec
import pytest

from kubeledger.analyze.logged_errors import logged
from kubeledger.analyze.problems.told import Told
from kubeledger.model.bodies.node import ErrorsLogged
from kubeledger.model.record import Evidence
from tests.analyze.sql.fixture_ledger import Story

_TEXT = 'E0314 04:22:04.649912   29801 cni.go:294] Error adding: "cni0" has another address'
_JSON = '{"ts":1.0,"caller":"a.go:1","msg":"Probe errored","v":0,"probeType":"Liveness"}'


@pytest.mark.parametrize(
    ("count", "line", "words"),
    [
        (1, _TEXT, 'Error adding: "cni0" has another address'),
        (1, f"Mar 14 04:22:04 n kubelet[1]: {_TEXT}", 'Error adding: "cni0" has another address'),
        (1, f"2026-03-14T04:22:04Z {_JSON}", 'Probe errored probeType="Liveness"'),
        (1, _JSON[:40], "Error adding: *"),
        (1, "no line of klog", "Error adding: *"),
        (1, None, "Error adding: *"),
        (2, _TEXT, "Error adding: *"),
    ],
)
def test_words(count: int, line: str | None, words: str) -> None:
    """Of many lines, and of what is no whole line, the shape."""
    story = Story("node-a")
    body = ErrorsLogged(
        severity="E",
        source="a.go",
        shape="Error adding: *",
        count=count,
        first_ts_ns=0,
        last_ts_ns=0,
    )
    story.add(body)
    evidence = (Evidence(file="kubelet.log", line=1, text=line),)
    told = Told(0)
    told.take(msgspec.structs.replace(story.records[-1], evidence=evidence))
    (shape,) = logged(told)
    assert shape.words == words
