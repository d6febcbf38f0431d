"""Cases of probe workers: recorded ones, every version, bad input, verdicts."""

from typing import Any

import pytest

from kubeledger.kubelet.profile.facts import NEWEST, OLDEST
from tests.kubelet.cases.lines import Lines

LINES = Lines("prober")
CONTAINER_ID = "containerd://1"


def case(**changes: object) -> dict[str, Any]:
    """A liveness worker with threshold 2 and three ticks: failure, failure, not asked."""
    status = {
        "phase": "Running",
        "containerStatuses": [
            {
                "name": "app",
                "containerID": CONTAINER_ID,
                "state": {"running": {"startedAt": "2026-01-05T08:00:00Z"}},
                "started": True,
            }
        ],
    }
    probe = {"failureThreshold": 2, "successThreshold": 1}
    return {
        "pod": {
            "metadata": {"uid": "u"},
            "spec": {"containers": [{"name": "app", "livenessProbe": probe}]},
        },
        "container": "app",
        "probeType": "liveness",
        "ticks": [
            {"at": f"2026-01-05T08:00:{second}Z", "podStatus": status, "attempts": ["failure"]}
            for second in (10, 20, 30)
        ],
        **changes,
    }


@pytest.mark.parametrize("minor", range(OLDEST, NEWEST + 1))
def test_every_version_holds_after_the_threshold(minor: int) -> None:
    """Two failures reach the threshold in all of them, and the third tick asks nobody."""
    ticks = LINES.decided(f"1.{minor}", case())["ticks"]
    assert [tick["attempts"] for tick in ticks] == [1, 1, 0]
    assert [tick["onHold"] for tick in ticks] == [False, True, True]
    assert [tick["result"] for tick in ticks] == ["Success", "Failure", "Failure"]
    assert [tick["updates"] for tick in ticks] == [
        [{"containerID": CONTAINER_ID, "result": "Success"}],
        [{"containerID": CONTAINER_ID, "result": "Failure"}],
        [],
    ]
