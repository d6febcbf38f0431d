"""The volumes of one pod, as one kubelet process mounts them, and the wait for them.

Mounts go on beside the pod's syncs; one that succeeds does so at once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from kubeledger.kubelet.lifecycle.stage_words import volume_not_mounted, volumes_not_mounted
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.failures import volume_sources
from kubeledger.simulate.engine.kubelet import Kubelet
from kubeledger.simulate.engine.routine import Resume, Waiting, first_of, timeout
from kubeledger.simulate.engine.world import SimPod

_MS = 1_000_000
_FIRST_NS, _LONGEST_NS = 500 * _MS, 122 * NS_PER_S
_RECONCILE_NS, _POLL_NS = 100 * _MS, 300 * _MS
_WAIT_NS = 123 * NS_PER_S


class Mounts:
    """What is mounted, and what is tried again.

    Source: v1.36.2 pkg/kubelet/volumemanager/volume_manager.go WaitForAttachAndMount;
        pkg/util/goroutinemap/exponentialbackoff/exponential_backoff.go; v1.20.2
    Differs: a volume that was mounted stays so.
    """

    def __init__(self, kubelet: Kubelet, pod: SimPod, failed: Callable[[str, str], None]) -> None:
        """Begin with nothing.

        Args:
            kubelet: the process.
            pod: whose volumes.
            failed: is told what a mount that failed says, and of which volume.
        """
        self._kubelet, self._pod, self._failed = kubelet, pod, failed
        self._trying: set[str] = set()
        self._mounted: set[str] = set()
        self._resume: Resume | None = None
        self._given_up = False

    def wait(self) -> Generator[int | Waiting, None, str]:
        """Mount what the containers use, and wait for it; gives the error of a wait in vain."""
        kubelet, expected = self._kubelet, self._expected()
        for volume in expected:
            if volume not in self._mounted | self._trying:
                self._try(volume, 0)
        if self._left(expected):
            began_ns = kubelet.sim.schedule.now_ns
            yield first_of(self._until_mounted, timeout(kubelet, _WAIT_NS))
            self._resume = None
            yield (began_ns - kubelet.sim.schedule.now_ns) % _POLL_NS
        if left := self._left(expected):
            return volumes_not_mounted(kubelet.sim.profile.stages, left, expected)
        return ""

    def give_up(self) -> None:
        """The pod is to be stopped."""
        self._given_up = True
        if self._resume is not None and self._kubelet.sim.profile.stages.volume_wait_takes_context:
            self._resume()

    def _expected(self) -> list[str]:
        spec = self._pod.spec
        used = {
            each.get("name")
            for container in (*(spec.get("initContainers") or ()), *spec["containers"])
            for key in ("volumeMounts", "volumeDevices")
            for each in container.get(key) or ()
        }
        return sorted(str(v["name"]) for v in spec.get("volumes") or () if v.get("name") in used)

    def _left(self, expected: list[str]) -> list[str]:
        return [volume for volume in expected if volume not in self._mounted]

    def _until_mounted(self, resume: Resume) -> None:
        self._resume = resume

    def _try(self, volume: str, waited_ns: int) -> None:
        if self._given_up:
            return
        source = next(v for v in self._pod.spec["volumes"] if v.get("name") == volume)
        words = (
            self._kubelet.sim.failures.words(what, self._pod, name)
            for what, name in volume_sources(source)
        )
        error = next((each for each in words if each is not None), None)
        if error is None:
            self._trying.discard(volume)
            self._mounted.add(volume)
            if self._resume is not None and not self._trying:
                self._resume()
            return
        self._trying.add(volume)
        self._failed(volume_not_mounted(volume, error), volume)
        wait_ns = min(2 * waited_ns or _FIRST_NS, _LONGEST_NS)
        again_ns = wait_ns + _RECONCILE_NS
        self._kubelet.after(again_ns, lambda: self._try(volume, wait_ns))
