"""Pods that are stopped as a whole: why, with how much time, and what their kills say then."""

from pathlib import Path

import pytest

from kubeledger.ingest.api import import_sources
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.ledger import LinesNotUnderstood
from kubeledger.model.bodies.node import KubeletExited, KubeletStarted
from tests.ingest.node_files import log_text
from tests.ingest.pod_world import values
from tests.ingest.scenes import A, played_out

_POD = f'pod="shop/a" podUID="{A}"'
WORDS = {
    "worker": f'pod_workers.go "{{*}}" {_POD}',
    "naturally": 'pod_workers.go "Pod indicated lifecycle completed naturally and should now'
    f' terminate" podUID="{A}"',
    "given": f'kubelet.go "Pod terminating with grace period" {_POD} gracePeriod={{1}}',
    "KILLED": ".2 given 20 | .3 kill 1 20",
    "shutdown": 'nodeshutdown_manager_linux.go "Shutdown manager killing pod with gracePeriod" '
    f"{_POD} gracePeriod={{1}}",
    "newsandbox": 'kuberuntime_manager.go "Stopping PodSandbox for pod, will start new one" '
    'pod="shop/a"',
    "invalid": 'policy_static.go "Invalid state, please drain node and remove policy state file" '
    'err="x"',
    "givesup": 'kubelet.go "Failed to start ContainerManager" err="x"',
}
_WHY = (
    ("Pod is marked for graceful deletion, begin teardown", "deleted", "pod_deleted"),
    ("Pod is being removed by the kubelet, begin teardown", "removed", "pod_deleted"),
    ("Pod has been deleted and must be killed", "removed", "pod_deleted"),
    ("Pod is orphaned and must be torn down", "orphaned", "orphaned"),
    ("Pod is in a terminal phase (success/failed), begin teardown", "ended", "pod_ended"),
    ("Stopping PodSandbox for pod, because all other containers are dead", "ended", "pod_ended"),
)
SAID = "\n".join(
    f"""the worker says why: {message}
    ~ spec c
    .1 worker {message}
    KILLED
    = PodTerminating pod=a pod_uid=a reason={reason} grace_period_s=20 lines=1,2
    = ContainerKilled reason={kill} grace_period_s=20 <PodTerminating"""
    for message, reason, kill in _WHY
)

SCENES = f"""{SAID}
a worker that stops a pod for somebody else does not say why
    ~ spec c
    .1 worker Pod is being evicted by the kubelet, begin teardown
    KILLED
    = PodTerminating reason=killed grace_period_s=20 lines=1,2
    = ContainerKilled reason=None <None
a line that holds the UID alone, as since 1.27; no period was given
    ~ spec c
    .1 naturally | .2 given null | .3 kill 1 20
    = PodTerminating reason=ended grace_period_s=None
on a slow node the worker comes to it seconds later, and says then how long
    ~ spec c
    .1 worker Pod is marked for graceful deletion, begin teardown
    9 kill 1 2 | 20 given 2 | 20.1 given null
    = PodTerminating @0.1 reason=deleted grace_period_s=None
    = PodTerminating @20 reason=deleted grace_period_s=2 lines=3 <PodTerminating
the event of a deadline stands before the end
    ~ spec c
    0 event a DeadlineExceeded Pod was active on the node longer | .1 naturally | .3 kill 1 20
    = ContainerKilled reason=deadline_exceeded
the shutdown manager speaks before the worker; together they are one fact
    ~ spec c
    .1 shutdown 7 | .2 worker Pod is being evicted by the kubelet, begin teardown | .3 kill 1 20
    = PodTerminating reason=shutdown grace_period_s=7
    = ContainerKilled reason=node_shutdown
a worker that begins anew knows of no end: a static pod that comes back has its old UID
    ~ spec c
    .1 worker Pod is being removed by the kubelet, begin teardown
    10 worker Pod is being synced for the first time | 11 kill 1 20
    = ContainerKilled reason=None
a failed hook is in the message
    ~ spec c
    .3 kill 1 20 | .4 event:c a Killing FailedPostStartHook
    = ContainerKilled reason=post_start_hook
a new sandbox is in the line before
    ~ spec c
    .1 newsandbox | .3 kill 1 20
    = ContainerKilled reason=sandbox_changed
a kubelet that gives up over a state file: it follows from the refusal just before
    0 invalid | .1 givesup
    = KubeletExited <MemoryStateRefused
it does not follow from an old refusal
    0 invalid | 2.1 givesup
    = KubeletExited <None
"""

test_scene = played_out(SCENES, WORDS)

CARRIER = "Nov 21 03:01:20 node-x kubelet[8337]: "
STACK = "\ngoroutine 1 [running]:\nmain.main()\n\t/go/src/kubelet.go:43 +0x1d\n\nexit status 2\n"


@pytest.mark.parametrize(
    ("last", "reason", "message", "pid"),
    [
        ('E1121 03:01:20.000000    8337 kubelet.go:1556] "Failed to start ContainerManager" '
         'err="start memory manager error"\n', "error",
         "Failed to start ContainerManager: start memory manager error", 8337),
        ('E1121 03:01:20.000000    8337 run.go:74] "command failed" err="no such flag"\n', "error",
         "command failed: no such flag", 8337),
        ("F1121 03:01:20.000000    8337 server.go:274] failed to run Kubelet: swap is on\n" + STACK,
         "fatal", "failed to run Kubelet: swap is on", 8337),
        ("F1121 03:01:20.000000    8337 transport.go:108] It has been 5m0s\n" + STACK, "fatal",
         "It has been 5m0s", 8337),
        ("panic: runtime error: index out of range [1] with length 1\n\n[signal SIGSEGV]\n" + STACK,
         "panic", "panic: runtime error: index out of range [1] with length 1", 8337),
        ("fatal error: concurrent map writes\n" + STACK, "panic",
         "fatal error: concurrent map writes", 8337),
        ("Error: failed to parse kubelet flag: unknown flag: --network-plugin\nUsage:\n  kubelet "
         "[flags]\n", "error",
         "Error: failed to parse kubelet flag: unknown flag: --network-plugin", None),
        ("panic: at the disco\nnothing else\n", None, "", None),
        ("Error: failed to pull image\n", None, "", None),
    ],
)  # fmt: skip
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


@pytest.mark.parametrize("mark", ["...", "\N{HORIZONTAL ELLIPSIS}"])
@pytest.mark.parametrize("whole_first", [False, True])
def test_what_systemctl_shortened_is_told_whole(
    tmp_path: Path, mark: str, whole_first: bool
) -> None:
    """The same line stands there as ``systemctl status`` shows it, and whole."""
    line = 'F1121 03:01:20.000000 8337 server.go:274] failed to run Kubelet: {} "systemd"\n'
    lines = [line.format(f"misconf{mark}driver:"), line.format("misconfigured cgroup driver:")]
    log = tmp_path / "kubelet.log"
    log.write_text(log_text() + "".join(lines[::-1] if whole_first else lines))
    ledger = Ledger.create(tmp_path / "ledger")
    import_sources([str(log)], ledger)
    (end,) = [r.body for r in ledger.records("node-x") if isinstance(r.body, KubeletExited)]
    assert end.message == 'failed to run Kubelet: misconfigured cgroup driver: "systemd"'


def test_a_program_that_crashes_in_a_probe_is_not_the_kubelet(tmp_path: Path) -> None:
    """Its words go on in lines of their own, below the probe's line that begins with them."""
    probe = (
        'I1121 03:01:20.000000 8337 prober.go:117] Liveness probe for "a_b(u):c" failed (failure): '
    )
    crash = "SIGABRT: abort\nPC=0x7f m=0 sigcode=1\n\ngoroutine 0 [idle]:\nmain.main()\n"
    for said, is_end in (("runtime/cgo: pthread_create failed", False), ("no answer", True)):
        log = tmp_path / f"{is_end}.log"
        text = log_text() + probe + said + "\n" + crash
        log.write_text("".join(CARRIER + line for line in text.splitlines(keepends=True)))
        ledger = Ledger.create(tmp_path / f"ledger-{is_end}")
        import_sources([str(log)], ledger)
        assert any(isinstance(r.body, KubeletExited) for r in ledger.records("node-x")) == is_end
