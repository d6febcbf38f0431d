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
from tests.ingest.scenes import IDS, events_of, line_of, played_out
from tests.ingest.scenes import WORDS as SHARED
from tests.ingest.scenes import A as UID

FIRST, SECOND, THIRD = (IDS[digit] for digit in "123")
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


_PLEG = 'kubelet.go "SyncLoop (PLEG): event for pod" pod="shop/a" event={"ID":"{a}","Type":'
_REFUSED = 'pod_workers.go "Error syncing pod, skipping" err="failed to \\"StartContainer\\" for '
_OF_POD = f'pod="shop/a" podUID="{UID}"'
WORDS = {
    "Started": f'{_PLEG}"ContainerStarted","Data":"{{id}}"}}',
    "Died": f'{_PLEG}"ContainerDied","Data":"{{id}}"}}',
    "fails": f'prober.go "Probe failed" probeType="Liveness" {_OF_POD} containerName="c" '
    'probeResult="failure" output="x"',
    "unhealthy": 'kubelet.go "SyncLoop (probe)" probe="liveness" status="unhealthy" pod="shop/a"',
    "said": 'kuberuntime_manager.go "Message for Container of pod" containerName="c" '
    'containerStatusID={"Type":"x","ID":"{id}"} pod="shop/a" containerMessage="{*}"',
    "KILL 1": "30.1 fails | 30.2 unhealthy | 30.3 said 1 {PROBED} | 30.4 kill 1 2",
    "KILL 2": "60.1 fails | 60.2 unhealthy | 60.3 said 2 {PROBED} | 60.4 kill 2 2",
    "unpulled": f'{_REFUSED}\\"side\\" with ImagePullBackOff: \\"x\\"" {_OF_POD}',
    "waits": f'{_REFUSED}\\"c\\" with CrashLoopBackOff: \\"back-off 10s restarting failed '
    f'container=c pod=a_shop({UID})\\"" {_OF_POD}',
}
_LISTED = '{"restartCount":%d,"state":{"running":{"startedAt":"2026-11-21T10:%sZ"}}}'

SCENES = f"""
what the pod starts after such a kill is the same container
    2 Started 1
    KILL 1
    33 Died 1 | 40 Started 2
    = ContainerStarted container_id=1 container=None
    = ContainerStarted container_id=2 container=c
it is not guessed where another ID of the pod ended
    2 Started 1
    KILL 1
    33 Died 1 | 34 Died 0 | 40 Started 2
    = ContainerStarted container_id=1 container=None
    = ContainerStarted container_id=2 container=None
it is not guessed where the pod is going
    2 Started 1
    KILL 1
    33 Died 1 | 34 kubelet.go "SyncLoop DELETE" source="api" pods=["shop/a"] | 40 Started 2
    = ContainerStarted container_id=1 container=None
    = ContainerStarted container_id=2 container=None
it is not guessed where another container could not start yet
    2 Started 1
    KILL 1
    33 Died 1 | 34 unpulled | 40 Started 2
    = ContainerStarted container_id=1 container=None
    = ContainerStarted container_id=2 container=None
what ended for another reason may be an init container: another kill promises no restart
    2 Started 1 | 30.3 said 1 Stopping container c | 30.4 kill 1 2 | 33 Died 1 | 34 Started 2
    = ContainerStarted container_id=1 container=None
    = ContainerStarted container_id=2 container=None
what was killed and died had run, though no line tells of its start
    ~ spec c
    2 Started 1
    KILL 2
    63 Died 2 | 63.0001 Started 3
    = ContainerRestarted container_id=3 previous_container_id=2
lists tell when it began: that is its restart, not its end, and what follows it is one
    ~ spec c
    ~ ran c 1 {_LISTED % (0, "00:01")}
    ~ ran c 2 {_LISTED % (1, "00:20")}
    ~ ran c 3 {_LISTED % (2, "01:12")}
    2 Started 1 | 63 Died 2 | 73.0001 Started 3
    = ContainerRestarted @20 container_id=2 previous_container_id=1
    = ContainerRestarted @73.0001 container_id=3 previous_container_id=2
a container that was backed off starts next
    ~ spec c side
    ~ ran c 1 {{"restartCount":0}}
    2 Started 1 | 33 Died 1 | 34 waits | 44 Started 2
    = ContainerStarted container=c
    = ContainerStarted container=c
    = ContainerRestarted previous_container_id=1 reason=exited
"""

test_scene = played_out(SCENES, WORDS)

TERSE = (
    '0 kubelet.go "SyncLoop ADD" source="api" pods=["shop/a"]',
    "2 Started 1 | 2.0001 Started 0",
    "KILL 1",
    "33 Died 1 | 33.0001 Started 2",
    "KILL 2",
    "63 Died 2 | 64 Started 3",
)
"""A log without pod lists and start events: three containers, two of them killed."""


def test_a_terse_log_alone_gives_the_whole_chain(tmp_path: Path) -> None:
    """Each failure names the container that the kill after it names, and the kill its failure."""
    log = tmp_path / "kubelet.log"
    words = {**SHARED, **WORDS}
    log.write_text("".join(f"{line_of(*each, words)}\n" for each in events_of(TERSE, words)))
    ledger = Ledger.create(tmp_path / "ledger")
    import_sources([str(log)], ledger)
    (node,) = ledger.nodes()
    found = list(ledger.records(node))
    by_seq = {record.seq: record for record in found}

    def fields(kind: type[Body], field: str = "container_id") -> list[str | None]:
        return [getattr(r.body, field) for r in found if isinstance(r.body, kind)]

    assert fields(ContainerStarted, "container") == ["c", None, "c", "c"]
    assert fields(ProbeExecuted) == fields(ProbeTransitioned) == [FIRST, SECOND]
    assert fields(ContainerKilled) == [FIRST, SECOND]
    causes = [by_seq[r.cause or 0] for r in found if isinstance(r.body, ContainerKilled)]
    assert [type(cause.body) for cause in causes] == [ProbeTransitioned] * 2
    assert fields(ContainerRestarted) == [SECOND, THIRD]
    assert fields(ContainerRestarted, "previous_container_id") == [FIRST, SECOND]
    assert fields(ContainerRestarted, "reason") == ["liveness_probe"] * 2
