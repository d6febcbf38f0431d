"""Simulated pods: admission, starts, restarts, back-off, preemption, deletion."""

import itertools
from typing import Any

import pytest

from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.plan import ContainerScript, ExitStep, KubeletRestart, ProbeStep
from tests.simulate.engine.scenes import container, of_kind, planned, run, tally

S = NS_PER_S
CRASHES = ContainerScript(exits=(ExitStep(after_ns=3 * S, code=1),), exits_repeat=True)


def seconds(found: list[Record], kind: str, pod: str = "a") -> list[float]:
    begin = found[0].ts_ns
    return [
        (r.ts_ns - begin) / S
        for r in found
        if r.kind == kind and getattr(r.body, "pod", None) == pod
    ]


def probe(**more: Any) -> dict[str, Any]:  # noqa: ANN401 # any field of the API
    return {
        "exec": {"command": ["cat", "/tmp/ok"]},
        "periodSeconds": 5,
        "timeoutSeconds": 1,
        "successThreshold": 1,
        "failureThreshold": 3,
        **more,
    }


def clean(found: list[Record], unverifiable: int = 0) -> None:
    assert tally(found)["unverifiable"] <= unverifiable


@pytest.mark.parametrize(("frequency", "apart_s"), [("40s", (40, 61)), ("1m0s", (60, 91))])
def test_pods_are_synced_as_often_as_is_set(frequency: str, apart_s: tuple[int, int]) -> None:
    """By a back-off of minutes each sync finds it under way, half a period late at most."""
    scripts = {"app": CRASHES}
    settings = {"syncFrequency": frequency}
    found = run(planned("a", scripts=scripts), settings=settings, minutes=15)
    times = seconds(found, "lifecycle.RestartBackedOff")
    starts = seconds(found, "lifecycle.ContainerStarted")
    gaps = [
        after - before
        for before, after in itertools.pairwise(times)
        if before > 300 and not any(before < start < after for start in starts)
    ]
    assert gaps
    assert all(apart_s[0] <= gap <= apart_s[1] for gap in gaps)
    clean(found)


def test_a_pod_starts(version: str) -> None:
    found = run(planned("a", container(requests={"cpu": "500m"})), version=version)
    kinds = [r.kind for r in found if getattr(r.body, "pod", None) == "a"]
    assert kinds[:4] == [
        "lifecycle.PodConfigChanged",
        "lifecycle.PodAdmitted",
        "lifecycle.ContainerStarted",
        "lifecycle.ContainerStarted",
    ]
    assert seconds(found, "lifecycle.PodAdmitted") == [10.001]
    # The sandbox and the container take 100 ms; the next relist tells of both.
    assert seconds(found, "lifecycle.ContainerStarted") == [10.8, 10.8]
    clean(found)


def test_back_off_doubles_from_the_second_restart_on(version: str) -> None:
    found = run(planned("a", scripts={"app": CRASHES}), version=version, minutes=30)
    held = of_kind(found, "lifecycle.RestartBackedOff")
    assert list(dict.fromkeys(body.back_off_s for body in held)) == [10, 20, 40, 80, 160, 300]
    restarts = of_kind(found, "lifecycle.ContainerRestarted")
    assert [body.restart_count for body in restarts] == list(range(1, len(restarts) + 1))
    assert {body.reason for body in restarts} == {"exited"}
    clean(found)


def test_a_back_off_ends_on_time_since_1_35_and_late_before() -> None:
    """A back off ends on time since 1.35 and late before."""

    def gap(version: str) -> float:
        found = run(planned("a", scripts={"app": CRASHES}), version=version)
        died = seconds(found, "lifecycle.ContainerDied")
        started = seconds(found, "lifecycle.ContainerStarted")
        return started[3] - died[1]  # the sandbox and the first two instances came before

    assert gap("1.34.0") >= gap("1.35.0") >= 10


def test_an_old_back_off_is_dropped_while_it_holds_back(version: str) -> None:
    """Raised 595 s before its container dies, 300 s are forgotten five seconds later."""
    short, long = ExitStep(after_ns=3 * S, code=1), ExitStep(after_ns=595 * S, code=1)
    script = ContainerScript(exits=(*[short] * 6, long))
    found = run(planned("a", scripts={"app": script}), version=version, minutes=25)
    held = [body.back_off_s for body in of_kind(found, "lifecycle.RestartBackedOff")]
    assert held[-1] == 300
    died = seconds(found, "lifecycle.ContainerDied")
    started = seconds(found, "lifecycle.ContainerStarted")
    assert started[-1] - died[-1] < 100  # since 1.35 it is looked at again after up to 90 s
    # In ten quiet minutes, records may be missing. A list shows that the end was seconds before the
    # last start, which is right if housekeeping had dropped the entry: how soon it does, is open.
    clean(found, unverifiable=2)


def test_a_configured_back_off_is_remembered_for_600_s_since_1_32() -> None:
    """With a maximum of 15 s, 30 s without a restart would have made older kubelets forget."""
    exits = tuple(ExitStep(after_ns=n * S, code=1) for n in (3, 3, 90, 3))
    settings = {
        "crashLoopBackOff": {"maxContainerRestartPeriod": "15s"},
        "featureGates": {"KubeletCrashLoopBackOffMax": True},
    }
    pod = planned("a", scripts={"app": ContainerScript(exits=exits)})
    found = run(pod, version="1.32.0", settings=settings)
    held = [body.back_off_s for body in of_kind(found, "lifecycle.RestartBackedOff")]
    assert list(dict.fromkeys(held)) == [10, 15]
    clean(found)


@pytest.mark.parametrize(
    ("version", "restarts", "phase"), [("1.34.0", 0, "Failed"), ("1.36.2", 1, "Succeeded")]
)
def test_a_container_has_rules_of_its_own(version: str, restarts: int, phase: str) -> None:
    """Exit code 42 is started again in a pod that restarts nothing, 0 is not."""
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
    app = container(restartPolicy="Never", restartPolicyRules=[rule])
    exits = (ExitStep(after_ns=5 * S, code=42), ExitStep(after_ns=5 * S, code=0))
    script = ContainerScript(exits=exits)
    found = run(planned("a", app, restartPolicy="Never", scripts={"app": script}), version=version)
    assert len(of_kind(found, "lifecycle.ContainerRestarted")) == restarts
    assert of_kind(found, "lifecycle.PodListed")[-1].status["phase"] == phase
    clean(found)


def test_what_runs_has_what_its_spec_says() -> None:
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    limits = {"cpu": "1", "memory": "1Gi"}
    app = container(limits={"cpu": "500m"}, resizePolicy=policy)
    found = run(planned("a", app, resources={"limits": limits}))
    assert not of_kind(found, "lifecycle.ContainerKilled")
    clean(found)


def test_a_failed_sidecar_is_restarted_beside_the_app() -> None:
    pod = planned(
        "a",
        restartPolicy="Never",
        initContainers=[container("side", restartPolicy="Always"), container("init")],
        scripts={"side": CRASHES},
    )
    found = run(pod, version="1.36.2")
    restarted = {body.container for body in of_kind(found, "lifecycle.ContainerRestarted")}
    assert restarted == {"side"}
    assert {body.container for body in of_kind(found, "lifecycle.RestartBackedOff")} == {"side"}
    clean(found)


def test_jobs_end(version: str) -> None:
    once = ContainerScript(exits=(ExitStep(after_ns=30 * S, code=0),))
    twice = ContainerScript(
        exits=(ExitStep(after_ns=9 * S, code=3), ExitStep(after_ns=9 * S, code=0))
    )
    found = run(
        planned("a", restartPolicy="Never", scripts={"app": once}),
        planned("b", restartPolicy="OnFailure", scripts={"app": twice}),
        version=version,
    )
    ended = [body.pod for body in of_kind(found, "lifecycle.PodTerminated")]
    assert sorted(ended) == ["a", "b"]
    last = {b.pod: b.status["phase"] for b in of_kind(found, "lifecycle.PodListed") if b.status}
    assert last == {"a": "Succeeded", "b": "Succeeded"}
    assert len(of_kind(found, "lifecycle.ContainerRestarted")) == 1
    clean(found)


def test_init_containers_run_one_after_the_other(version: str) -> None:
    pod = planned("a", initContainers=[container("one"), container("two")])
    found = run(pod, version=version)
    started = [b.container for b in of_kind(found, "lifecycle.ContainerStarted")]
    assert started == [None, "one", "two", "app"]
    clean(found)


def test_a_sidecar_runs_beside_the_job_and_ends_after_it() -> None:
    pod = planned(
        "a",
        restartPolicy="Never",
        initContainers=[container("side", restartPolicy="Always")],
        scripts={"app": ContainerScript(exits=(ExitStep(after_ns=20 * S, code=0),))},
    )
    found = run(pod, version="1.36.2")
    died = [b.container for b in of_kind(found, "lifecycle.ContainerDied")]
    assert died == ["app", "side", None] or died == ["app", None, "side"]
    clean(found, unverifiable=1)  # no source tells why a sidecar is stopped


def test_a_deleted_pod_goes_with_its_grace(version: str) -> None:
    pod = planned("a", deleted_s=60, scripts={"app": ContainerScript(stop_ns=20 * S)})
    found = run(pod, version=version)
    killed = of_kind(found, "lifecycle.ContainerKilled")
    assert [(b.reason, b.grace_period_s) for b in killed] == [("pod_deleted", 5)]
    operations = [b.operation for b in of_kind(found, "lifecycle.PodConfigChanged")]
    assert operations == ["ADD", "DELETE", "REMOVE"]
    assert of_kind(found, "lifecycle.PodListed")[-1].gone
    clean(found)


def test_a_full_node_refuses(version: str) -> None:
    pods = [planned(f"p{n}", container(requests={"cpu": "1"})) for n in range(5)]
    found = run(*pods, planned("q", nodeSelector={"a": "b"}), version=version)
    refused = {b.pod: b.reason for b in of_kind(found, "lifecycle.PodRejected")}
    assert refused == {"p3": "OutOfcpu", "p4": "OutOfcpu", "q": "NodeAffinity"}
    clean(found)


def test_a_sidecar_gets_what_its_wait_left_of_the_grace() -> None:
    """Sidecars end after the others, in the order opposite to their starts, in one grace."""
    pod = planned(
        "a",
        terminationGracePeriodSeconds=20,
        initContainers=[container(name, restartPolicy="Always") for name in ("s0", "s1", "s2")],
        scripts={"app": ContainerScript(stop_ns=5 * S), "s2": ContainerScript(stop_ns=60 * S)},
        deleted_s=60,
    )
    found = run(pod, version="1.36.2")
    killed = of_kind(found, "lifecycle.ContainerKilled")
    assert [(b.container, b.grace_period_s) for b in killed] == [
        ("app", 20),
        ("s2", 15),
        ("s1", 2),
        ("s0", 2),
    ]
    times = seconds(found, "lifecycle.ContainerKilled")
    assert [round(at - times[0]) for at in times] == [0, 5, 20, 20]
    clean(found, unverifiable=3)  # no source tells the grace that it was deleted with


def test_a_sidecar_that_ends_by_itself_before_its_turn_ends_once() -> None:
    ends = ExitStep(after_ns=55 * S, code=0), ExitStep(after_ns=14 * S, code=0)
    pod = planned(
        "a",
        terminationGracePeriodSeconds=20,
        initContainers=[container("side", restartPolicy="Always")],
        scripts={
            "app": ContainerScript(stop_ns=17 * S),
            "side": ContainerScript(exits=ends, stop_ns=60 * S),
        },
        deleted_s=70,
    )
    died = of_kind(run(pod, version="1.36.2"), "lifecycle.ContainerDied")
    assert [b.exit_code for b in died if b.container == "side"] == [0, 0]


@pytest.mark.parametrize("fails_s", [35, 600])
def test_a_victim_that_is_being_killed_already(version: str, fails_s: int) -> None:
    pod = planned(
        "a",
        container(requests={"cpu": "3"}, livenessProbe=probe(failureThreshold=1)),
        container("other"),
        terminationGracePeriodSeconds=30,
        scripts={
            "app": ContainerScript(
                stop_ns=29 * S,
                probes={"liveness": (ProbeStep(from_ns=fails_s * S, result="failure"),)},
            )
        },
    )
    critical = planned("crit", container(requests={"cpu": "2"}), at_s=60, priority=2_000_000_000)
    found = run(pod, critical, version=version)
    reported = [b.evicted for b in of_kind(found, "preemption.PodPreempted")]
    assert reported == [None if fails_s < 60 else True]


def test_a_kubelet_restart_admits_again_and_starts_nothing_twice(version: str) -> None:
    found = run(
        planned("a"),
        planned("b", scripts={"app": CRASHES}),
        planned("new", at_s=123),
        planned("gone", deleted_s=125),
        kubelet_restarts=(KubeletRestart(at_ns=120 * S, down_ns=10 * S),),
        version=version,
    )
    assert len(seconds(found, "lifecycle.PodAdmitted")) == 2
    ids = {b.container_id for b in of_kind(found, "lifecycle.ContainerStarted") if b.pod == "a"}
    assert len(ids) == 2  # its sandbox and its container, each recorded by both processes
    assert seconds(found, "lifecycle.PodAdmitted", "new")[0] > 130
    assert "gone" in [b.pod for b in of_kind(found, "lifecycle.PodTerminated")]
    clean(found, unverifiable=1)


def test_after_a_restart_pods_count_once_they_are_handed_over(version: str) -> None:
    """The static pod did not fit beside the API's, which now comes after it and preempts it."""
    found = run(
        planned("api", container(requests={"cpu": "3"}), priority=2_000_000_000),
        planned("static", container(requests={"cpu": "2"}), at_s=20, source="file"),
        kubelet_restarts=(KubeletRestart(at_ns=120 * S, down_ns=10 * S),),
        version=version,
    )
    assert len(of_kind(found, "preemption.PreemptionFailed")) == 1  # that of the first process
    (victim,) = of_kind(found, "preemption.PodPreempted")
    assert (victim.victim_pod, victim.preemptor_pod) == ("static", "api")


@pytest.mark.parametrize(
    ("policy", "reasons", "started"),
    [
        ("Never", ["ErrImageNeverPull", "Failed"], 1),
        ("IfNotPresent", ["Pulling", "Pulled"], 2),
        ("Always", ["Pulling", "Pulled"], 2),
    ],
)
def test_an_image_that_is_missing(policy: str, reasons: list[str], started: int) -> None:
    image = {"image": "registry.local/none:1", "imagePullPolicy": policy}
    found = run(planned("a", {**container(), **image}))
    told = [b.reason for b in of_kind(found, "lifecycle.ReasonReported")]
    assert told[:2] == reasons
    assert len(of_kind(found, "lifecycle.ContainerStarted")) == started
    clean(found)


def test_a_static_pod_whose_file_is_gone_counts_no_more(version: str) -> None:
    """Though its container takes its time to end: another has its room at once."""
    slow = ContainerScript(stop_ns=60 * S)
    static = planned(
        "static",
        container(requests={"cpu": "3"}),
        source="file",
        deleted_s=30,
        scripts={"app": slow},
        terminationGracePeriodSeconds=40,
    )
    found = run(static, planned("next", container(requests={"cpu": "2"}), at_s=35), version=version)
    assert seconds(found, "lifecycle.PodTerminated", "static")[0] > 60
    lists = (
        r for r in found if r.kind == "lifecycle.PodListed" and r.ts_ns < found[0].ts_ns + 60 * S
    )
    assert any(r.body.gone for r in lists)  # type: ignore[attr-defined]
    assert 35 <= seconds(found, "lifecycle.PodAdmitted", "next")[0] < 36


def test_a_pod_that_was_killed_and_never_starts_again_has_failed(version: str) -> None:
    static = planned("static", source="file", at_s=10, deleted_s=13, restartPolicy="Never")
    lists = of_kind(run(static, version=version), "lifecycle.PodListed")
    assert [each.status["phase"] for each in lists if each.pod == "static"][-1:] == ["Failed"]


def test_a_pod_whose_file_went_while_no_kubelet_ran_is_killed(version: str) -> None:
    static = planned("static", container(requests={"cpu": "3"}), source="file", deleted_s=125)
    found = run(
        static,
        planned("next", container(requests={"cpu": "2"}), at_s=150),
        kubelet_restarts=(KubeletRestart(at_ns=120 * S, down_ns=10 * S),),
        version=version,
    )
    (killed,) = of_kind(found, "lifecycle.ContainerKilled")
    assert killed.pod == "static"
    assert seconds(found, "lifecycle.PodAdmitted", "next")


@pytest.mark.parametrize("version", ["1.20.2"])
def test_a_pod_that_failed_is_not_started_again_by_another_kubelet(version: str) -> None:
    """It was killed for another one, and the kubelet ended before it was down."""
    slow = {"app": ContainerScript(stop_ns=20 * S)}
    asks = container(requests={"cpu": "1500m"})
    victim = planned("a", asks, scripts=slow, at_s=1, terminationGracePeriodSeconds=30)
    critical = planned("b", asks, at_s=60, priority=2_000_000_000)
    restart = KubeletRestart(at_ns=63 * S, down_ns=30 * S)
    found = run(victim, critical, version=version, cpus=2, kubelet_restarts=(restart,))
    assert [body.victim_pod for body in of_kind(found, "preemption.PodPreempted")] == ["a"]
    assert max(seconds(found, "lifecycle.ContainerStarted", "b")) > 90
    assert not of_kind(found, "lifecycle.ContainerRestarted")
    assert max(seconds(found, "lifecycle.PodTerminated")) > 90


@pytest.mark.parametrize("version", ["1.20.2", "1.28.0", "1.36.2"])
def test_a_static_pod_that_had_ended_counts_for_an_instant_after_a_restart(version: str) -> None:
    """It is let in again, and the first sync finds that it has ended; nobody is wronged."""
    done = {"app": ContainerScript(exits=(ExitStep(after_ns=20 * S, code=0),))}
    static = planned(
        "a", container(requests={"cpu": "1"}), scripts=done, source="file", restartPolicy="Never"
    )
    other = planned("b", container(requests={"cpu": "500m"}))
    late = planned("c", container(requests={"cpu": "250m"}), at_s=150, deleted_s=200)
    restart = KubeletRestart(at_ns=60 * S, down_ns=2 * S)
    found = run(static, other, late, version=version, cpus=2, kubelet_restarts=(restart,))
    assert len(seconds(found, "lifecycle.PodAdmitted")) == 2
    assert max(seconds(found, "lifecycle.ContainerStarted")) < 60
