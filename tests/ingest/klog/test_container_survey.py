"""Containers are known by name from their first line on, though only their kill names them."""

from pathlib import Path

import pytest

from kubeledger.ingest.api import import_sources
from kubeledger.ingest.klog.log_signs import named_container
from kubeledger.ingest.klog.log_survey import LogLook, LogSurvey
from kubeledger.ingest.sources.streams import Digests, SourceFile
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.lifecycle import ContainerKilled, ContainerRestarted, ContainerStarted
from kubeledger.model.bodies.prober import ProbeExecuted, ProbeTransitioned
from kubeledger.model.record import Body
from tests.ingest.pod_world import (
    at,
    container,
    facts_of,
    ingest_lines,
    klog,
    know_pod,
    of,
    values,
    world,
)

UID = "aaaaaaaa-0000-4000-8000-00000000000a"
SANDBOX, FIRST, SECOND, THIRD = "0" * 64, "1" * 64, "2" * 64, "3" * 64
LIVENESS = "Container web failed liveness probe, will be restarted"


@pytest.mark.parametrize(
    "line",
    [
        f'I1121 10:00:00.0 1 k.go:9] "Killing container with a grace period" pod="shop/a"'
        f' podUID="{UID}" containerName="web" containerID="containerd://{FIRST}" gracePeriod=30',
        f'I1121 10:00:00.0 1 k.go:9] "Killing unwanted container for pod" pod="shop/a"'
        f' podUID="{UID}" containerName="web" containerID={{"Type":"cri-o","ID":"{FIRST}"}}',
        f'I1121 10:00:00.0 1 k.go:9] "Killing unwanted container for pod" pod="shop/a"'
        f' podUID={UID} podUID="{UID}" containerName="web" containerID={{Type:docker ID:{FIRST}}}',
        '{"ts":1.5,"msg":"Killing container with a grace period","pod":{"name":"a"},'
        f'"podUID":"{UID}","containerName":"web","containerID":"docker://{FIRST}"}}',
        f'I1121 10:00:00.0 1 k.go:9] Container "web" ({{"docker" "{FIRST}"}}) of pod'
        f" a_shop({UID}): {LIVENESS}",
        f'{{"ts":1.5,"msg":"Container \\"web\\" ({{\\"docker\\" \\"{FIRST}\\"}}) of pod'
        f' a_shop({UID}): {LIVENESS}\\n","v":2}}',
        f'I1121 10:00:00.0 1 k.go:9] Killing unwanted container "web"(id={{"docker" "{FIRST}"}})'
        f' for pod "a_shop({UID})"',
    ],
)
def test_lines_that_hold_an_id_and_its_name(line: str) -> None:
    """Text and JSON, before and since 1.21."""
    assert named_container(line.encode()) == (FIRST, UID, "web")


@pytest.mark.parametrize(
    "line",
    [
        f'"Killing container with a grace period" podUID="{UID}" containerID="x://{FIRST}"',
        f'"Killing container with a grace period" containerName="web" containerID="x://{FIRST}"',
        'I1121 10:00:00.0 1 k.go:9] the pods of {"a" "b"}) of pod c',
    ],
)
def test_lines_that_do_not(line: str) -> None:
    """Without an ID, a UID or a name nothing is named."""
    assert named_container(line.encode()) is None


def test_the_first_name_of_a_container_stays() -> None:
    kill = 'I1121 10:00:00.000000 1 k.go:9] Container "%s" ({"docker" "%s"}) of pod a_shop(%s): x\n'
    names = (("web", FIRST, UID), ("db", FIRST, UID), ("db", SECOND, UID))
    survey = LogSurvey(SourceFile("kubelet.log", Path("kubelet.log")), Digests(0, "", {}))
    LogLook(survey).feed("".join(kill % each for each in names).encode())
    assert survey.containers == {FIRST: (UID, "web"), SECOND: (UID, "db")}


def _pleg(clock: str, kind: str, container_id: str) -> str:
    event = f'{{"ID":"{UID}","Type":"{kind}","Data":"{container_id}"}}'
    message = f'"SyncLoop (PLEG): event for pod" pod="shop/a" event={event}'
    return klog(clock, "kubelet.go", message)


def _probe(clock: str) -> str:
    keys = f'probeType="Liveness" pod="shop/a" podUID="{UID}" containerName="web"'
    return klog(clock, "prober.go", f'"Probe failed" {keys} probeResult="failure" output="x"')


def _kill(seconds: str, container_id: str, message: str = LIVENESS) -> list[str]:
    probe = '"SyncLoop (probe)" probe="liveness" status="unhealthy" pod="shop/a"'
    why = (
        f'"Message for Container of pod" containerName="web" containerStatusID={{"Type":"x",'
        f'"ID":"{container_id}"}} pod="shop/a" containerMessage="{message}"'
    )
    how = (
        f'"Killing container with a grace period" pod="shop/a" podUID="{UID}" containerName="web"'
        f' containerID="x://{container_id}" gracePeriod=2'
    )
    return [
        _probe(f"{seconds}.100000"),
        klog(f"{seconds}.200000", "kubelet.go", probe),
        klog(f"{seconds}.300000", "kuberuntime_manager.go", why),
        klog(f"{seconds}.400000", "kuberuntime_container.go", how),
    ]


def _terse() -> list[str]:
    """A log without pod lists and start events: three containers, two of them killed."""
    return [
        klog("10:00:00.000000", "kubelet.go", '"SyncLoop ADD" source="api" pods=["shop/a"]'),
        _pleg("10:00:02.000000", "ContainerStarted", FIRST),
        _pleg("10:00:02.000100", "ContainerStarted", SANDBOX),
        *_kill("10:00:30", FIRST),
        _pleg("10:00:33.000000", "ContainerDied", FIRST),
        _pleg("10:00:33.000100", "ContainerStarted", SECOND),
        *_kill("10:01:00", SECOND),
        _pleg("10:01:03.000000", "ContainerDied", SECOND),
        _pleg("10:01:04.000000", "ContainerStarted", THIRD),
    ]


def test_a_terse_log_alone_gives_the_whole_chain(tmp_path: Path) -> None:
    """Each failure names the container that the kill after it names, and the kill its failure."""
    log = tmp_path / "kubelet.log"
    log.write_text("\n".join(_terse()) + "\n")
    ledger = Ledger.create(tmp_path / "ledger")
    import_sources([str(log)], ledger)
    (node,) = ledger.nodes()
    found = list(ledger.records(node))
    by_seq = {record.seq: record for record in found}

    def fields(kind: type[Body], field: str = "container_id") -> list[str | None]:
        return [getattr(r.body, field) for r in found if isinstance(r.body, kind)]

    assert fields(ContainerStarted, "container") == ["web", None, "web", "web"]
    assert fields(ProbeExecuted) == fields(ProbeTransitioned) == [FIRST, SECOND]
    assert fields(ContainerKilled) == [FIRST, SECOND]
    causes = [by_seq[r.cause or 0] for r in found if isinstance(r.body, ContainerKilled)]
    assert [type(cause.body) for cause in causes] == [ProbeTransitioned] * 2
    assert fields(ContainerRestarted) == [SECOND, THIRD]
    assert fields(ContainerRestarted, "previous_container_id") == [FIRST, SECOND]
    assert fields(ContainerRestarted, "reason") == ["liveness_probe"] * 2


def _after_kill(*more: str) -> list[str | None]:
    """Names of what starts once ``web`` was killed for its probe, in a pod without a spec."""
    log = [_pleg("10:00:02.000000", "ContainerStarted", FIRST), *_kill("10:00:30", FIRST)]
    log += [_pleg("10:00:33.000000", "ContainerDied", FIRST), *more]
    facts = ingest_lines(world(), [*log, _pleg("10:00:40.000000", "ContainerStarted", SECOND)])
    return [body.container for body in of(facts, ContainerStarted)[1:]]


def test_a_start_whose_line_is_missing() -> None:
    """What was killed and died had run: its end is no start, and it is what came before."""
    context = world()
    know_pod(context, "a", UID, namespace="shop", spec=container("web"))
    log = [
        _pleg("10:00:02.000000", "ContainerStarted", FIRST),
        *_kill("10:01:00", SECOND),
        _pleg("10:01:03.000000", "ContainerDied", SECOND),
        _pleg("10:01:03.000100", "ContainerStarted", THIRD),
    ]
    found = of(ingest_lines(context, log), ContainerRestarted)
    assert [(body.container_id, body.previous_container_id) for body in found] == [(THIRD, SECOND)]


def test_an_end_of_what_lists_show_to_have_run() -> None:
    """Lists tell when it began: that is its restart, not its end, and what follows it is one."""
    context = world()

    def status(container_id: str, count: int, since: str) -> dict[str, object]:
        state = {"running": {"startedAt": f"2026-11-21T{since}Z"}}
        known = {"name": "web", "restartCount": count, "containerID": f"x://{container_id}"}
        return {"containerStatuses": [known | {"state": state}]}

    restarts = ((FIRST, 0, "10:00:01"), (SECOND, 1, "10:00:20"), (THIRD, 2, "10:01:12"))
    lists = [status(*each) for each in restarts]
    know_pod(context, "a", UID, namespace="shop", spec=container("web"), statuses=lists)
    log = [
        _pleg("10:00:02.000000", "ContainerStarted", FIRST),
        _pleg("10:01:03.000000", "ContainerDied", SECOND),
        _pleg("10:01:13.000100", "ContainerStarted", THIRD),
    ]
    found = facts_of(ingest_lines(context, log), ContainerRestarted)
    assert [(f.ts_ns, *values(f.body, "container_id", "previous_container_id")) for f in found] == [
        (at("10:00:20"), SECOND, FIRST),
        (at("10:01:13.000100"), THIRD, SECOND),
    ]


def test_what_a_killed_container_became() -> None:
    """What the pod starts after such a kill is the same container."""
    assert _after_kill() == ["web"]


@pytest.mark.parametrize(
    "line",
    [
        _pleg("10:00:34.000000", "ContainerDied", SANDBOX),
        klog("10:00:34.000000", "kubelet.go", '"SyncLoop DELETE" source="api" pods=["shop/a"]'),
        klog("10:00:34.000000", "pod_workers.go",
             '"Error syncing pod, skipping" err="failed to \\"StartContainer\\" for \\"side\\" with'
             f' ImagePullBackOff: \\"x\\"" pod="shop/a" podUID="{UID}"'),
    ],
)  # fmt: skip
def test_it_is_not_guessed_where_something_else_may_start(line: str) -> None:
    """Another ID of the pod ended, the pod is going, another container could not start yet."""
    assert _after_kill(line) == [None]


def test_another_kill_promises_no_restart() -> None:
    """A container that ended for another reason may be an init container: not concluded."""
    log = [_pleg("10:00:02.000000", "ContainerStarted", FIRST)]
    log += _kill("10:00:30", FIRST, "Stopping container web")[2:]
    log.append(_pleg("10:00:33.000000", "ContainerDied", FIRST))
    facts = ingest_lines(world(), [*log, _pleg("10:00:34.000000", "ContainerStarted", SECOND)])
    assert [body.container for body in of(facts, ContainerStarted)] == [None, None]


def test_a_container_that_was_backed_off_starts_next() -> None:
    context = world()
    status = {"name": "web", "restartCount": 0, "containerID": f"x://{FIRST}"}
    spec = {"containers": [*container("web")["containers"], *container("side")["containers"]]}
    statuses = [{"containerStatuses": [status]}]
    know_pod(context, "a", UID, namespace="shop", spec=spec, statuses=statuses)
    log = [_pleg("10:00:02.000000", "ContainerStarted", FIRST)]
    log.append(_pleg("10:00:33.000000", "ContainerDied", FIRST))
    refused = (
        '"Error syncing pod, skipping" err="failed to \\"StartContainer\\" for \\"web\\" with'
        ' CrashLoopBackOff: \\"back-off 10s restarting failed container=web'
        f' pod=a_shop({UID})\\"" pod="shop/a" podUID="{UID}"'
    )
    log.append(klog("10:00:34.000000", "pod_workers.go", refused))
    log.append(_pleg("10:00:44.000000", "ContainerStarted", SECOND))
    facts = ingest_lines(context, log)
    assert [body.container for body in of(facts, ContainerStarted)] == ["web", "web"]
    (restart,) = of(facts, ContainerRestarted)
    assert values(restart, "previous_container_id", "reason") == (FIRST, "exited")
