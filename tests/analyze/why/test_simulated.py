"""Answers about simulated nodes, whose records stand on no line."""

from __future__ import annotations

import re

import click
import pytest

from kubeledger.analyze.histories.history import history_of_reader
from kubeledger.analyze.why import explain, parse_target
from kubeledger.analyze.why.names import known_names
from kubeledger.cli.why import short_text
from kubeledger.model.units import format_ts
from tests.verify.histories import reader
from tests.verify.properties.truths import named

_STEP = re.compile(r"^  (\d\d:\d\d:\d\d)  .* \[(\d+)\]$")


@pytest.mark.parametrize("scenario", ["liveness", "ends", "stuck"])
def test_a_step_cites_its_own_evidence(scenario: str) -> None:
    """On the screen: what it names happened by then, and each piece stands for itself."""
    records = named(f"scenario/{scenario}/1").records
    history = history_of_reader(records[0].node, scenario, reader(records))
    cited = 0
    for namespace, pod in known_names(history).pods:
        answer = explain(history, parse_target(f"pod/{namespace}/{pod}"))
        assert answer is not None
        for line in map(click.unstyle, short_text(answer, 100, 40)):
            if match := _STEP.match(line):
                then = {
                    step.evidence
                    for step in answer.steps
                    if format_ts(step.ts_ns)[11:19] == match[1]
                }
                assert int(match[2]) in then
                cited += 1
    assert cited > 3
