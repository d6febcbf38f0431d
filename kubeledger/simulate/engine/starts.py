"""What comes before a container of a pod runs: volumes, sandbox, back-off, image, configuration."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial

from kubeledger.kubelet.imagepull.image_manager import Attempt
from kubeledger.kubelet.imagepull.readings import decision_of, end_of
from kubeledger.kubelet.kuberuntime.kuberuntime_manager import (
    BackedOff,
    back_off_policy,
    do_back_off,
    restart_backoff,
)
from kubeledger.kubelet.lifecycle.stages import (
    NETWORK,
    failure_of_event,
    failure_of_waiting,
    status_message,
    volume_not_mounted,
    volumes_not_mounted,
)
from kubeledger.model.bodies.lifecycle import RestartBackedOff
from kubeledger.model.units import NS_PER_MS, NS_PER_S
from kubeledger.simulate.engine.failures import env_sources, volume_sources
from kubeledger.simulate.engine.kubelet import Kubelet, Loop, Resume, Waiting, at_most
from kubeledger.simulate.engine.plan import Failing
from kubeledger.simulate.engine.world import Instance, SimContainer, SimPod

# The volumes of one pod, as one kubelet process mounts them, and the wait for them.
#
# Mounts go on beside the pod's syncs; one that succeeds does so at once.

_FIRST_NS, _LONGEST_NS = 500 * NS_PER_MS, 122 * NS_PER_S
_RECONCILE_NS, _POLL_NS = 100 * NS_PER_MS, 300 * NS_PER_MS
_WAIT_NS = 123 * NS_PER_S


class OfPod(Loop):
    """What a kubelet process does for one pod."""

    def __init__(self, kubelet: Kubelet, pod: SimPod) -> None:
        super().__init__(kubelet)
        self._pod = pod

    def _words(self, what: Failing, name: str = "") -> str | None:
        return self._sim.failures.words(what, self._pod, name)


class Mounts(OfPod):
    """What is mounted, and what is tried again.

    Source: v1.36.2 pkg/kubelet/volumemanager/volume_manager.go WaitForAttachAndMount;
        pkg/util/goroutinemap/exponentialbackoff/exponential_backoff.go; v1.20.2
    Differs: a volume that was mounted stays so.
    """

    def __init__(self, kubelet: Kubelet, pod: SimPod, failed: Callable[[str, str], None]) -> None:
        """Begin with nothing.

        Args:
            failed: is told what a mount that failed says, and of which volume.
        """
        super().__init__(kubelet, pod)
        self._failed = failed
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
            yield at_most(kubelet, _WAIT_NS, self._until_mounted)
            self._resume = None
            yield (began_ns - kubelet.sim.schedule.now_ns) % _POLL_NS
        if left := self._left(expected):
            return volumes_not_mounted(kubelet.sim.profile.stages, left, expected)
        return ""

    def give_up(self) -> None:
        """The pod is to be stopped."""
        self._given_up = True
        if self._resume is not None and self._sim.profile.stages.volume_wait_takes_context:
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
        words = (self._words(what, name) for what, name in volume_sources(source))
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


# A pod's way up to its sandbox, as a kubelet's syncs go it, and what holds it on the way.

RETRY_NS = 10 * NS_PER_S
"""A sync that failed is tried again after as long, and up to half more."""
_NETWORK_RETRY_NS = NS_PER_S
_NO_SANDBOX = (
    "rpc error: code = Unknown desc = failed to create containerd task: failed to create shim task"
)


class Way(OfPod):
    """What one worker's syncs do before they start containers.

    Source: v1.36.2 pkg/kubelet/kubelet.go SyncPod, pkg/kubelet/kuberuntime/kuberuntime_manager.go
        SyncPod; v1.20.2 syncPod
    """

    def __init__(self, kubelet: Kubelet, pod: SimPod) -> None:
        super().__init__(kubelet, pod)
        self.has_cgroup = False
        self._mounts = Mounts(kubelet, pod, partial(self._fails, "FailedMount"))

    def prepare(self, cause: int | None) -> Generator[int | Waiting, None, int | None]:
        """Network, cgroup and volumes; gives after how long to try again, None if all are there."""
        kubelet, pod = self._kubelet, self._pod
        network = kubelet.health.network_error
        if network is not None and not pod.spec.get("hostNetwork"):
            self._fails("NetworkNotReady", f"{NETWORK}: {network}")
            return _NETWORK_RETRY_NS
        kubelet.told.passed(pod, "network")
        if not self.has_cgroup:
            if (words := self._words("cgroup", f"pod{pod.uid}")) is not None:
                text = f"unable to ensure pod container exists: {words}"
                self._fails("FailedCreatePodContainer", text)
                return RETRY_NS
            kubelet.told.passed(pod, "cgroup")
            self.has_cgroup = True
            kubelet.cgroups.pod_synced(pod, cause)
        if error := (yield from self._mounts.wait()):
            # What a sync says besides is the same failure: its mounts have told why.
            if not kubelet.sim.profile.stages.volume_wait_takes_context:
                self._send("FailedMount", f"Unable to attach or mount volumes: {error}")
            return RETRY_NS
        kubelet.told.passed(pod, "volumes")
        return None

    def claims(self) -> bool:
        """Whether the pod's claims are prepared; where not, that is no error of the sync."""
        error = self._kubelet.claims.prepare(self._pod)
        if error:
            text = f"Failed to prepare dynamic resources: {error}"
            self._fails("FailedPrepareDynamicResources", text)
            return False
        self._kubelet.told.passed(self._pod, "resources")
        return True

    def sandbox(self) -> bool:
        """Whether the runtime can start one."""
        event, said = "FailedCreatePodSandBox", "Failed to create pod sandbox"
        words = self._words("runtime") or self._words("sandbox")
        if words is not None:
            self._fails(event, f"{said}: {words}")
            return False
        if self._sim.runtime.sandboxes_fail():
            self._send(event, f"{said}: {_NO_SANDBOX}")
            return False
        self._kubelet.told.passed(self._pod, "sandbox")
        return True

    def leave(self) -> None:
        """The pod is to be stopped, wherever it is."""
        self._mounts.give_up()
        self._kubelet.told.gone(self._pod)

    def _send(self, event: str, text: str) -> None:
        self._kubelet.recorder.send(self._pod, event, text)

    def _fails(self, event: str, text: str, about: str | None = None) -> None:
        """Send an event, and tell of the stage that it is about."""
        self._send(event, text)
        failure = failure_of_event(event, text)
        assert failure is not None  # only events of stages are sent here
        self._kubelet.told.stage(self._pod, failure._replace(about=about or failure.about))


# The restart back-offs of one kubelet process.

_HOUSEKEEPING_NS = 2 * NS_PER_S


class BackOffs(Loop):
    """What a kubelet process remembers of restarts."""

    def __init__(self, kubelet: Kubelet) -> None:
        super().__init__(kubelet)
        sim = kubelet.sim
        configured = sim.setting("crashLoopBackOff") or {}
        policy = back_off_policy(
            sim.profile.kuberuntime,
            sim.setting("featureGates") or {},
            configured.get("maxContainerRestartPeriod") or "300s",
        )
        assert policy is not None
        self._backoff = restart_backoff(policy, sim.profile.kuberuntime)

    def hold(self, pod: SimPod, container: str, exited: Instance | None) -> BackedOff | None:
        """Hold the start of a container back, or (None) count it; see ``do_back_off``.

        Args:
            exited: its newest instance that ended, as listed before the sync.
        """
        now_ns, started_ns = self._clock.now_ns, self._kubelet.started_ns
        # Only the last housekeeping matters: it dropped all that those before it did.
        self._backoff.gc(now_ns - (now_ns - started_ns) % _HOUSEKEEPING_NS)
        return do_back_off(
            self._backoff,
            # Another image is another container; resources do not change here.
            (pod.uid, container, pod.image(container)),
            container,
            f"{pod.name}_{pod.namespace}({pod.uid})",
            None if exited is None else exited.finished_ns,
            now_ns,
        )

    def write(self, pod: SimPod, container: SimContainer, held: BackedOff) -> None:
        """Record that a start was delayed, and send its event."""
        sim, newest = self._sim, container.container_id
        self._kubelet.recorder.spend(pod, 1)
        died, killed = sim.runtime.died.get(newest), sim.runtime.killed.get(newest)
        sim.journal.write(
            RestartBackedOff(
                **pod.identity, container=container.name, back_off_s=held.value_ns // NS_PER_S
            ),
            cause=died if died is not None else None if killed is None else killed.seq,
        )


_START_EVENTS = 3
"""Pulled, Created and Started."""
_BY_RUNTIME: Mapping[Failing, str] = {
    "create": "CreateContainerError",
    "start": "RunContainerError",
}
_Problem = tuple[str, str]
"""Reason and message of a container that waits."""


class Starts(OfPod):
    """The starts of the containers of one pod in one kubelet process.

    Attributes:
        reasons: container -> why its last start failed; what its status shows from the next
            sync on.

    Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_container.go startContainer; v1.20.2
    Differs: a container that the runtime cannot start leaves nothing.
    """

    def __init__(self, kubelet: Kubelet, pod: SimPod) -> None:
        super().__init__(kubelet, pod)
        self.reasons: dict[str, _Problem] = {}

    def prepare(self, container: SimContainer) -> Generator[int, None, int]:
        """All up to the start; how many events that still sends, 0 if it cannot be."""
        name, image = container.name, self._pod.image(container.name)
        is_told = self._sim.failures.names_image(image)
        events, pulls = _START_EVENTS, self._kubelet.pods.pulls
        attempt = pulls.request(self._pod, image, self._policy(container, image))
        journal, names = self._journal, {**self._pod.identity, "container": name}
        decided = decision_of(attempt, names)
        begun = None
        if decided is not None and (decided.decision != "present" or is_told):
            begun = journal.write(decided)
        told, wait_ns = 0, attempt.finished_ns - self._clock.now_ns
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
        hook = (self._pod.spec_of(container.name).get("lifecycle") or {}).get("postStart")
        words = self._words("hook", container.name) if hook else None
        if words is None:
            self._kubelet.told.passed(self._pod, "hook", container=container.name)
        return words

    def hook_failed(self, container: SimContainer, words: str) -> None:
        """The container was started, and is killed because of its hook."""
        self._wait(container, ("PostStartHookError", words))

    def _runtime(self, container: SimContainer) -> _Problem | None:
        """Why the runtime does not have the container, or not run it."""
        for what, name in env_sources(self._pod.spec_of(container.name)):
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
        return str(self._pod.spec_of(container.name).get("imagePullPolicy") or default)

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
