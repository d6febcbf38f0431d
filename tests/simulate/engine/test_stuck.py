"""What fails for a while: stages of pods and conditions of the node are those of the scenario."""

from functools import lru_cache
from typing import NamedTuple

import msgspec
import pytest

from kubeledger.kubelet.lifecycle.stages import StageFailure, failures_of_sync
from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.model.bodies.lifecycle import KubernetesEvent, PodAdmitted, PodListed
from kubeledger.model.bodies.node import NodeTroubled, PodStageFailed, Stage
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.episodes.node_conditions import NodeConditions, node_conditions
from kubeledger.replay.episodes.pod_stages import StageEpisode
from kubeledger.simulate.engine.plan import (
    ContainerScript,
    ExitStep,
    Failing,
    Failure,
    KubeletRestart,
    Plan,
)
from kubeledger.verify.finding import Finding
from tests.replay.episodes.stages import stage_episodes
from tests.simulate.engine.scenes import IMAGE, container, outcomes, plan, planned, records, shipped

VERSIONS = ("1.20.2", "1.24.17", "1.28.0", "1.31.0", "1.34.0", "1.36.2")


class Stuck(NamedTuple):
    """A pod's stage while something fails.

    Attributes:
        what, of: the failure, as the scenario has it.
        reason: the kubelet's, while it waits.
        late_s: after how long the first attempt fails; ``again_s``: after how long at most the
            stage is passed when all is well again.
        attempts: at least, and at most.
    """

    what: Failing
    of: str | None
    reason: str
    late_s: float
    again_s: float
    attempts: tuple[int, int]


_SYNC = (4, 7)
"""In a minute: after 10 s to 15 s, on a tick of a second, each time."""
PLAN: dict[tuple[str | None, str | None, Stage], Stuck] = {
    ("web", None, "network"): Stuck("network", None, "NetworkNotReady", 1, 10, (16, 40)),
    ("data", None, "volumes"): Stuck("volume", "disk", "FailedMount", 0.1, 145, (10, 10)),
    ("keys", None, "volumes"): Stuck("secret", "tls", "FailedMount", 0.1, 50, (7, 7)),
    ("gpu", None, "resources"): Stuck(
        "claim", "gpu", "FailedPrepareDynamicResources", 1, 93, (2, 3)
    ),
    ("lonely", None, "sandbox"): Stuck("sandbox", None, "CreatePodSandboxError", 1, 18, _SYNC),
    ("pulls", "server", "image"): Stuck(
        "image", "registry.example/shop:2", "ImagePullBackOff", 2, 180, (5, 6)
    ),
    ("unconfigured", "server", "create"): Stuck(
        "secret", "token", "CreateContainerConfigError", 1, 18, _SYNC
    ),
    ("unmade", "server", "create"): Stuck("create", None, "CreateContainerError", 1, 18, _SYNC),
    ("unstarted", "server", "start"): Stuck("start", None, "RunContainerError", 1, 18, _SYNC),
    ("hooked", "server", "hook"): Stuck("hook", None, "PostStartHookError", 4, 60, (3, 5)),
    ("late", None, "sandbox"): Stuck("runtime", None, "CreatePodSandboxError", 6, 3, (1, 1)),
}  # fmt: skip


@lru_cache(maxsize=1)
def scenario() -> Plan:
    return shipped("stuck")


@lru_cache
def run(version: str) -> list[Record]:
    return records(msgspec.structs.replace(scenario(), kubelet_version=version))


def ns(seconds: float) -> int:
    return int(seconds * NS_PER_S)


def interval(what: Failing, of: str | None) -> tuple[int, int]:
    """From and until when something fails, on the clock."""
    found = next(f for f in scenario().failures if (f.what, f.of) == (what, of))
    return scenario().start_ns + found.from_ns, scenario().start_ns + found.until_ns


@pytest.mark.parametrize("version", VERSIONS)
def test_episodes_are_the_plan(version: str) -> None:
    """Each pod is stuck where, since when, and until when the scenario says; and nowhere else."""
    expected = dict(PLAN)
    if not resolve(version).stages.dynamic_resources:
        del expected["gpu", None, "resources"]
    found = {(e.pod, e.container, e.stage): e for e in stage_episodes(run(version))}
    found.pop(("hooked", "server", "run"))  # it is killed for its hook, and held back
    assert found.keys() == expected.keys()
    for key, stuck in expected.items():
        _is(found[key], stuck)


def _is(episode: StageEpisode, stuck: Stuck) -> None:
    from_ns, until_ns = interval(stuck.what, stuck.of)
    assert episode.reason == stuck.reason
    assert from_ns <= episode.ts_ns <= from_ns + ns(stuck.late_s)
    looked_ns = ns(5) if stuck.what == "network" else 0  # the runtime is asked every 5 s
    assert episode.last_ts_ns < until_ns + looked_ns or episode.is_waiting
    assert episode.passed_ts_ns is not None
    assert until_ns <= episode.passed_ts_ns <= until_ns + ns(stuck.again_s)
    assert stuck.attempts[0] <= episode.attempts <= stuck.attempts[1], episode


@pytest.mark.parametrize("version", VERSIONS)
def test_the_node_is_the_plan(version: str) -> None:
    """Not ready without network, and half a minute after its runtime stopped; told by whom."""
    node = node_conditions(run(version))
    network, runtime, server = (
        interval(what, None) for what in ("network", "runtime", "apiServer")
    )
    ready = [(e.status, e.ts_ns) for e in node.conditions()]
    assert [status for status, _ in ready] == ["False", "True"] * 2
    wanted = (network[0], network[1], runtime[0] + ns(25), runtime[1])
    for (_, ts_ns), at_ns in zip(ready, wanted, strict=True):
        assert at_ns <= ts_ns <= at_ns + ns(16)
    found = {e.trouble: e for e in node.troubles()}
    assert len(found) == len(node.troubles()) == 7
    minute = ns(60)
    _between(node, "network_not_ready", network[0], network[1], late_ns=ns(1))
    _between(node, "runtime_down", *runtime, late_ns=ns(5))
    _between(node, "sync_skipped", runtime[0] + ns(25), runtime[1], late_ns=ns(6))
    _between(node, "pleg_unhealthy", runtime[0] + 3 * minute, runtime[1], late_ns=ns(7))
    _between(node, "api_unreachable", *server, late_ns=0, again_ns=minute)
    _between(node, "lease_update_failed", *server, late_ns=ns(10))
    lister = resolve(version).stages.status_read_from_lister
    # Where the node is read from a cache, only what is to be written is missed: it is due then.
    due_ns = ready[3][1] + 5 * minute if lister else server[0]
    _between(node, "status_update_failed", due_ns, server[1], late_ns=ns(10))
    assert found["runtime_down"].attempts == 60
    assert found["status_update_failed"].attempts == (30 if lister else 90)


def _between(
    node: NodeConditions,
    trouble: str,
    from_ns: int,
    until_ns: int,
    *,
    late_ns: int,
    again_ns: int = ns(12),
) -> None:
    episode = next(e for e in node.troubles() if e.trouble == trouble)
    assert from_ns <= episode.ts_ns <= from_ns + late_ns
    assert episode.last_ts_ns < until_ns + ns(3)
    assert episode.passed_ts_ns is not None
    assert until_ns <= episode.passed_ts_ns <= until_ns + again_ns


@pytest.mark.parametrize("version", VERSIONS)
def test_pods_come_when_the_api_server_is_there_again(version: str) -> None:
    server = interval("apiServer", None)
    admitted = {r.body.pod: r.ts_ns for r in run(version) if isinstance(r.body, PodAdmitted)}
    back_ns = {e.trouble: e.passed_ts_ns for e in node_conditions(run(version)).troubles()}
    assert admitted["later"] >= (back_ns["api_unreachable"] or 0) >= server[1]


@pytest.mark.parametrize("version", VERSIONS)
def test_all_of_it_is_verified(version: str) -> None:
    """Nothing is impossible, and only how often a failed hook raised the back-off is open."""
    found = outcomes(run(version))
    open_ = {o.why for o in found if isinstance(o, Finding) and o.verdict != "match"}
    assert len(found) > 100
    assert all(why.startswith("container server had been started again so often") for why in open_)


def test_the_same_seed_gives_the_same_records() -> None:
    again = records(scenario())
    assert msgspec.json.encode(again) == msgspec.json.encode(run("1.36.2"))
    other = records(msgspec.structs.replace(scenario(), seed=1))
    assert [e.attempts for e in stage_episodes(other)] != [
        e.attempts for e in stage_episodes(again)
    ]


WORDS = {
    "network": ("runtime network not ready: NetworkReady=false", "container runtime network not"),
    "data": (
        "Unable to attach or mount volumes: unmounted volumes=[disk], unattached volumes=[disk]: "
        "timed out waiting for the condition",
        None,
    ),
    "pulled": (
        'Successfully pulled image "registry.example/shop:2" in 1s',
        'Successfully pulled image "registry.example/shop:2" in 1s (1s including waiting). Image '
        "size: 104857600 bytes.",
    ),
    "hook": ("command exited with 1", "PostStartHook failed"),
}
"""What -> as 1.20 says it, and 1.36."""


def test_the_words_are_those_of_the_version() -> None:
    for number, version in enumerate(("1.20.2", "1.36.2")):
        events = [r.body for r in run(version) if isinstance(r.body, KubernetesEvent)]
        said = {(e.reason, e.message) for e in events}
        assert any(
            m.startswith(f"network is not ready: {WORDS['network'][number]}")
            for reason, m in said
            if reason == "NetworkNotReady"
        )
        assert ("Pulled", WORDS["pulled"][number]) in said
        assert ("FailedPostStartHook", WORDS["hook"][number]) in said
        assert any(m.startswith("Unable to attach") for _, m in said) == (number == 0)
        assert (("FailedMount", WORDS["data"][0]) in said) == (number == 0)
        waiting = _waiting(run(version), "pulls")
        cause = ": ErrImagePull: rpc error: code = NotFound desc = " if number else ""
        assert f'Back-off pulling image "registry.example/shop:2"{cause}' in {
            text[: text.rfind("failed to pull and unpack")] if cause in text and cause else text
            for reason, text in waiting
            if reason == "ImagePullBackOff"
        }


_SYNC_ERRORS = {
    "network": "network is not ready: {}",
    "sandbox": 'failed to "CreatePodSandbox" for "{pod}" with CreatePodSandboxError: "Failed to '
    'create sandbox for pod \\"{pod}\\": {quoted}"',
}
"""Stage -> the error of a sync, as a log has it; others are of containers."""


@pytest.mark.parametrize("version", VERSIONS)
def test_an_import_would_tell_the_same(version: str) -> None:
    """The log's error of each failed sync is read as the failure that is recorded."""
    seen = set()
    for body in (r.body for r in run(version) if isinstance(r.body, PodStageFailed)):
        if body.stage in ("volumes", "resources"):  # told by other lines
            continue
        started = (
            f'failed to "StartContainer" for "{body.container}" with {body.reason}: "{{quoted}}"'
        )
        quoted = body.message.replace("\\", "\\\\").replace('"', '\\"')
        pod = f"{body.pod}_{body.namespace}({body.pod_uid})"
        error = _SYNC_ERRORS.get(body.stage, started).format(body.message, pod=pod, quoted=quoted)
        (read,) = failures_of_sync(error)
        assert read == StageFailure(
            body.stage, body.reason, body.message, body.about, body.is_waiting, body.container
        )
        seen.add(body.stage)
    assert seen == {"network", "sandbox", "image", "create", "start", "hook"}


def _waiting(found: list[Record], pod: str) -> list[tuple[str, str]]:
    statuses = [
        status
        for r in found
        if isinstance(r.body, PodListed) and r.body.pod == pod and r.body.status
        for status in r.body.status.get("containerStatuses", ())
    ]
    waiting = [status["state"].get("waiting") or {} for status in statuses]
    return [(each["reason"], each.get("message", "")) for each in waiting if each]


def fails(
    what: Failing, from_s: float, until_s: float, of: str | None = None, words: str = ""
) -> Failure:
    return Failure(what=what, of=of, from_ns=ns(from_s), until_ns=ns(until_s), words=words)


def episodes(made: Plan) -> list[StageEpisode]:
    """Of a plan's records, which add up in what is told: no attempt is lost or told twice."""
    found = records(made)
    told = [r.body for r in found if isinstance(r.body, PodStageFailed)]
    assert all(body.first_ts_ns <= body.last_ts_ns for body in told)
    return stage_episodes(found)


def test_what_goes_on_is_recorded_each_ten_minutes() -> None:
    made = plan(planned("a"), minutes=25, failures=(fails("sandbox", 0, 3600),))
    found = records(made)
    told = [r.body for r in found if isinstance(r.body, PodStageFailed)]
    events = [r for r in found if isinstance(r.body, KubernetesEvent)]
    assert len(told) == 4
    assert sum(body.count for body in told) == len(events) > 100
    assert [e.is_open for e in stage_episodes(found)] == [True]


@pytest.mark.parametrize("version", ["1.20.2", "1.27.0", "1.28.0"])
def test_a_pod_that_is_deleted_gets_past_nothing(version: str) -> None:
    """The wait for volumes is broken off from 1.28 on; before, it goes on for two minutes."""
    app = container(volumeMounts=[{"name": "v", "mountPath": "/v"}])
    pod = planned("a", app, deleted_s=30, volumes=[{"name": "v"}])
    made = plan(pod, version=version, failures=(fails("volume", 0, 3600),))
    found = records(made)
    (episode,) = stage_episodes(found)
    assert episode.passed_ts_ns is None
    assert episode.ended_ts_ns == made.start_ns + ns(30)
    gone_ns = next(r.ts_ns for r in found if r.kind == "lifecycle.PodTerminated")
    assert (gone_ns < made.start_ns + ns(35)) == (version == "1.28.0")


def test_the_image_decides_how_it_fails() -> None:
    def reasons(image: str, policy: str, words: str, version: str = "1.36.2") -> tuple[str, str]:
        made = plan(
            planned("a", container(image=image, imagePullPolicy=policy)),
            version=version,
            minutes=1,
            images=(),
            failures=(fails("image", 0, 3600, of=image, words=words),),
        )
        (episode,) = stage_episodes(records(made))
        first = next(r.body for r in records(made) if isinstance(r.body, PodStageFailed))
        return first.reason, episode.message

    tried = "Always"
    assert reasons("a/b:1", tried, "denied") == ("ErrImagePull", "denied")
    unavailable = "RegistryUnavailable: no route"
    because = "image pull failed for a/b:1 because the registry is unavailable: no route"
    assert reasons("a/b:1", tried, unavailable) == ("RegistryUnavailable", because)
    assert reasons("a/b:1", tried, unavailable, "1.27.0") == ("ErrImagePull", unavailable)
    never = 'Container image "a/b:1" is not present with pull policy of Never'
    assert reasons("a/b:1", "Never", "") == ("ErrImageNeverPull", never)
    failed = 'Failed to apply default image tag "Web:1": couldn\'t parse image'
    why = "invalid reference format: repository name"
    assert reasons("Web:1", tried, "") == (
        "InvalidImageName", f'{failed} name "Web:1": {why} (library/Web) must be lowercase',
    )  # fmt: skip
    assert reasons("Web:1", tried, "", "1.27.0") == (
        "InvalidImageName", f'{failed} reference "Web:1": {why} must be lowercase',
    )  # fmt: skip


@pytest.mark.parametrize(
    ("version", "waiting"),
    [("1.30.14", {"always"}), ("1.34.9", {"always"}), ("1.36.2", {"always", "present", "never"})],
)
def test_an_image_that_is_there_is_pulled_if_the_pod_says_so(
    version: str, waiting: set[str]
) -> None:
    """``Always`` asks the registry, the others do not.

    But where credentials are verified, an image that anyone is pulling counts as pulled by the
    kubelet, without a record of who may use it.
    """
    pods = (
        planned("always", container(imagePullPolicy="Always")),
        planned("present", container(imagePullPolicy="IfNotPresent")),
        planned("never", container(imagePullPolicy="Never")),
    )
    made = plan(*pods, version=version, failures=(fails("image", 0, 60, of=IMAGE.name),))
    assert {(e.pod, e.stage) for e in episodes(made)} == {(pod, "image") for pod in waiting}


def test_pods_of_the_hosts_network_do_not_wait_for_it() -> None:
    pods = (planned("own"), planned("host", hostNetwork=True), planned("other"))
    network = fails("network", 0, 60)
    cgroup = msgspec.structs.replace(fails("cgroup", 0, 120), pods=("default/other",))
    found = episodes(plan(*pods, failures=(network, cgroup)))
    assert [(e.pod, e.stage) for e in found] == [
        ("own", "network"), ("other", "network"), ("other", "cgroup"),
    ]  # fmt: skip


def test_what_is_optional_is_not_missed() -> None:
    ref = {"name": "x", "optional": True}
    app = container(
        envFrom=[{"secretRef": ref}],
        env=[{"name": "E", "valueFrom": {"configMapKeyRef": {**ref, "key": "k"}}}],
        volumeMounts=[{"name": "v", "mountPath": "/v"}],
    )
    volumes = [{"name": "v", "projected": {"sources": [{"configMap": ref}]}}]
    needs = container("needs", env=[{"name": "E", "valueFrom": {"secretKeyRef": {"name": "x"}}}])
    failing = (fails("secret", 0, 60), fails("configMap", 0, 60))
    found = episodes(plan(planned("a", app, needs, volumes=volumes), failures=failing))
    assert [(e.container, e.stage, e.about) for e in found] == [("needs", "create", "x")]


def test_the_process_that_said_it_ends() -> None:
    """What it has said is recorded; the next one begins to say it anew."""
    restart = KubeletRestart(at_ns=ns(60), down_ns=ns(10))
    made = plan(planned("a"), failures=(fails("runtime", 5, 400),), kubelet_restarts=(restart,))
    found = [(r.ts_ns, r.body) for r in records(made) if isinstance(r.body, NodeTroubled)]
    down = [(ts_ns, body) for ts_ns, body in found if body.trouble == "runtime_down"]
    assert [(body.count, body.passed_ts_ns) for _, body in down[:2]] == [(1, None), (10, None)]
    assert down[1][0] == made.start_ns + ns(60)
    assert down[2][1].first_ts_ns >= made.start_ns + ns(70)


def test_containers_that_end_while_the_runtime_is_down_are_seen_later() -> None:
    """They end when they end; the kubelet lists them when the runtime answers."""
    script = ContainerScript(exits=(ExitStep(after_ns=ns(60), code=1),))
    made = plan(planned("a", scripts={"app": script}), failures=(fails("runtime", 30, 120),))
    died = next(r for r in records(made) if r.kind == "lifecycle.ContainerDied")
    assert made.start_ns + ns(120) <= died.ts_ns <= made.start_ns + ns(130)
