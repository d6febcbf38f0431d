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
        "containerStatuses": [{"name": "app", "containerID": CONTAINER_ID,
                               "state": {"running": {"startedAt": "2026-01-05T08:00:00Z"}},
                               "started": True}],
    }  # fmt: skip
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


def test_why_names_tick_field_and_reason() -> None:
    """A kubelet developer can follow it."""
    outcome = LINES.decided("1.36.2", case())
    outcome["ticks"][2]["attempts"] = 1
    verdict, why = LINES.judged("1.36.2", case(), outcome)
    assert verdict == "impossible"
    assert why == (
        "after tick 3 (2026-01-05T08:00:30Z) the liveness worker has attempts 0, not 1, "
        "because the worker is on hold until there is a new container"
    )


def test_a_claim_with_an_event_is_impossible() -> None:
    """No recorded outcome has one, not even what the kubelet would tell its recorder."""
    outcome = LINES.decided("1.36.2", case())
    outcome["ticks"][0]["events"] = ["Warning Unhealthy Liveness probe failed: bad"]
    verdict, why = LINES.judged("1.36.2", case(), outcome)
    assert verdict == "impossible"
    assert why.startswith("tick 1 has events ['Warning Unhealthy Liveness probe failed")


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
        (2, "resultRun", 2,
         "the threshold is reached, and the run begins anew when the worker goes on hold"),
        (2, "onHold", False, "the threshold is reached"),
        (3, "onHold", False, "the worker is on hold until there is a new container"),
        (4, "onHold", True, "there is a new container, which ends the hold"),
        (4, "updates", [], "there is a new container, for which Success is cached first"),
        (4, "resultRun", 1, "nothing is executed: the initial delay is not over"),
        (5, "attempts", 1, "an error is tried again, but not after 3 executions"),
        (5, "resultRun", 1, "the probe errored, which is thrown away"),
        (6, "updates", [], "the container does not run, which is cached as a failure"),
        (6, "continue", False,
         "nothing here ends a worker: the container does not run, which is cached as a failure"),
        (7, "updates", [{"containerID": "c://2", "result": "Failure"}],
         "the container does not run, which is cached as a failure, but Failure was cached before"),
        (8, "resultRun", 2, "Success comes after Failure, so a new run begins"),
        (8, "onHold", True, "Success of a liveness probe does not end the probing"),
        (9, "resultRun", 1, "this is one more Success in a row after 1"),
        (10, "continue", True, "the pod is terminated"),
    ],
)  # fmt: skip
def test_why_names_the_cause_of_what_differs(
    index: int, field: str, claimed: object, because: str
) -> None:
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
    outcome = LINES.decided("1.36.2", made)
    assert outcome["ticks"][index][field] != claimed
    outcome["ticks"][index][field] = claimed
    verdict, why = LINES.judged("1.36.2", made, outcome)
    assert verdict == "impossible"
    assert why.partition(", because ")[2] == because


def test_why_a_run_goes_on_in_a_new_container() -> None:
    """A readiness worker is not put on hold, so its run is not begun anew."""
    first, second = met("c://1"), met("c://2", running={"startedAt": "2026-01-05T08:00:40Z"})
    rows = [("08:00:30", first, ["failure"]), ("08:00:45", second, [])]
    ticks = [{"at": f"2026-01-05T{a}Z", "podStatus": s, "attempts": e} for a, s, e in rows]
    made = case(probeType="readiness", ticks=ticks)
    probe = {"failureThreshold": 3, "successThreshold": 1, "initialDelaySeconds": 30}
    made["pod"]["spec"]["containers"][0]["readinessProbe"] = probe
    outcome = LINES.decided("1.36.2", made)
    outcome["ticks"][1]["resultRun"] = 0
    _, why = LINES.judged("1.36.2", made, outcome)
    assert why.endswith(
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
    outcome = LINES.decided("1.36.2", made)
    tick_outcome = outcome["ticks"][0]
    tick_outcome["result"] = "Success"
    _, why = LINES.judged("1.36.2", made, outcome)
    assert why.partition(", because ")[2] == because
