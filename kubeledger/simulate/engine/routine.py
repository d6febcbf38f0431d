"""Something that takes virtual time: steps, and what is waited for between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from kubeledger.simulate.engine.kubelet import Kubelet

Resume = Callable[[], None]
Waiting = Callable[[Resume], None]
"""Takes what is to be called when the waiting is over."""

Steps = Iterator["int | Waiting"]
"""Yields nanoseconds to wait, or something that says when to continue."""


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


def first_of(*waits: Waiting) -> Waiting:
    """Wait for whichever comes first."""

    def wait(resume: Resume) -> None:
        once = _once(resume)
        for each in waits:
            each(once)

    return wait


def timeout(kubelet: Kubelet, wait_ns: int) -> Waiting:
    """Wait for some time."""

    def wait(resume: Resume) -> None:
        kubelet.after(wait_ns, resume)

    return wait


def _once(resume: Resume) -> Resume:
    called = False

    def call() -> None:
        nonlocal called
        if not called:
            called = True
            resume()

    return call


class SyncLoop:
    """The kubelet's one loop for config, PLEG and probe results: one thing after the other.

    An admission that kills others delays everything after it.
    """

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
        self._queue: deque[Callable[[], Steps]] = deque()
        self._busy = False

    def put(self, task: Callable[[], Steps]) -> None:
        """Do something when all before it is done; at once if nothing is."""
        self._queue.append(task)
        if not self._busy:
            self._busy = True
            self._next()

    def _next(self) -> None:
        if self._queue:
            run(self._kubelet, self._queue.popleft()(), self._next)
        else:
            self._busy = False
