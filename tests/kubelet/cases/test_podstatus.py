"""Cases of UpdatePodStatus: recorded ones, versions that are not recorded, verdicts."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from kubeledger.kubelet.cases.podstatus import INPUT, decide, judge
from kubeledger.kubelet.cases.registry import decider_of, judge_of
from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.model.errors import BadInputError
from tests.kubelet.cases.recorded_probes import VERSIONS, flipped, line_of, recorded

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


def outcome_of(case_input: dict[str, Any], version: str) -> dict[str, Any]:
    """What is decided, as JSON."""
    decided = decide(msgspec.convert(case_input, INPUT), resolve(version))
    outcome: dict[str, Any] = json.loads(msgspec.json.encode(decided))
    return outcome


@pytest.mark.parametrize("version", VERSIONS)
def test_decides_as_recorded(version: str) -> None:
    """Every recorded case, through the lines that the command reads and writes."""
    answer = decider_of("podstatus")
    for recorded_case in recorded(version, "podstatus"):
        decided = json.loads(answer(line_of(recorded_case)))
        assert decided["outcome"] in recorded_case["outcomes"], recorded_case["id"]


@pytest.mark.parametrize("version", VERSIONS)
def test_judges_as_recorded(version: str) -> None:
    """Recorded outcomes match; one leaf changed, they are impossible and it is said why."""
    answer = judge_of("podstatus")
    for recorded_case in recorded(version, "podstatus"):
        outcome = recorded_case["outcomes"][0]
        verdict = json.loads(answer(line_of(recorded_case, outcome=outcome)))
        assert verdict["verdict"] == "match"
        for wrong in flipped(outcome):
            verdict = json.loads(answer(line_of(recorded_case, outcome=wrong)))
            assert verdict["verdict"] == "impossible", wrong
            assert verdict["why"]


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
    outcome = outcome_of(case(cached=cached, worker=worker), version)
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
    outcome = outcome_of(case(started_at=started_at, pod_ready=pod_ready), version)
    assert outcome["containers"]["app"]["ready"] is ready


@pytest.mark.parametrize(("version", "started"), [("1.34.0", False), ("1.35.0", True)])
def test_started_outlives_the_kubelet(version: str, started: bool) -> None:
    """A startup worker that has not run yet no longer takes back what was published."""
    case_input = case(started=True)
    case_input["workers"] = [{"container": "app", "probeType": "startup"}]
    assert outcome_of(case_input, version)["containers"]["app"]["started"] is started


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.27.0", {"started": None, "ready": True}),
        ("1.28.0", {"started": False, "ready": True}),
    ],
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
    assert outcome_of(case_input, version)["initContainers"] == {"init": expected}


def test_a_status_that_does_not_fit_the_spec_is_left_alone() -> None:
    """Init container statuses are matched by position and name."""
    case_input = case()
    case_input["pod"]["spec"]["initContainers"] = [{"name": "other", "restartPolicy": "Always"}]
    case_input["podStatus"]["initContainerStatuses"] = [
        {"name": "init", "containerID": "c://2", "state": {"terminated": {"exitCode": 0}}}
    ]
    outcome = outcome_of(case_input, "1.36.2")
    assert outcome["initContainers"] == {"init": {"started": False, "ready": False}}


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        (("containers", "app", "ready"), True, "app is not ready, because its readiness probe"),
        (("containers", "app", "started"), False, "app is started, because it runs and"),
        (("containers",), {}, "the status has the containers ['app'], not []"),
        (("triggered",), [], "those of ['app'], not of []"),
        (("initContainers",), [], "shape"),
    ],
)
def test_why_names_the_container(path: tuple[str, ...], value: object, why: str) -> None:
    """One sentence about the first difference."""
    outcome = outcome_of(case(), "1.36.2")
    holder = outcome
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    judged = judge(msgspec.convert(case(), INPUT), resolve("1.36.2"), outcome)
    assert judged.verdict == "impossible"
    assert why in judged.why


@pytest.mark.parametrize("key", ["pod", "podStatus", "workers", "results"])
def test_a_missing_part_is_bad_input(key: str) -> None:
    """And named."""
    case_input = case()
    del case_input[key]
    line = json.dumps({"id": "x", "kubelet": "1.36.2", "input": case_input}).encode()
    with pytest.raises(BadInputError, match=key):
        decider_of("podstatus")(line)
