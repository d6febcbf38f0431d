"""Cases of probe workers: recorded ones, every version, bad input, verdicts."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from kubeledger.cases.prober import INPUT, decide, judge
from kubeledger.cases.registry import decider_of, judge_of
from kubeledger.errors import BadInputError
from kubeledger.profile.facts import NEWEST, OLDEST
from kubeledger.profile.resolve import resolve
from tests.cases.recorded_probes import VERSIONS, flipped, line_of, recorded

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


def outcome_of(case_input: dict[str, Any], version: str = "1.36.2") -> dict[str, Any]:
    """What is decided, as JSON."""
    decided = decide(msgspec.convert(case_input, INPUT), resolve(version))
    outcome: dict[str, Any] = json.loads(msgspec.json.encode(decided))
    return outcome


@pytest.mark.parametrize("version", VERSIONS)
def test_decides_as_recorded(version: str) -> None:
    """Every recorded case, through the lines that the command reads and writes."""
    answer = decider_of("prober")
    for recorded_case in recorded(version, "prober"):
        decided = json.loads(answer(line_of(recorded_case)))
        assert decided["outcome"] in recorded_case["outcomes"], recorded_case["id"]


@pytest.mark.parametrize("version", VERSIONS)
def test_judges_as_recorded(version: str) -> None:
    """Recorded outcomes match; one leaf changed, they are impossible and it is said why."""
    answer = judge_of("prober")
    for recorded_case in recorded(version, "prober")[::10]:
        outcome = recorded_case["outcomes"][0]
        verdict = json.loads(answer(line_of(recorded_case, outcome=outcome)))
        assert verdict["verdict"] == "match"
        for wrong in list(flipped(outcome))[::11]:
            verdict = json.loads(answer(line_of(recorded_case, outcome=wrong)))
            assert verdict["verdict"] == "impossible", wrong
            assert "because" in verdict["why"]


@pytest.mark.parametrize("minor", range(OLDEST, NEWEST + 1))
def test_every_version_holds_after_the_threshold(minor: int) -> None:
    """Two failures reach the threshold in all of them, and the third tick asks nobody."""
    ticks = outcome_of(case(), f"1.{minor}")["ticks"]
    assert [tick["attempts"] for tick in ticks] == [1, 1, 0]
    assert [tick["onHold"] for tick in ticks] == [False, True, True]
    assert [tick["result"] for tick in ticks] == ["Success", "Failure", "Failure"]
    assert [tick["updates"] for tick in ticks] == [
        [{"containerID": CONTAINER_ID, "result": "Success"}],
        [{"containerID": CONTAINER_ID, "result": "Failure"}],
        [],
    ]


def test_why_names_tick_field_and_reason() -> None:
    """A kubelet developer can follow it."""
    outcome = outcome_of(case())
    outcome["ticks"][2]["attempts"] = 1
    verdict = judge(msgspec.convert(case(), INPUT), resolve("1.36.2"), outcome)
    assert verdict.verdict == "impossible"
    assert verdict.why == (
        "after tick 3 (2026-01-05T08:00:30Z) the liveness worker has attempts 0, not 1, "
        "because the worker is on hold until there is a new container"
    )


@pytest.mark.parametrize(
    ("event", "verdict"),
    [
        ("Warning Unhealthy Liveness probe failed: bad", "admissible"),
        ("Warning Unhealthy Liveness probe failed: worse", "impossible"),
        ("Warning Unhealthy Readiness probe failed: bad", "impossible"),
    ],
)
def test_the_recorder_may_keep_the_event_it_is_told(event: str, verdict: str) -> None:
    """And only that one."""
    outcome = outcome_of(case())
    outcome["ticks"][0]["events"] = [event]
    judged = judge(msgspec.convert(case(), INPUT), resolve("1.36.2"), outcome)
    assert judged.verdict == verdict


def test_a_tick_without_execution_tells_no_event() -> None:
    """On hold, nothing is executed."""
    outcome = outcome_of(case())
    outcome["ticks"][2]["events"] = ["Warning Unhealthy Liveness probe failed: bad"]
    judged = judge(msgspec.convert(case(), INPUT), resolve("1.36.2"), outcome)
    assert judged.verdict == "impossible"
    assert "no event" in judged.why


@pytest.mark.parametrize(
    "outcome", [None, [], {}, {"ticks": [1]}, {"ticks": []}, {"ticks": [], "more": 1}]
)
def test_another_shape_is_impossible(outcome: object) -> None:
    """And no error: it is the claim that is wrong."""
    judged = judge(msgspec.convert(case(), INPUT), resolve("1.36.2"), outcome)
    assert judged.verdict == "impossible"
    assert judged.why


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"container": "web"}, "container"),
        ({"probeType": "startup"}, "startupProbe"),
        ({"probeType": "alive"}, "probeType"),
        ({"kubeletStartedAt": "yesterday"}, "yesterday"),
        ({"more": 1}, "more"),
        ({"ticks": [{"at": "2026-01-05T08:00:10Z", "podStatus": None}]}, "attempts"),
        ({"ticks": [{"at": "noon", "podStatus": None, "attempts": []}]}, "noon"),
    ],
)
def test_bad_input_names_the_field(changes: dict[str, object], named: str) -> None:
    """Through the line function, as a user meets it."""
    line = json.dumps({"id": "x", "kubelet": "1.36.2", "input": case(**changes)}).encode()
    with pytest.raises(BadInputError, match=named):
        decider_of("prober")(line)


def test_a_negative_threshold_is_bad_input() -> None:
    """No API server lets one through."""
    bad = case()
    bad["pod"]["spec"]["containers"][0]["livenessProbe"]["failureThreshold"] = -1
    line = json.dumps({"id": "x", "kubelet": "1.36.2", "input": bad}).encode()
    with pytest.raises(BadInputError, match="failureThreshold"):
        decider_of("prober")(line)


def test_executions_that_are_needed_but_not_told_are_bad_input() -> None:
    """Two errors call for a third execution."""
    bad = case()
    bad["ticks"][0]["attempts"] = ["error", "error"]
    with pytest.raises(BadInputError, match="attempts"):
        outcome_of(bad)
