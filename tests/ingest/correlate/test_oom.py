"""One kill a process, whichever of the kernel and the kubelet tells of it."""

from typing import Any

from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.oom import OomAssembler
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.sources.items import KernelReport, PodList
from kubeledger.ingest.sources.times import Stamp
from kubeledger.model.bodies.eviction import OutOfMemory, ProcessKilled
from kubeledger.model.record import Body, Evidence
from kubeledger.model.units import NS_PER_S
from tests.ingest.feeding import items_of
from tests.ingest.pieces import feed_log

UID, ID = "19b6a7ed-dfaf-4690-8d5f-8f9ff3d01e18", "3" * 64
POD = f"kubepods/burstable/pod{UID}"
TEN_NS = 1_795_255_200 * NS_PER_S
EVENT = (
    'event.go:1] "Event occurred" object="n" kind="Node" type="Warning" reason="SystemOOM" '
    'message="System OOM encountered, victim process: lab, pid: {}"'
)
ROOT = (
    'manager.go:1] Created an OOM event in container "/" at 2026-11-21 10:00:{:02d}.5 +0000 UTC '
    "m=+9.5"
)


def report(at_s: float, pid: int, cgroup: str = POD) -> KernelReport:
    """The kernel's, of a process in the pod's container."""
    return KernelReport(
        file="kernel.log",
        host="n",
        stamp=Stamp("utc", 0),
        ts_ns=TEN_NS + int(at_s * NS_PER_S),
        evidence=(Evidence(file="kernel.log", text=str(pid)),),
        process="lab",
        pid=pid,
        cgroup=f"/{cgroup}",
        task_cgroup=f"/{POD}/{ID}",
        constraint="memcg",
    )


def kills(*lines: tuple[float, str], **given: Any) -> list[ProcessKilled]:  # noqa: ANN401 # of `told`
    return [body for body in told(*lines, **given) if isinstance(body, ProcessKilled)]


def told(
    *lines: tuple[float, str], reports: tuple[KernelReport, ...] = (), booted_s: float | None = None
) -> list[Body]:
    """What a log and the kernel's reports come to."""
    context = BundleContext(node="n", kernel_reports={"kernel.log": list(reports)})
    if booted_s is not None:
        context.kernel_boots.append(TEN_NS + int(booted_s * NS_PER_S))
    assembler = OomAssembler(Registers(context))
    text = "".join(f"I1121 10:00:{at:09.6f}       7 {line}\n" for at, line in lines)
    facts = [*feed_log(assembler, text), *assembler.finish(TEN_NS + 60 * NS_PER_S)]
    return [fact.body for fact in facts]


def test_a_process_of_which_the_kernel_tells_more() -> None:
    """CAdvisor did not read the kernel's lines: the kubelet takes it for the node's memory."""
    (kill,) = kills((5.4, ROOT.format(5)), (5.5, EVENT.format(5367)), reports=(report(6.5, 5367),))
    assert (kill.reason, kill.pod_uid, kill.cgroup) == ("pod_limit", UID, POD)
    assert (kill.container_id, kill.pid) == (ID, 5367)


def test_a_kubelet_that_starts_tells_of_it_again() -> None:
    """Long after, with the time of its own line."""
    lines = ((5.5, EVENT.format(5367)), (50, EVENT.format(5367)))
    assert len(kills(*lines, reports=(report(6.5, 5367),))) == 1
    assert len(kills(*lines)) == 1


def test_the_limit_of_all_pods_is_not_the_nodes_memory() -> None:
    (kill,) = kills((5.5, EVENT.format(8)), reports=(report(5.4, 8, "kubepods"),))
    assert (kill.reason, kill.cgroup) == (None, "kubepods")


def test_swap_that_is_used_up_is_no_shortage() -> None:
    """On cgroup v2 without swap it always is; what had come to its limit is the memory, or not."""
    for used, at_limit in ((60, True), (30, False)):
        known = report(6.5, 8)
        known.usages |= {"memory": (used << 20, 60 << 20), "swap": (0, 0)}
        (shortage,) = (
            b for b in told((5.5, EVENT.format(8)), reports=(known,)) if isinstance(b, OutOfMemory)
        )
        assert shortage.at_limit is at_limit


def test_a_process_of_the_boot_before_is_another() -> None:
    (kill,) = kills((50, EVENT.format(8)), reports=(report(5.4, 8),), booted_s=30)
    assert (kill.reason, kill.pod_uid) == ("node", None)


def test_without_the_kernels_log_the_kubelet_is_believed() -> None:
    """Its event and cAdvisor's line are one kill, whichever comes first."""
    (kill,) = kills((5.4, ROOT.format(5)), (5.5, EVENT.format(8)))
    assert (kill.reason, kill.process, kill.pid) == ("node", "lab", 8)
    (kill,) = kills((5.4, EVENT.format(8)), (5.5, ROOT.format(5)))
    assert (kill.reason, kill.pid) == ("node", 8)


def test_a_time_alone_is_a_kill() -> None:
    """CAdvisor's line, and nothing that says whose."""
    (kill,) = kills((5.5, ROOT.format(5)))
    assert (kill.reason, kill.pid, kill.pod) == (None, None, None)


def test_a_status_ahead_of_the_log_holds_nothing_up() -> None:
    """The clock was set back since: its end lies an hour ahead."""
    assembler = OomAssembler(Registers(BundleContext(node="n")))
    ended = {"reason": "OOMKilled", "finishedAt": "2026-11-21T11:00:00Z", "exitCode": 137}
    state = {"terminated": {**ended, "containerID": f"containerd://{ID}"}}
    pod = {"status": {"containerStatuses": [{"name": "app", "state": state}]}}
    listed = PodList(TEN_NS, "kubelet", [pod], True, Evidence(file="pods.json"))
    items_of(assembler)[PodList](listed)
    assert not assembler.queue.release(TEN_NS + 4 * NS_PER_S)
    (kill,) = assembler.queue.release(TEN_NS + 6 * NS_PER_S)
    assert kill.ts_ns == TEN_NS + 3600 * NS_PER_S
    assert assembler.queue.is_empty
