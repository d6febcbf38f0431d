"""Pods that are stopped as a whole: why, with how much time, and what their kills say then."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubeledger.ingest.api import import_sources
from kubeledger.ingest.sources.facts import Fact
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.ledger import LinesNotUnderstood
from kubeledger.model.bodies.lifecycle import ContainerKilled, PodTerminating
from kubeledger.model.bodies.memorymanager import MemoryStateRefused
from kubeledger.model.bodies.node import KubeletExited, KubeletStarted
from tests.ingest.node_files import log_text
from tests.ingest.pod_world import (
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
ID = "1" * 64
POD = f'pod="shop/a" podUID="{UID}"'


def _reported(*log: str) -> list[Fact]:
    context = world()
    know_pod(context, "a", UID, namespace="shop", spec=container("c"))
    return ingest_lines(context, list(log))


def _worker(message: str, clock: str = "10:00:00.1", keys: str = POD) -> str:
    return klog(clock, "pod_workers.go", f'"{message}" {keys}')


def _killed(clock: str = "10:00:00.3", grace_s: int = 20) -> str:
    message = f'"Killing container with a grace period" {POD} containerName="c"'
    keys = f'containerID="containerd://{ID}" gracePeriod={grace_s}'
    return klog(clock, "kuberuntime_container.go", f"{message} {keys}")


def _given(grace: str = "20") -> str:
    message = '"Pod terminating with grace period"'
    return klog("10:00:00.2", "kubelet.go", f"{message} {POD} gracePeriod={grace}")


@pytest.mark.parametrize(
    ("message", "reason", "kill"),
    [
        ("Pod is marked for graceful deletion, begin teardown", "deleted", "pod_deleted"),
        ("Pod is being removed by the kubelet, begin teardown", "removed", "pod_deleted"),
        ("Pod has been deleted and must be killed", "removed", "pod_deleted"),
        ("Pod is orphaned and must be torn down", "orphaned", "orphaned"),
        ("Pod is in a terminal phase (success/failed), begin teardown", "ended", "pod_ended"),
        (
            "Stopping PodSandbox for pod, because all other containers are dead",
            "ended",
            "pod_ended",
        ),
        ("Pod is being evicted by the kubelet, begin teardown", "killed", None),
    ],
)
def test_the_worker_says_why(message: str, reason: str, kill: str | None) -> None:
    """Its lines are one fact, which the kill follows from."""
    facts = _reported(_worker(message), _given(), _killed())
    (ending,) = facts_of(facts, PodTerminating)
    assert values(ending.body, "pod", "pod_uid", "reason", "grace_period_s") == (
        "a",
        UID,
        reason,
        20,
    )
    assert len(ending.evidence) == 2
    (killed,) = facts_of(facts, ContainerKilled)
    assert values(killed.body, "reason", "grace_period_s") == (kill, 20)
    assert killed.cause is (None if kill is None else ending)


def test_a_line_that_holds_the_uid_alone() -> None:
    """As since 1.27; and no period was given."""
    message = "Pod indicated lifecycle completed naturally and should now terminate"
    facts = _reported(_worker(message, keys=f'podUID="{UID}"'), _given("null"), _killed())
    assert [values(b, "reason", "grace_period_s") for b in of(facts, PodTerminating)] == [
        ("ended", None)
    ]


def test_a_deadline() -> None:
    """Its event stands before the end."""
    keys = 'object="shop/a" kind="Pod" apiVersion="v1" type="Normal" reason="DeadlineExceeded"'
    event = f'"Event occurred" {keys} message="Pod was active on the node longer"'
    message = "Pod indicated lifecycle completed naturally and should now terminate"
    facts = _reported(klog("10:00:00.0", "event.go", event), _worker(message), _killed())
    assert [b.reason for b in of(facts, ContainerKilled)] == ["deadline_exceeded"]


def test_the_node_shuts_down() -> None:
    """The shutdown manager speaks before the worker; together they are one fact."""
    line = f'"Shutdown manager killing pod with gracePeriod" {POD} gracePeriod=7'
    worker = _worker("Pod is being evicted by the kubelet, begin teardown", "10:00:00.2")
    facts = _reported(klog("10:00:00.1", "nodeshutdown_manager_linux.go", line), worker, _killed())
    (body,) = of(facts, PodTerminating)
    assert (body.reason, body.grace_period_s) == ("shutdown", 7)
    assert [b.reason for b in of(facts, ContainerKilled)] == ["node_shutdown"]


def test_a_worker_that_begins_anew_knows_of_no_end() -> None:
    """A static pod that comes back has its old UID."""
    facts = _reported(
        _worker("Pod is being removed by the kubelet, begin teardown"),
        _worker("Pod is being synced for the first time", "10:00:10.0"),
        _killed("10:00:11.0"),
    )
    assert [b.reason for b in of(facts, ContainerKilled)] == [None]


def test_a_failed_hook_and_a_new_sandbox() -> None:
    """One is in the message, of the other the line before tells."""
    keys = 'object="shop/a" fieldPath="spec.containers{c}" kind="Pod" apiVersion="v1"'
    event = f'"Event occurred" {keys} type="Normal" reason="Killing" message="FailedPostStartHook"'
    facts = _reported(_killed(), klog("10:00:00.4", "event.go", event))
    assert [b.reason for b in of(facts, ContainerKilled)] == ["post_start_hook"]
    line = '"Stopping PodSandbox for pod, will start new one" pod="shop/a"'
    facts = _reported(klog("10:00:00.1", "kuberuntime_manager.go", line), _killed())
    assert [b.reason for b in of(facts, ContainerKilled)] == ["sandbox_changed"]


CARRIER = "Nov 21 03:01:20 node-x kubelet[8337]: "
STACK = "\ngoroutine 1 [running]:\nmain.main()\n\t/go/src/kubelet.go:43 +0x1d\n\nexit status 2\n"


@pytest.mark.parametrize(
    ("last", "reason", "message", "pid"),
    [
        (
            'E1121 03:01:20.000000    8337 kubelet.go:1556] "Failed to start ContainerManager" '
            'err="start memory manager error"\n',
            "error",
            "Failed to start ContainerManager: start memory manager error",
            8337,
        ),
        (
            'E1121 03:01:20.000000    8337 run.go:74] "command failed" err="no such flag"\n',
            "error",
            "command failed: no such flag",
            8337,
        ),
        (
            "F1121 03:01:20.000000    8337 server.go:274] failed to run Kubelet: swap is on\n"
            + STACK,
            "fatal",
            "failed to run Kubelet: swap is on",
            8337,
        ),
        (
            "F1121 03:01:20.000000    8337 transport.go:108] It has been 5m0s\n" + STACK,
            "fatal",
            "It has been 5m0s",
            8337,
        ),
        (
            "panic: runtime error: index out of range [1] with length 1\n\n[signal SIGSEGV]\n"
            + STACK,
            "panic",
            "panic: runtime error: index out of range [1] with length 1",
            8337,
        ),
        (
            "fatal error: concurrent map writes\n" + STACK,
            "panic",
            "fatal error: concurrent map writes",
            8337,
        ),
        (
            "Error: failed to parse kubelet flag: unknown flag: --network-plugin\n"
            "Usage:\n  kubelet [flags]\n",
            "error",
            "Error: failed to parse kubelet flag: unknown flag: --network-plugin",
            None,
        ),
        ("panic: at the disco\nnothing else\n", None, "", None),
        ("Error: failed to pull image\n", None, "", None),
    ],
)
@pytest.mark.parametrize("carrier", ["", CARRIER])
def test_a_kubelet_that_ends_by_itself(
    tmp_path: Path, carrier: str, last: str, reason: str | None, message: str, pid: int | None
) -> None:
    """By klog's error or Fatal, a panic, or a command line that it does not understand.

    Its stack is understood with it, and it is what the next start follows from.
    """
    text = log_text() + last + log_text(pid=8400, first=30)
    log = tmp_path / "kubelet.log"
    log.write_text("".join(carrier + line for line in text.splitlines(keepends=True)))
    ledger = Ledger.create(tmp_path / "ledger")
    import_sources([str(log)], ledger)
    records = list(ledger.records("node-x"))
    ends = [record for record in records if isinstance(record.body, KubeletExited)]
    starts = [record for record in records if isinstance(record.body, KubeletStarted)]
    if reason is None:
        assert not ends
        return
    (end,) = ends
    assert values(end.body, "reason", "message", "pid") == (reason, message, pid)
    assert [start.cause for start in starts] == [None, end.seq]
    assert not any(isinstance(record.body, LinesNotUnderstood) for record in records)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("kubelet.service: Main process exited, code=killed, status=9/KILL", "signal"),
        ("kubelet.service: Main process exited, code=exited, status=1/FAILURE", "error"),
        ("Stopping kubelet.service - kubelet: The Kubernetes Node Agent...", "stopped"),
        ("kubelet.service: Deactivated successfully.", None),
    ],
)
@pytest.mark.parametrize("last", ["", 'E1121 03:01:20.0 8337 run.go:74] "command failed"\n'])
def test_systemd_tells_of_a_kubelet_that_said_nothing(
    tmp_path: Path, last: str, said: str, reason: str | None
) -> None:
    """Of one that said why, it tells no more."""
    last = last.replace("20.0", "20.000000")
    lines = [CARRIER + line for line in (log_text() + last).splitlines(keepends=True)]
    lines += [CARRIER.replace("kubelet[8337]", "systemd[1]") + said + "\n"] * 2
    lines += [CARRIER + line for line in log_text(pid=8400, first=30).splitlines(keepends=True)]
    log = tmp_path / "kubelet.log"
    log.write_text("".join(lines))
    ledger = Ledger.create(tmp_path / "ledger")
    import_sources([str(log)], ledger)
    ends = [r.body for r in ledger.records("node-x") if isinstance(r.body, KubeletExited)]
    reported = "error" if last else reason
    assert [values(end, "reason", "pid") for end in ends] == (
        [(reported, 8337)] if reported else []
    )


@pytest.mark.parametrize(("clock", "linked"), [("10:00:00.1", True), ("10:00:02.1", False)])
def test_a_kubelet_that_gives_up_over_a_state_file(clock: str, linked: bool) -> None:
    """It follows from the refusal that was told just before."""
    message = '"Invalid state, please drain node and remove policy state file" err="x"'
    log = [
        klog("10:00:00.0", "policy_static.go", message),
        klog(clock, "kubelet.go", '"Failed to start ContainerManager" err="x"'),
    ]
    facts = ingest_lines(world(), log)
    (refusal,), (ended,) = facts_of(facts, MemoryStateRefused), facts_of(facts, KubeletExited)
    assert ended.cause is (refusal if linked else None)
