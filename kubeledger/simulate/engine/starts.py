"""What comes before a container of a pod runs: its image, its configuration, the runtime."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from kubeledger.kubelet.imagepull.image_manager import Attempt
from kubeledger.kubelet.imagepull.readings import decision_of, end_of
from kubeledger.kubelet.lifecycle.stage_words import status_message
from kubeledger.kubelet.lifecycle.stages import failure_of_waiting
from kubeledger.simulate.engine.failures import env_sources
from kubeledger.simulate.engine.kubelet import Kubelet
from kubeledger.simulate.engine.plan import Failing
from kubeledger.simulate.engine.world import SimContainer, SimPod

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

    Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_container.go startContainer; v1.20.2
    Differs: a container that the runtime cannot start leaves nothing.
    """

    def __init__(self, kubelet: Kubelet, pod: SimPod) -> None:
        self.reasons: dict[str, _Problem] = {}
        self._kubelet, self._pod = kubelet, pod

    def prepare(self, container: SimContainer) -> Generator[int, None, int]:
        """All up to the start; how many events that still sends, 0 if it cannot be."""
        name, image = container.name, self._pod.image(container.name)
        is_told = self._kubelet.sim.failures.names_image(image)
        events, pulls = _START_EVENTS, self._kubelet.pods.pulls
        attempt = pulls.request(self._pod, image, self._policy(container, image))
        journal, names = self._kubelet.sim.journal, {**self._pod.identity, "container": name}
        decided = decision_of(attempt, names)
        begun = None
        if decided is not None and (decided.decision != "present" or is_told):
            begun = journal.write(decided)
        told, wait_ns = 0, attempt.finished_ns - self._kubelet.sim.schedule.now_ns
        if wait_ns:
            told = self._tell(container, attempt, 0)
            yield wait_ns
        if attempt.answer is not None:
            answer = attempt.answer
            pulls.finish(attempt)
            journal.write(end_of(attempt, answer, names), cause=begun)
        if attempt.error or told or is_told:
            self._tell(container, attempt, told)
            events -= 1
        if attempt.error:
            return self._failed(container, (attempt.error, attempt.message))
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

    def _policy(self, container: SimContainer, image: str) -> str:
        """As the API server fills it in."""
        tag = image.rpartition("/")[2].partition(":")[2]
        default = "IfNotPresent" if "@" in image or tag not in ("", "latest") else "Always"
        return str(self._spec(container).get("imagePullPolicy") or default)

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

    def _tell(self, container: SimContainer, attempt: Attempt, told: int) -> int:
        """Send the events of a pull after the first ``told``; how many are sent then."""
        for event in attempt.events[told:]:
            kind, reason, message = event.split(" ", 2)
            self._send(reason, message, container, warns=kind == "Warning")
        return len(attempt.events)

    def _send(
        self, reason: str, message: str, container: SimContainer, *, warns: bool = True
    ) -> None:
        self._kubelet.recorder.send(self._pod, reason, message, container.name, warns=warns)

    def _words(self, what: Failing, name: str = "") -> str | None:
        return self._kubelet.sim.failures.words(what, self._pod, name)

    def _spec(self, container: SimContainer) -> dict[str, Any]:
        lists = (self._pod.spec.get("initContainers") or (), self._pod.spec["containers"])
        return next(c for each in lists for c in each if c["name"] == container.name)
