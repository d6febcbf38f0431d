"""What comes before a container of a pod runs: its image, its configuration, the runtime."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from kubeledger.kubelet.kuberuntime.backoff import Backoff, BackOffPolicy
from kubeledger.kubelet.lifecycle.stage_words import (
    image_name_error,
    pull_back_off,
    pull_failure,
    pulled,
    status_message,
)
from kubeledger.kubelet.lifecycle.stages import failure_of_waiting
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.failures import env_sources
from kubeledger.simulate.engine.kubelet import Kubelet
from kubeledger.simulate.engine.plan import Failing
from kubeledger.simulate.engine.world import SimContainer, SimImage, SimPod

_PULL_NS = NS_PER_S
_IMAGE_BYTES = 100 << 20
_START_EVENTS = 3
"""Pulled, Created and Started."""
_BY_RUNTIME: Mapping[Failing, str] = {
    "create": "CreateContainerError",
    "start": "RunContainerError",
}
_Problem = tuple[str, str]
"""Reason and message of a container that waits."""


class Starts:
    """The starts of the containers of one pod in one kubelet process.

    Attributes:
        reasons: container -> why its last start failed; what its status shows from the next
            sync on.

    Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_container.go startContainer,
        pkg/kubelet/images/image_manager.go EnsureImageExists; v1.20.2
    Differs: a pull takes a second. A container that the runtime cannot start leaves nothing.
    """

    def __init__(self, kubelet: Kubelet, pod: SimPod) -> None:
        self.reasons: dict[str, _Problem] = {}
        self._kubelet, self._pod = kubelet, pod
        policy = BackOffPolicy(10 * NS_PER_S, 300 * NS_PER_S)
        self._back_off = Backoff(policy, kubelet.sim.profile.kuberuntime)
        self._pulls: dict[str, tuple[int, str]] = {}

    def prepare(self, container: SimContainer) -> Generator[int, None, int]:
        """All up to the start; how many events that still sends, 0 if it cannot be."""
        name, image = container.name, self._pod.image(container.name)
        events = _START_EVENTS
        if self._kubelet.sim.failures.names_image(image):
            was_there = image in self._kubelet.sim.world.images
            if (problem := (yield from self._ensure(container, image))) is not None:
                return self._failed(container, problem)
            events -= not was_there
        elif image not in self._kubelet.sim.world.images:
            self._never(container, image)
            self._send("Failed", "Error: ErrImageNeverPull", container)
            return 0
        elif (words := self._words("runtime")) is not None:
            return self._failed(container, self._not_inspected(container, image, words))
        self._kubelet.told.passed(self._pod, "image", container=name)
        if (problem := self._runtime(container)) is not None:
            return self._failed(container, problem)
        self._kubelet.told.passed(self._pod, "create", "start", container=name)
        self.reasons.pop(name, None)
        return events

    def hook_failure(self, container: SimContainer) -> str | None:
        """What the post-start hook that has just been run says; None if all is well."""
        hook = (self._spec(container).get("lifecycle") or {}).get("postStart")
        words = self._words("hook", container.name) if hook else None
        if words is None:
            self._kubelet.told.passed(self._pod, "hook", container=container.name)
        return words

    def hook_failed(self, container: SimContainer, words: str) -> None:
        """The container was started, and is killed because of its hook."""
        self._wait(container, ("PostStartHookError", words))

    def _runtime(self, container: SimContainer) -> _Problem | None:
        """Why the runtime does not have the container, or not run it."""
        for what, name in env_sources(self._spec(container)):
            if (words := self._words(what, name)) is not None:
                return "CreateContainerConfigError", words
        for what, reason in _BY_RUNTIME.items():
            if (words := self._words(what, container.name)) is not None:
                return reason, status_message(words)
        return None

    # -- images ----------------------------------------------------------------------------

    def _ensure(self, container: SimContainer, image: str) -> Generator[int, None, _Problem | None]:
        """Have an image that can fail to be pulled."""
        world, facts = self._kubelet.sim.world, self._kubelet.sim.profile.stages
        if (error := image_name_error(facts, image)) is not None:
            self._send("InspectFailed", error, container)
            return "InvalidImageName", error
        if (words := self._words("runtime")) is not None:
            return self._not_inspected(container, image, words)
        policy = self._policy(container, image)
        if policy == "Never" and image not in world.images:
            if self._words("image", image) is not None:
                return self._never(container, image)
            self._load(image)  # by whoever else, as nobody pulls it
        if policy != "Always" and image in world.images:
            return None
        return (yield from self._pull(container, image))

    def _policy(self, container: SimContainer, image: str) -> str:
        """As the API server fills it in."""
        tag = image.rpartition("/")[2].partition(":")[2]
        default = "IfNotPresent" if "@" in image or tag not in ("", "latest") else "Always"
        return str(self._spec(container).get("imagePullPolicy") or default)

    def _pull(self, container: SimContainer, image: str) -> Generator[int, None, _Problem | None]:
        facts, schedule = self._kubelet.sim.profile.stages, self._kubelet.sim.schedule
        if image in self._pulls:
            failed_ns, cause = self._pulls[image]
            if self._back_off.is_in_back_off_since(image, failed_ns, schedule.now_ns):
                event, message = pull_back_off(facts, image, cause)
                self._send("BackOff", event, container, warns=False)
                return "ImagePullBackOff", message
        self._send("Pulling", f'Pulling image "{image}"', container, warns=False)
        yield _PULL_NS
        if (words := self._words("image", image)) is None:
            self._load(image)
            self._kubelet.told.passed(self._pod, "image", container=container.name)
            text = pulled(facts, image, _PULL_NS, self._kubelet.sim.world.images[image].size_bytes)
            self._send("Pulled", text, container, warns=False)
            self._back_off.gc(schedule.now_ns)
            return None
        self._send("Failed", f'Failed to pull image "{image}": {words}', container)
        self._back_off.next(image, schedule.now_ns, schedule.now_ns)
        problem = pull_failure(facts, image, words)
        self._pulls[image] = (schedule.now_ns, ": ".join(problem))
        return problem

    def _load(self, image: str) -> None:
        draws = self._kubelet.sim.draws.stream(f"image/{image}")
        digits = "".join(f"{draws.bits():016x}" for _ in range(4))
        images = self._kubelet.sim.world.images
        made = SimImage(name=image, image_id=f"sha256:{digits}", size_bytes=_IMAGE_BYTES)
        images.setdefault(image, made)

    def _never(self, container: SimContainer, image: str) -> _Problem:
        """An image that is not there, and is not pulled."""
        text = f'Container image "{image}" is not present with pull policy of Never'
        self._send("ErrImageNeverPull", text, container)
        return "ErrImageNeverPull", text

    def _not_inspected(self, container: SimContainer, image: str, error: str) -> _Problem:
        text = f'Failed to inspect image "{image}": {error}'
        self._send("InspectFailed", text, container)
        return "ImageInspectError", text

    # -- what is told ----------------------------------------------------------------------

    def _failed(self, container: SimContainer, problem: _Problem) -> int:
        """Tell of it, in an event, too; no more are sent."""
        reason, message = problem
        of_image = failure_of_waiting(reason, message)
        words = reason if of_image and of_image.stage == "image" else message
        self._send("Failed", f"Error: {words}", container)
        self._wait(container, problem)
        return 0

    def _wait(self, container: SimContainer, problem: _Problem) -> None:
        self.reasons[container.name] = problem
        failure = failure_of_waiting(*problem, container.name)
        assert failure is not None  # all reasons here are those of stages
        self._kubelet.told.stage(self._pod, failure)

    def _send(
        self, reason: str, message: str, container: SimContainer, *, warns: bool = True
    ) -> None:
        self._kubelet.recorder.send(self._pod, reason, message, container.name, warns=warns)

    def _words(self, what: Failing, name: str = "") -> str | None:
        return self._kubelet.sim.failures.words(what, self._pod, name)

    def _spec(self, container: SimContainer) -> dict[str, Any]:
        lists = (self._pod.spec.get("initContainers") or (), self._pod.spec["containers"])
        return next(c for each in lists for c in each if c["name"] == container.name)
