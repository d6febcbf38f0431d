"""One simulated kubelet process: where its loops meet.

What a process remembers is gone with it (device manager state comes back from its checkpoint);
the world stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kubeledger.simulate.engine.journal import EventRecorder, Told
from kubeledger.simulate.engine.schedule import Timer

if TYPE_CHECKING:
    from kubeledger.simulate.engine.cgroups import CgroupLoop
    from kubeledger.simulate.engine.devices import DeviceLoop
    from kubeledger.simulate.engine.eviction import EvictionLoop
    from kubeledger.simulate.engine.health import HealthLoop, ShutdownLoop
    from kubeledger.simulate.engine.images import ImageLoop
    from kubeledger.simulate.engine.pods import PodLoop
    from kubeledger.simulate.engine.probes import ProbeLoop
    from kubeledger.simulate.engine.resizes import ResizeLoop
    from kubeledger.simulate.engine.resource_managers import ClaimLoop, CpuLoop, NumaMemoryLoop
    from kubeledger.simulate.engine.sim import Sim


class Kubelet:
    """A kubelet process.

    Attributes:
        run: 0 for the first process.
        alive: False once it was stopped; its timers do nothing any more.
        recorder: what it remembers of events that it sent.
        told: what it says again and again.
    """

    devices: DeviceLoop
    cpus: CpuLoop
    numa_memory: NumaMemoryLoop
    pods: PodLoop
    probes: ProbeLoop
    images: ImageLoop
    cgroups: CgroupLoop
    claims: ClaimLoop
    eviction: EvictionLoop
    health: HealthLoop
    resizes: ResizeLoop
    shutdown: ShutdownLoop

    def __init__(self, sim: Sim, run: int) -> None:
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
