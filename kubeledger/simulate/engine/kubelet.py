"""One simulated kubelet process: its memory, its loops, and how they reach each other.

Loops hold no references to each other: they meet here, by the names below. What a process
remembers is gone with it (device manager state comes back from its checkpoint); the world stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kubeledger.simulate.engine.recorder import EventRecorder
from kubeledger.simulate.engine.schedule import Timer

if TYPE_CHECKING:
    from kubeledger.simulate.engine.cgroups import CgroupLoop
    from kubeledger.simulate.engine.devices import DeviceLoop
    from kubeledger.simulate.engine.eviction import EvictionLoop
    from kubeledger.simulate.engine.images import ImageLoop
    from kubeledger.simulate.engine.pods import PodLoop
    from kubeledger.simulate.engine.probes import ProbeLoop
    from kubeledger.simulate.engine.shutdown import ShutdownLoop
    from kubeledger.simulate.engine.sim import Sim

__all__ = ["Kubelet"]


class Kubelet:
    """A kubelet process.

    Attributes:
        sim: the simulation: world, clock, journal, profile, settings, draws.
        run: 0 for the first process.
        started_ns: when it began.
        alive: False once it was stopped; its timers do nothing any more.
        recorder: what it remembers of events that it sent.
        devices, pods, probes, images, cgroups, eviction, shutdown: its loops.
    """

    devices: DeviceLoop
    pods: PodLoop
    probes: ProbeLoop
    images: ImageLoop
    cgroups: CgroupLoop
    eviction: EvictionLoop
    shutdown: ShutdownLoop

    def __init__(self, sim: Sim, run: int) -> None:
        self.sim = sim
        self.run = run
        self.started_ns = sim.schedule.now_ns
        self.alive = True
        self.recorder = EventRecorder(sim.journal, lambda: sim.schedule.now_ns)

    def after(self, delay_ns: int, action: Callable[[], None]) -> Timer:
        """Do something in a while, if the process still lives then."""
        return self.sim.schedule.after(delay_ns, lambda: action() if self.alive else None)

    def every(
        self, period_ns: int, action: Callable[[], None], *, first_ns: int | None = None
    ) -> None:
        """Do something again and again while the process lives."""

        def again() -> None:
            self.after(period_ns, again)
            action()

        self.after(period_ns if first_ns is None else first_ns, again)

    def stop(self) -> None:
        """The process ends; containers go on."""
        self.probes.flush()
        self.alive = False
