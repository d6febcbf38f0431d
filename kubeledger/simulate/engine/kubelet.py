"""One simulated kubelet process: where its loops meet.

What a process remembers is gone with it (device manager state comes back from its checkpoint);
the world stays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
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


class Part:
    """A part of the node, which knows what is around it."""

    def __init__(self, sim: Sim) -> None:
        self._sim, self._clock, self._journal = sim, sim.schedule, sim.journal


class Loop(Part):
    """A part of one kubelet process."""

    def __init__(self, kubelet: Kubelet) -> None:
        super().__init__(kubelet.sim)
        self._kubelet = kubelet


# Something that takes virtual time: steps, and what is waited for between them.

Resume = Callable[[], None]
Waiting = Callable[[Resume], None]
"""Takes what is to be called when the waiting is over."""

Steps = Iterator["int | Waiting"]
"""Yields nanoseconds to wait, or something that says when to continue."""

Task = Callable[[], "Steps | None"]
"""Something that is done at once, or in steps."""


def run(kubelet: Kubelet, steps: Steps, done: Resume | None = None) -> None:
    """Go through steps until the process ends; then, where they ended by themselves, ``done``."""

    def step() -> None:
        if not kubelet.alive:
            return
        for wait in steps:
            if isinstance(wait, int):
                kubelet.after(wait, step)
            else:
                wait(_once(step))
            return
        if done is not None:
            done()

    step()


def at_most(kubelet: Kubelet, wait_ns: int, waiting: Waiting) -> Waiting:
    """Wait for something, for some time at most."""

    def wait(resume: Resume) -> None:
        once = _once(resume)
        waiting(once)
        kubelet.after(wait_ns, once)

    return wait


def _once(resume: Resume) -> Resume:
    called = False

    def call() -> None:
        nonlocal called
        if not called:
            called = True
            resume()

    return call


class SyncLoop(Loop):
    """The kubelet's one loop for config, PLEG and probe results: one thing after the other.

    An admission that kills others delays everything after it.
    """

    def __init__(self, kubelet: Kubelet) -> None:
        super().__init__(kubelet)
        self._queue: deque[Task] = deque()
        self._busy = False

    def put(self, task: Task) -> None:
        """Do something when all before it is done; at once if nothing is."""
        self._queue.append(task)
        if not self._busy:
            self._busy = True
            self._next()

    def _next(self) -> None:
        if not self._queue:
            self._busy = False
        elif self._kubelet.alive:
            run(self._kubelet, self._queue.popleft()() or iter(()), self._next)
