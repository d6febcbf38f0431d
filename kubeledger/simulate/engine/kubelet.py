"""One simulated kubelet process, and what the parts of a simulation see of one another.

Loops hold no references to each other: they meet in ``Kubelet``, by the names below, and know of
one another what the protocols here say. What a process remembers is gone with it (device manager
state comes back from its checkpoint); the world stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

from kubeledger.kubelet.allocation.state import State
from kubeledger.kubelet.devicemanager import manager
from kubeledger.kubelet.dra.claiminfo import ClaimInfoCache
from kubeledger.kubelet.imagepull.image_manager import Attempt
from kubeledger.kubelet.kuberuntime.kuberuntime_manager import BackedOff
from kubeledger.kubelet.kuberuntime.objects import PodActions
from kubeledger.kubelet.prober.objects import Result
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.kubelet.topologymanager.scope import HintProvider
from kubeledger.model.bodies.devicemanager import AllocationFailed
from kubeledger.model.bodies.lifecycle import PodEvicted
from kubeledger.model.bodies.prober import ProbeCountersRead, ProbeType
from kubeledger.simulate.engine.ending import Ending
from kubeledger.simulate.engine.failures import Failures
from kubeledger.simulate.engine.journal import EventRecorder, Journal, Told
from kubeledger.simulate.engine.machine import Machine
from kubeledger.simulate.engine.plan import Plan
from kubeledger.simulate.engine.schedule import Action, Draws, Schedule, Timer
from kubeledger.simulate.engine.world import (
    DeviceCheckpoint,
    End,
    Instance,
    SimContainer,
    SimPod,
    World,
)


class Runtime(Protocol):
    """The container runtime: ``runtime.Runtime``."""

    killed: dict[str, End]
    died: dict[str, int]
    on_change: Callable[[str], None]

    def instances(self, uid: str) -> tuple[Instance, ...]: ...
    def pods(self) -> tuple[str, ...]: ...
    def running(self, uid: str) -> tuple[Instance, ...]: ...
    def sandboxes_fail(self) -> bool: ...
    def hook_fails(self, pod: SimPod, instance: Instance) -> bool: ...
    def start(self, pod: SimPod, container: SimContainer | None) -> Instance: ...
    def stop_times_ns(self, pod: SimPod, grace_ns: int) -> list[int]: ...
    def stop(self, pod: SimPod, instance: Instance, grace_ns: int) -> int: ...
    def kill(self, pod: SimPod, instance: Instance) -> None: ...
    def forget(self, uid: str, keep: int = 0) -> None: ...


class Memory(Protocol):
    """What processes hold: ``memory.Memory``."""

    kills: dict[str, int]

    def used_bytes(self, container_id: str) -> int: ...
    def ask(self, pod: SimPod) -> None: ...
    def started(self, pod: SimPod, container: SimContainer | None, instance: Instance) -> None: ...
    def ended(self, container_id: str) -> None: ...


class Agent(Protocol):
    """What writes down lists, files and counters: ``agent.Agent``."""

    def container_made(self, container_id: str, name: str | None) -> None: ...
    def last_look(self, pod: SimPod) -> None: ...
    def look_at_node(self, kubelet: Kubelet) -> None: ...


class ApiServer(Protocol):
    """The kubelets' connection to the API server: ``health.ApiServer``."""

    def when_there(self, action: Action) -> None: ...


class Plugin(manager.Plugin, Protocol):
    """A device plugin: ``plugins.SimPlugin``."""

    resource: str
    up: bool

    def devices(self) -> tuple[manager.Device, ...]:
        """Its list as it would send it now."""


class Simulation(Protocol):
    """What every part sees of the whole: ``sim.Sim``."""

    plan: Plan
    schedule: Schedule
    journal: Journal
    draws: Draws
    failures: Failures
    world: World
    settings: dict[str, Any]
    profile: KubeletProfile
    machine: Machine
    checkpoint: DeviceCheckpoint | None
    cpu_manager_state: str | None
    memory_manager_state: str | None
    allocated: State
    claims: ClaimInfoCache
    offered: dict[str, SimPod]
    newest_kubelet: Kubelet

    @property
    def runtime(self) -> Runtime:
        """The container runtime."""

    @property
    def memory(self) -> Memory:
        """What processes hold."""

    @property
    def agent(self) -> Agent:
        """What writes down lists, files and counters."""

    @property
    def api_server(self) -> ApiServer:
        """What pods of the API come from."""

    @property
    def plugins(self) -> Sequence[Plugin]:
        """Device plugins."""

    def setting(self, name: str) -> Any:  # noqa: ANN401 # any JSON value
        """The value of a setting; None for one that is not set."""

    def running_kubelet(self) -> Kubelet | None:
        """The kubelet, if its loops run."""


class BackOffs(Protocol):
    """Restarts that wait: ``backoffs.BackOffs``."""

    def hold(self, pod: SimPod, container: str, exited: Instance | None) -> BackedOff | None: ...
    def write(self, pod: SimPod, container: SimContainer, held: BackedOff) -> None: ...


class Pulls(Protocol):
    """The image manager: ``pulls.Pulls``."""

    def request(self, pod: SimPod, image: str, policy: str) -> Attempt: ...
    def finish(self, attempt: Attempt) -> None: ...
    def collected(self, began_ns: int) -> None: ...


class Worker(Protocol):
    """What syncs one pod: ``worker.PodWorker``."""

    def end(self, ending: Ending) -> None: ...
    def when_ended(self, resume: Callable[[], None]) -> None: ...


class Pods(Protocol):
    """Pods that come, run and go: ``pods.PodLoop``."""

    sources_ready: bool

    @property
    def back_offs(self) -> BackOffs: ...
    @property
    def pulls(self) -> Pulls: ...
    def start(self) -> None: ...
    def arrive(self, pod: SimPod) -> None: ...
    def delete(self, pod: SimPod) -> None: ...
    def update(self, pod: SimPod) -> None: ...
    def sync(self, pod: SimPod, cause: int | None) -> None: ...
    def worker(self, pod: SimPod) -> Worker: ...
    def published(self, pod: SimPod) -> tuple[Instance, ...]: ...
    def hold(self, task: Callable[[], Iterator[Any]]) -> None: ...
    def listed_ns(self) -> int: ...
    def evict(
        self, pod: SimPod, body: PodEvicted, reason: str, cause: int | None, *, grace_s: int = 0
    ) -> int: ...


class Devices(Protocol):
    """Device manager: ``devices.DeviceLoop``."""

    def start(self) -> None: ...
    def plugin_registers(self, plugin: Plugin) -> None: ...
    def plugin_sends(self, plugin: Plugin) -> None: ...
    def plugin_stopped(self, plugin: Plugin) -> None: ...
    def capacity(self) -> Mapping[str, str]: ...
    def status_allocatable(self) -> Mapping[str, str]: ...
    def listed(self) -> dict[str, str]: ...
    def provider(self, pod: SimPod) -> DeviceProvider: ...


class DeviceProvider(HintProvider, Protocol):
    """The device manager while one pod is admitted: ``devices.Provider``."""

    shortages: list[AllocationFailed]


class Cpus(HintProvider, Protocol):
    """The CPU manager: ``cpus.CpuLoop``."""

    def start(self) -> None: ...


class NumaMemory(HintProvider, Protocol):
    """The memory manager: ``numa_memory.NumaMemoryLoop``."""

    def start(self) -> None: ...
    def container_created(
        self, pod: SimPod, container: SimContainer, container_id: str
    ) -> None: ...


class Probes(Protocol):
    """Probe workers: ``probes.ProbeLoop``."""

    def add_pod(self, pod: SimPod) -> None: ...
    def stop_liveness_and_startup(self, pod: SimPod) -> None: ...
    def remove_pod(self, pod: SimPod) -> None: ...
    def container_changed(self, pod: SimPod, container: SimContainer) -> None: ...
    def update_status(self, pod: SimPod) -> None: ...
    def results(self, probe_type: ProbeType) -> dict[str, Result]: ...
    def transition(self, probe_type: ProbeType, container_id: str) -> int | None: ...
    def counters(self) -> Iterator[ProbeCountersRead]: ...
    def flush(self) -> None: ...


class Images(Protocol):
    """Image garbage collection: ``images.ImageLoop``."""

    stats_ready: bool

    def start(self) -> None: ...
    def delete_unused(self, cause: int | None) -> int: ...


class Cgroups(Protocol):
    """Cgroups of node, pods and containers: ``cgroups.CgroupLoop``."""

    @property
    def pods_memory_bytes(self) -> int: ...

    def start(self) -> None: ...
    def pod_synced(self, pod: SimPod, cause: int | None) -> None: ...
    def memory_limits(self, pod: SimPod) -> tuple[int | None, int | None]: ...
    def pod_resized(self, pod: SimPod, names: Collection[str]) -> None: ...
    def pod_killed(self, cause: int | None = None) -> None: ...
    def pod_gone(self, pod: SimPod) -> None: ...
    def container_created(
        self, pod: SimPod, container: SimContainer | None, container_id: str
    ) -> None: ...
    def container_cgroup(self, pod: SimPod, container_id: str) -> str: ...
    def container_removed(self, pod: SimPod, container_id: str) -> None: ...
    def oom_score_adj(self, pod: SimPod, name: str) -> int: ...
    def kills_all(self, pod: SimPod, name: str) -> bool: ...


class Eviction(Protocol):
    """The eviction manager: ``eviction.EvictionLoop``."""

    def start(self) -> None: ...
    def refusal(self, pod: SimPod) -> tuple[str, str] | None: ...


class Health(Protocol):
    """Runtime, network and node status: ``health.HealthLoop``."""

    network_error: str | None

    def start(self) -> None: ...


class Resizes(Protocol):
    """Resizes in place: ``resizes.ResizeLoop``."""

    def start(self) -> None: ...
    def added(self, pod: SimPod, cause: int) -> None: ...
    def updated(self, pod: SimPod, cause: int) -> None: ...
    def reconciled(self, pod: SimPod) -> None: ...
    def removed(self, pod: SimPod) -> None: ...
    def synced(self, pod: SimPod) -> None: ...
    def cause(self, pod: SimPod) -> int | None: ...
    def actuate(self, pod: SimPod, actions: PodActions) -> bool: ...
    def started(self, pod: SimPod, name: str) -> None: ...


class Claims(Protocol):
    """Resource claims: ``claims.ClaimLoop``."""

    def start(self) -> None: ...
    def prepare(self, pod: SimPod) -> str: ...
    def unprepare(self, pod: SimPod, cause: int | None) -> str: ...


class Shutdown(Protocol):
    """The shutdown manager: ``shutdown.ShutdownLoop``."""

    def begin(self) -> None: ...
    def refusal(self) -> tuple[str, str] | None: ...


class Kubelet:
    """A kubelet process.

    Attributes:
        run: 0 for the first process.
        alive: False once it was stopped; its timers do nothing any more.
        recorder: what it remembers of events that it sent.
        told: what it says again and again.
    """

    devices: Devices
    cpus: Cpus
    numa_memory: NumaMemory
    pods: Pods
    probes: Probes
    images: Images
    cgroups: Cgroups
    claims: Claims
    eviction: Eviction
    health: Health
    resizes: Resizes
    shutdown: Shutdown

    def __init__(self, sim: Simulation, run: int) -> None:
        self.sim = sim
        self.run = run
        self.started_ns = sim.schedule.now_ns
        self.alive = True
        self.recorder = EventRecorder(sim.journal, lambda: sim.schedule.now_ns)
        self.told = Told(sim.journal, lambda: sim.schedule.now_ns)

    def after(self, delay_ns: int, action: Callable[[], None]) -> Timer:
        """Do something after a delay, if the process still runs then."""
        return self.sim.schedule.after(delay_ns, lambda: action() if self.alive else None)

    def every(
        self, period_ns: int, action: Callable[[], None], *, first_ns: int | None = None
    ) -> None:
        """Do something repeatedly while the process runs."""

        def again() -> None:
            self.after(period_ns, again)
            action()

        self.after(period_ns if first_ns is None else first_ns, again)

    def stop(self) -> None:
        """The process ends; containers continue."""
        self.probes.flush()
        self.told.end()
        self.alive = False
