"""A pod's way up to its sandbox, as a kubelet's syncs go it, and what holds it on the way."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

from kubeledger.kubelet.lifecycle.stage_words import NETWORK
from kubeledger.kubelet.lifecycle.stages import failure_of_event
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.kubelet import Kubelet
from kubeledger.simulate.engine.mounts import Mounts
from kubeledger.simulate.engine.plan import Failing
from kubeledger.simulate.engine.routine import Waiting
from kubeledger.simulate.engine.world import SimPod

RETRY_NS = 10 * NS_PER_S
"""A sync that failed is tried again after as long, and up to half more."""
_NETWORK_RETRY_NS = NS_PER_S
_NO_SANDBOX = (
    "rpc error: code = Unknown desc = failed to create containerd task: failed to create shim task"
)


class Way:
    """What one worker's syncs do before they start containers.

    Attributes:
        has_cgroup: the pod's cgroup is made.

    Source: v1.36.2 pkg/kubelet/kubelet.go SyncPod, pkg/kubelet/kuberuntime/kuberuntime_manager.go
        SyncPod; v1.20.2 syncPod
    """

    def __init__(self, kubelet: Kubelet, pod: SimPod) -> None:
        self.has_cgroup = False
        self._kubelet, self._pod = kubelet, pod
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
        if self._kubelet.sim.runtime.sandboxes_fail():
            self._send(event, f"{said}: {_NO_SANDBOX}")
            return False
        self._kubelet.told.passed(self._pod, "sandbox")
        return True

    def leave(self) -> None:
        """The pod is to be stopped, wherever it is."""
        self._mounts.give_up()
        self._kubelet.told.gone(self._pod)

    def _words(self, what: Failing, name: str = "") -> str | None:
        return self._kubelet.sim.failures.words(what, self._pod, name)

    def _send(self, event: str, text: str) -> None:
        self._kubelet.recorder.send(self._pod, event, text)

    def _fails(self, event: str, text: str, about: str | None = None) -> None:
        """Send an event, and tell of the stage that it is about."""
        self._send(event, text)
        failure = failure_of_event(event, text)
        assert failure is not None  # only events of stages are sent here
        self._kubelet.told.stage(self._pod, failure._replace(about=about or failure.about))
