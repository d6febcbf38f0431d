"""Cases of probe workers: recorded ones, every version, bad input, verdicts."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from kubeledger.kubelet.cases.prober import INPUT, decide, judge
from kubeledger.kubelet.cases.registry import decider_of, judge_of
from kubeledger.kubelet.profile.facts import NEWEST, OLDEST
from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.model.errors import BadInputError
from tests.kubelet.cases.recorded_probes import VERSIONS, flipped, line_of, recorded

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


def test_a_claim_with_an_event_is_impossible() -> None:
    """No recorded outcome has one, not even what the kubelet would tell its recorder."""
    outcome = outcome_of(case())
    outcome["ticks"][0]["events"] = ["Warning Unhealthy Liveness probe failed: bad"]
    judged = judge(msgspec.convert(case(), INPUT), resolve("1.36.2"), outcome)
    assert judged.verdict == "impossible"
    assert judged.why.startswith("tick 1 has events ['Warning Unhealthy Liveness probe failed")


def met(container_id: str, **state: object) -> dict[str, Any]:
    """The status of a pod with a started container."""
    running = {"running": {"startedAt": "2026-01-05T08:00:00Z"}}
    one = {"name": "app", "containerID": container_id, "state": state or running, "started": True}
    return {"phase": "Running", "containerStatuses": [one]}


@pytest.mark.parametrize(
    ("index", "field", "claimed", "because"),
    [
        (0, "updates", [], "there is a new container, for which Success is cached first"),
        (0, "result", "Failure", "there is a new container, for which Success is cached first"),
        (0, "resultRun", 1, "nothing is executed: the initial delay is not over"),
        (0, "attempts", 1, "the initial delay is not over"),
        (0, "onHold", True, "there is a new container, and nothing is executed yet"),
        (1, "resultRun", 2, "Failure comes after Success, so a new run begins"),
        (1, "onHold", True, "the streak is below the threshold"),
        (1, "result", "Failure", "nothing is stored: the streak is below the threshold"),
        (2, "attempts", 1, "execution 2 came to failure, and only an error is tried again"),
        (2, "result", "Success", "the threshold is reached"),
        (
            2,
            "resultRun",
            2,
            "the threshold is reached, and the run begins anew when the worker goes on hold",
        ),
        (2, "onHold", False, "the threshold is reached"),
        (3, "onHold", False, "the worker is on hold until there is a new container"),
        (4, "onHold", True, "there is a new container, which ends the hold"),
        (4, "updates", [], "there is a new container, for which Success is cached first"),
        (
            4,
            "resultRun",
            1,
            "nothing is executed: the initial delay is not over",
        ),
        (5, "attempts", 1, "an error is tried again, but not after 3 executions"),
        (5, "resultRun", 1, "the probe errored, which is thrown away"),
        (6, "updates", [], "the container does not run, which is cached as a failure"),
        (
            6,
            "continue",
            False,
            "nothing here ends a worker: the container does not run, which is cached as a failure",
        ),
        (
            7,
            "updates",
            [{"containerID": "c://2", "result": "Failure"}],
            "the container does not "
            "run, which is cached as a failure, but Failure was cached before",
        ),
        (8, "resultRun", 2, "Success comes after Failure, so a new run begins"),
        (8, "onHold", True, "Success of a liveness probe does not end the probing"),
        (9, "resultRun", 1, "this is one more Success in a row after 1"),
        (10, "continue", True, "the pod is terminated"),
    ],
)
def test_why_names_the_cause_of_what_differs(
    index: int, field: str, claimed: object, because: str
) -> None:
    """Not only how the step ended."""
    first, second = met("c://1"), met("c://2", running={"startedAt": "2026-01-05T08:01:00Z"})
    ended = met("c://2", terminated={"exitCode": 1})
    ticks = [
        ("08:00:10", first, ["failure"]),
        ("08:00:30", first, ["failure"]),
        ("08:00:40", first, ["error", "failure"]),
        ("08:00:50", first, ["failure"]),
        ("08:01:10", second, ["failure"]),
        ("08:01:40", second, ["error"] * 3),
        ("08:01:50", ended, []),
        ("08:02:00", ended, []),
        ("08:02:10", second, ["success"]),
        ("08:02:20", second, ["success"]),
        ("08:02:30", first | {"phase": "Failed"}, []),
    ]
    made = case(
        ticks=[
            {"at": f"2026-01-05T{at}Z", "podStatus": status, "attempts": attempts}
            for at, status, attempts in ticks
        ]
    )
    made["pod"]["spec"]["containers"][0]["livenessProbe"]["initialDelaySeconds"] = 30
    outcome = outcome_of(made)
    assert outcome["ticks"][index][field] != claimed
    outcome["ticks"][index][field] = claimed
    verdict = judge(msgspec.convert(made, INPUT), resolve("1.36.2"), outcome)
    assert verdict.verdict == "impossible"
    assert verdict.why.partition(", because ")[2] == because


def test_why_a_run_goes_on_in_a_new_container() -> None:
    """A readiness worker is not put on hold, so its run is not begun anew."""
    first, second = met("c://1"), met("c://2", running={"startedAt": "2026-01-05T08:00:40Z"})
    rows = [("08:00:30", first, ["failure"]), ("08:00:45", second, [])]
    ticks = [{"at": f"2026-01-05T{a}Z", "podStatus": s, "attempts": e} for a, s, e in rows]
    made = case(probeType="readiness", ticks=ticks)
    probe = {"failureThreshold": 3, "successThreshold": 1, "initialDelaySeconds": 30}
    made["pod"]["spec"]["containers"][0]["readinessProbe"] = probe
    outcome = outcome_of(made)
    outcome["ticks"][1]["resultRun"] = 0
    verdict = judge(msgspec.convert(made, INPUT), resolve("1.36.2"), outcome)
    assert verdict.why.endswith(
        "resultRun 1, not 0, because nothing is executed: the initial delay is not over, and a "
        "new container does not begin a new run"
    )


@pytest.mark.parametrize(
    ("started_at", "because"),
    [
        (
            "2026-01-05T07:00:00Z",
            "the container is older than the kubelet, so nothing is cached for it first",
        ),
        ("2026-01-05T08:00:00Z", "there is a new container, for which Failure is cached first"),
    ],
)
def test_why_nothing_is_cached_for_a_container_of_before_the_kubelet(
    started_at: str, because: str
) -> None:
    """In 1.35 and later."""
    status = met("c://1", running={"startedAt": started_at})
    tick = {"at": "2026-01-05T08:00:10Z", "podStatus": status, "attempts": ["failure"]}
    made = case(kubeletStartedAt="2026-01-05T08:00:00Z", probeType="readiness", ticks=[tick])
    made["pod"]["spec"]["containers"][0]["readinessProbe"] = {"failureThreshold": 3}
    outcome = outcome_of(made)
    tick_outcome = outcome["ticks"][0]
    tick_outcome["result"] = "Success"
    verdict = judge(msgspec.convert(made, INPUT), resolve("1.36.2"), outcome)
    assert verdict.why.partition(", because ")[2] == because


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
