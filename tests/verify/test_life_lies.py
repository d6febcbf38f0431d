"""Lies about probes, containers and their events that no decision need be impossible for.

One value of one file is changed: that is a contradiction with both sides, or the decision
that rests on it is impossible, and nothing else is blamed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kubeledger.verify import Contradiction, Finding
from tests.verify.lies import CONTRADICTED, Edit, Lie, judged
from tests.verify.life_scenes import alone

__all__ = ["alone"]

A, B, LOG = "node-a", "node-b", "kubelet.log"
CHANGED = "prober.ProbeTransitioned"
FAIL_A, FAIL_B = "container/default/live-fail/app", "container/default/live-fail-node-b/app"
NEVER = "container/default/startup-never-node-b/app"
NIGHTLY = pytest.mark.nightly


def lie(
    name: str, node: str, line: str | int, old: str, new: str, subject: str, says: str,
    kind: str = CONTRADICTED, file: str = LOG,
) -> Lie:  # fmt: skip
    """One edit."""
    edit = Edit(file, line, old, new)
    return Lie(name, node, (edit,), kind, subject, says, disputed=kind != CONTRADICTED)


LAST_A, LAST_B = "02:59:48.440342", "03:07:35.235330"
LIES = [
    lie("failed (warning)", A, LAST_A, "(failure)", "(warning)", FAIL_A, "was a warning", CHANGED),
    lie("failed (unknown)", A, LAST_A, "(failure)", "(unknown)", FAIL_A, "unknown"),
    lie("failed unknown", B, LAST_B, '="failure"', '="unknown"', FAIL_B, "unknown"),
    lie("failed warning", B, LAST_B, '="failure"', '="warning"', FAIL_B, "was a warning", CHANGED),
    lie("other probe", A, "02:59:42.437523", "Liveness", "Readiness", FAIL_A, "no readiness probe"),
    lie(
        "pod of a tick", B, "03:07:32.233273", "default/live-fail-", "default/ready-flap-",
        "container/default/ready-flap-node-b/app", "default/live-fail-node-b",
    ),
    lie(
        "ID of a kill", A, "02:59:48.440925", "bba7be9a", "cba7be9a", "pod/default/live-fail",
        "cba7be9a",
    ),
    lie(
        "threshold in a manifest", B, 1, '"failureThreshold": 4', '"failureThreshold": 9',
        "pod/default/startup-never-node-b", "startupProbe of container app: 9",
        file="manifests/startup-never.json",
    ),
    lie(
        "threshold in one list", A, 1, '"failureThreshold":2', '"failureThreshold":7',
        "pod/default/ready-flap", "version 2", file="snapshots/20261121T030443Z/pods.json",
    ),
    lie(
        "restarts in one list", A, 1, '"restartCount":0', '"restartCount":7',
        "container/default/burstable-1/container1", "restartCount 7",
        file="snapshots/20261121T030412Z/pods.json",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where recordings are unpacked."""
    return tmp_path_factory.mktemp("recordings")


@pytest.mark.parametrize(
    "lie",
    [
        pytest.param(each, id=f"{each.node}: {each.name}", marks=() if n % 3 == 0 else NIGHTLY)
        for n, each in enumerate(LIES)
    ],
)
def test_a_lie(lie: Lie, scratch: Path, tmp_path: Path) -> None:
    """Exactly one thing is pointed at."""
    outcomes = judged(lie, scratch, tmp_path)
    wrong = [each for each in outcomes if isinstance(each, Finding)]
    disputes = [each for each in outcomes if isinstance(each, Contradiction)]
    subjects = [each.subject for each in wrong] + [each.subject for each in disputes]
    assert set(subjects) == {lie.subject}
    assert [each.kind for each in wrong] == ([] if lie.kind == CONTRADICTED else [lie.kind])
    said = [each.why for each in wrong]
    said += [f"{each.why} {side.says}" for each in disputes for side in each.sides]
    assert any(lie.says in sentence for sentence in said)
