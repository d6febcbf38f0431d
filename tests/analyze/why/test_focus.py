"""Of several lines of a record, the one that says what happened."""

import re

import click
import msgspec
import pytest

from kubeledger.analyze.histories.history import history_of_reader
from kubeledger.analyze.why import Answer, explain, find_target, parse_target
from kubeledger.analyze.why.names import known_names
from kubeledger.cli.why import short_text
from kubeledger.model.bodies.lifecycle import PodEvicted
from kubeledger.model.record import Evidence
from kubeledger.model.units import format_ts
from tests.verify.container_scenes import began, listed
from tests.verify.histories import reader, scene
from tests.verify.properties.truths import named

PREFIX = "May 28 16:05:54 node-t kubelet[7]: I0528 16:05:54.802914       7 manager.go:627] "
LINES = (
    '"Eviction manager: pods ranked for eviction" pods=["a/b","a/c"]',
    '"Eviction manager: pod is evicted successfully" pod="a/b"',
)


def test_an_eviction_is_proved_by_its_outcome() -> None:
    """Not by the ranking, which other pods stand in too; what journald put before is left out."""
    evicted = PodEvicted(
        namespace="a", pod="b", pod_uid=None, resource=None, message=None, evicted=True
    )
    evidence = tuple(
        Evidence(file="kubelet.log", line=number, offset=0, text=PREFIX + line)
        for number, line in enumerate(LINES, start=1)
    )
    records = [msgspec.structs.replace(scene((0.0, evicted))[0], evidence=evidence)]
    answer = explain(
        history_of_reader("node-t", "node-t", reader(records)), parse_target("pod/a/b")
    )
    assert answer is not None
    (proof,) = answer.evidence
    assert proof.line == 2
    assert f"[1] kubelet.log:2  {LINES[1]}" in short_text(answer, 80, 23)


# Answers about simulated nodes, whose records stand on no line.

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


# An image that no decision is about: who uses it.

ID = "sha256:" + "ab" * 32
STATUS = {
    "containerStatuses": [
        {"name": "app", "image": "registry.lab/app:1", "imageID": f"registry.lab/app@{ID}"},
        {"name": "new", "image": "registry.lab/app:1", "imageID": ""},
    ]
}


@pytest.mark.parametrize("asked", ["registry.lab/app:1", "app:1", ID, "abababab"])
def test_who_uses_it(asked: str) -> None:
    """Each container whose status names its ID, since when; a pod that waits for it does not."""
    shown = msgspec.structs.replace(listed(), status=STATUS)
    records = scene(*began(), (1, listed()), (4, shown), (9, shown))
    history = history_of_reader("node-t", "node-t", reader(records))
    target = find_target(asked, [history])
    answer = explain(history, target)
    assert type(answer) is Answer
    assert answer.sentence == (
        "no deletion of image registry.lab/app:1 is recorded; 1 container has used it, first "
        "default/p/app (1970-01-01T00:16:44Z), last default/p/app (1970-01-01T00:16:49Z)."
    )
    (step,) = answer.steps
    assert (step.count, step.text) == (2, "default/p/app uses it")
    assert explain(history, target, upto_ts_ns=records[-3].ts_ns) is None
