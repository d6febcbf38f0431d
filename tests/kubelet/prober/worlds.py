"""Small pods, statuses and workers for tests of the prober."""

from kubeledger.kubelet.prober.objects import (
    Container,
    ContainerStatus,
    Pod,
    PodMeta,
    PodSpec,
    PodStatus,
    Probe,
    Results,
    Running,
    State,
    Terminated,
)
from kubeledger.kubelet.prober.worker import ProbeWorker, Step, do_probe, new_worker
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.model.bodies.prober import ProbeType
from kubeledger.model.units import NS_PER_S, parse_ts

KUBELET_START = "2026-01-05T08:00:00Z"
KUBELET_START_NS = parse_ts(KUBELET_START)
PROBE = Probe(success_threshold=1, failure_threshold=3)
RUNNING = State(running=Running(KUBELET_START))
ENDED = State(terminated=Terminated(1))


def facts_of(version: str = "1.36.2") -> ProberFacts:
    return resolve(version).prober


def container(
    name: str = "app", *, restart_policy: str | None = None, probe: Probe = PROBE
) -> Container:
    return Container(
        name=name,
        restart_policy=restart_policy,
        liveness_probe=probe,
        readiness_probe=probe,
        startup_probe=probe,
    )


def pod(
    *containers: Container,
    init: tuple[Container, ...] = (),
    restart_policy: str = "Always",
    deleted: bool = False,
    uid: str = "u",
) -> Pod:
    """A pod; one container ``app`` unless told."""
    return Pod(
        metadata=PodMeta(uid=uid, deletion_timestamp=KUBELET_START if deleted else None),
        spec=PodSpec(
            containers=list(containers) or [container()],
            init_containers=list(init),
            restart_policy=restart_policy,
        ),
    )


def status(
    state: State = RUNNING,
    *,
    container_id: str = "c://1",
    started: bool | None = True,
    phase: str = "Running",
    init: bool = False,
    name: str = "app",
) -> PodStatus:
    statuses = [ContainerStatus(name, container_id, state, started=started)]
    return PodStatus(
        phase=phase,
        container_statuses=None if init else statuses,
        init_container_statuses=statuses if init else None,
    )


def worker(
    probe_type: ProbeType = "liveness",
    version: str = "1.36.2",
    *,
    of: Pod | None = None,
    probe: Probe = PROBE,
    sidecar: bool = False,
) -> ProbeWorker:
    """A worker of ``app`` that has seen nothing."""
    probed = container(probe=probe, restart_policy="Always" if sidecar else None)
    if of is None:
        main = container("main")
        of = pod(main, init=(probed,)) if sidecar else pod(probed)
    made = new_worker(of, probed, probe_type, Results(), facts_of(version), KUBELET_START_NS)
    assert made is not None
    return made


def step(one: ProbeWorker, seen: PodStatus | None, *attempts: str, after_s: float = 100) -> Step:
    """One step, some seconds after the kubelet started."""
    now_ns = KUBELET_START_NS + round(after_s * NS_PER_S)
    return do_probe(one, seen, now_ns, attempts)  # type: ignore[arg-type]  # short rows
