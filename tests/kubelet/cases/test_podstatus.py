"""UpdatePodStatus: version boundaries, verdicts."""

from typing import Any

import pytest

from tests.kubelet.cases.lines import Lines

LINES = Lines("podstatus")
CONTAINER_ID = "containerd://1"


def case(
    *,
    cached: str | None = None,
    worker: bool = True,
    started: bool | None = None,
    started_at: str = "2026-01-05T08:00:00Z",
    pod_ready: str = "False",
) -> dict[str, Any]:
    """One running container with a readiness probe; the kubelet started at 08:00:10."""
    status = {
        "name": "app",
        "containerID": CONTAINER_ID,
        "state": {"running": {"startedAt": started_at}},
        "started": started,
    }
    results = (
        []
        if cached is None
        else [{"probeType": "readiness", "containerID": CONTAINER_ID, "result": cached}]
    )
    return {
        "pod": {
            "metadata": {"uid": "u"},
            "spec": {"containers": [{"name": "app", "readinessProbe": {}}]},
            "status": {"conditions": [{"type": "Ready", "status": pod_ready}]},
        },
        "podStatus": {"phase": "Running", "containerStatuses": [status]},
        "workers": [{"container": "app", "probeType": "readiness"}] if worker else [],
        "results": results,
        "kubeletStartedAt": "2026-01-05T08:00:10Z",
    }


@pytest.mark.parametrize(
    ("version", "cached", "worker", "ready", "triggered"),
    [
        ("1.20.15", None, True, False, []),
        ("1.20.15", "Failure", True, False, []),
        ("1.21.0", None, True, False, ["app"]),
        ("1.21.14", "Failure", True, False, []),
        ("1.21.14", "Failure", False, False, []),
        ("1.22.0", "Failure", True, False, ["app"]),
        ("1.22.0", "Failure", False, True, []),
        ("1.34.9", "Success", True, True, []),
        ("1.36.2", "Failure", True, False, ["app"]),
    ],
)
def test_readiness_by_version(
    version: str, cached: str | None, worker: bool, ready: bool, triggered: list[str]
) -> None:
    """What a cached failure means, and who is asked to probe at once."""
    outcome = LINES.decided(version, case(cached=cached, worker=worker))
    assert outcome["containers"] == {"app": {"started": True, "ready": ready}}
    assert outcome["triggered"] == triggered


@pytest.mark.parametrize(
    ("version", "started_at", "pod_ready", "ready"),
    [
        ("1.34.9", "2026-01-05T07:00:00Z", "True", False),
        ("1.35.0", "2026-01-05T07:00:00Z", "True", True),
        ("1.35.0", "2026-01-05T07:00:00Z", "False", False),
        ("1.35.0", "2026-01-05T08:00:00Z", "True", False),
        ("1.35.0", "2026-01-05T07:59:59.999999999Z", "True", True),
    ],
)
def test_readiness_outlives_the_kubelet(
    version: str, started_at: str, pod_ready: str, ready: bool
) -> None:
    """From 1.35 on, for containers that are older than the kubelet by more than 10 s."""
    outcome = LINES.decided(version, case(started_at=started_at, pod_ready=pod_ready))
    assert outcome["containers"]["app"]["ready"] is ready


@pytest.mark.parametrize(("version", "started"), [("1.34.0", False), ("1.35.0", True)])
def test_started_outlives_the_kubelet(version: str, started: bool) -> None:
    """A startup worker that has not run yet no longer takes back what was published."""
    case_input = case(started=True)
    case_input["workers"] = [{"container": "app", "probeType": "startup"}]
    assert LINES.decided(version, case_input)["containers"]["app"]["started"] is started


@pytest.mark.parametrize(
    ("version", "expected"),
    [("1.27.0", {"started": None, "ready": True}), ("1.28.0", {"started": False, "ready": True})],
)
def test_init_containers_get_started_with_sidecars(
    version: str, expected: dict[str, bool | None]
) -> None:
    """An init container that ended well is ready in every version."""
    case_input = case()
    case_input["pod"]["spec"]["initContainers"] = [{"name": "init"}]
    case_input["podStatus"]["initContainerStatuses"] = [
        {"name": "init", "containerID": "c://2", "state": {"terminated": {"exitCode": 0}}}
    ]
    assert LINES.decided(version, case_input)["initContainers"] == {"init": expected}


def test_a_status_that_does_not_fit_the_spec_is_left_alone() -> None:
    """Init container statuses are matched by position and name."""
    case_input = case()
    case_input["pod"]["spec"]["initContainers"] = [{"name": "other", "restartPolicy": "Always"}]
    case_input["podStatus"]["initContainerStatuses"] = [
        {"name": "init", "containerID": "c://2", "state": {"terminated": {"exitCode": 0}}}
    ]
    outcome = LINES.decided("1.36.2", case_input)
    assert outcome["initContainers"] == {"init": {"started": False, "ready": False}}
