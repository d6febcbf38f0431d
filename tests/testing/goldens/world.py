"""A node on which golden scenes play: its settings, its pods, and time that goes on."""

from typing import Any

import msgspec

from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerStarted,
    PodAdmitted,
    PodConfigChanged,
    PodListed,
    PodTerminated,
)
from kubeledger.model.bodies.node import KubeletStarted, NodeObserved, Setting, SettingsObserved
from kubeledger.model.record import Body
from kubeledger.testing.scene import Scene

GIB = 2**30
MIB = 2**20
CRITICAL = 2_000_001_000
"""Priority of ``system-node-critical``."""

SETTINGS: dict[str, Any] = {
    "cgroupDriver": "cgroupfs",
    "cgroupsPerQOS": True,
    "cpuCFSQuota": True,
    "cpuCFSQuotaPeriod": "100ms",
    "cpuManagerPolicy": "none",
    "crashLoopBackOff": {"maxContainerRestartPeriod": "5m0s"},
    "enforceNodeAllocatable": ["pods"],
    "evictionHard": {"imagefs.available": "5%", "memory.available": "100Mi"},
    "evictionMinimumReclaim": {},
    "evictionPressureTransitionPeriod": "5m0s",
    "evictionSoft": {},
    "featureGates": {},
    "imageGCHighThresholdPercent": 80,
    "imageGCLowThresholdPercent": 70,
    "imageMaximumGCAge": "0s",
    "imageMinimumGCAge": "2m0s",
    "kubeReserved": {},
    "maxPods": 110,
    "podPidsLimit": -1,
    "podsPerCore": 0,
    "qosReserved": {},
    "systemReserved": {},
    "topologyManagerPolicy": "none",
    "topologyManagerPolicyOptions": {},
    "topologyManagerScope": "container",
}


class World(Scene):
    """A scene with a clock of its own and pods that are known by name.

    Attributes:
        now: seconds since the start; each record is a tenth of a second after the one before.
        version: the kubelet's.
    """

    def __init__(
        self,
        version: str = "1.36.2",
        *,
        cpus: int = 4,
        memory_bytes: int = 8 * GIB,
        numa: tuple[int, ...] = (0,),
        labels: dict[str, str] | None = None,
        taints: tuple[dict[str, str], ...] = (),
        capacity: dict[str, str] | None = None,
        **settings: Any,  # noqa: ANN401 # any JSON value
    ) -> None:
        super().__init__(version, node="node-1")
        self.version = version
        self.now = 0.0
        # As a log shows them that begins with the kubelet's flags.
        reported = {
            name: Setting(value=msgspec.json.encode(value).decode(), source="flag")
            for name, value in {**SETTINGS, **settings}.items()
        }
        self.add(SettingsObserved(settings=reported), after=0)
        self.add(
            NodeObserved(
                cpus=cpus,
                memory_capacity_bytes=memory_bytes,
                numa_nodes=numa,
                labels=labels or {},
                taints=taints,
                capacity=capacity,
            )
        )

    def add(self, body: Body, *, cause: int | None = None, after: float = 0.1) -> int:
        """Add a record some seconds after the last one; its seq."""
        self.now = round(self.now + after, 3)
        return self.at(self.now, body, cause=cause)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now = round(self.now + seconds, 3)

    def restart(self) -> int:
        """Another kubelet process begins, with the same settings."""
        settings = next(r.body for r in self.records if r.kind == "node.SettingsObserved")
        seq = self.add(
            KubeletStarted(
                pid=2, kubelet_version=self.version, version_source="option", restart=True
            )
        )
        self.add(settings)
        return seq

    # -- pods --------------------------------------------------------------------------------

    def of(self, name: str) -> dict[str, Any]:
        """Identity of a pod."""
        return {"namespace": "default", "pod": name, "pod_uid": f"uid-{name}"}

    def handed(self, name: str) -> int:
        """The kubelet gets the pod."""
        return self.add(PodConfigChanged(**self.of(name), operation="ADD", source="api"))

    def listed(
        self,
        name: str,
        *containers: dict[str, Any],
        init: tuple[dict[str, Any], ...] = (),
        status: dict[str, Any] | None = None,
        annotations: dict[str, str] | None = None,
        **spec: Any,  # noqa: ANN401 # any field of a spec
    ) -> int:
        """A list shows the pod."""
        whole: dict[str, Any] = {
            "containers": list(containers) or [container()],
            "nodeName": self.node,
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            **spec,
        }
        if init:
            whole["initContainers"] = list(init)
        return self.add(
            PodListed(
                **self.of(name),
                annotations=annotations or {"kubernetes.io/config.source": "api"},
                created_ts_ns=self._start_ts_ns,
                spec=whole,
                status=status or {"phase": "Running"},
                listed_by="kubelet",
            )
        )

    def pod(self, name: str, *containers: dict[str, Any], **fields: Any) -> int:  # noqa: ANN401 # as `listed`
        """A pod is handed over, let in, and listed; the seq of its admission."""
        self.handed(name)
        admitted = self.add(PodAdmitted(**self.of(name)))
        self.listed(name, *containers, **fields)
        return admitted

    def started(self, name: str, number: int = 1, container: str = "app") -> str:
        """A container of the pod runs; its ID."""
        container_id = f"{name}-{container}-{number}"
        self.add(
            ContainerStarted(
                **self.of(name), container=container, container_id=container_id, sandbox=False
            )
        )
        return container_id

    def died(self, name: str, container_id: str, exit_code: int = 0, container: str = "app") -> int:
        """It does no longer."""
        return self.add(
            ContainerDied(
                **self.of(name),
                container=container,
                container_id=container_id,
                sandbox=False,
                exit_code=exit_code,
            )
        )

    def ended(self, name: str) -> int:
        """The pod is gone."""
        return self.add(PodTerminated(**self.of(name)))


def container(name: str = "app", **fields: Any) -> dict[str, Any]:  # noqa: ANN401 # any field
    """A container of a spec."""
    return {"name": name, "image": f"{name}:1", **fields}


def requests(
    cpu: str | None = None, memory: str | None = None, *, limits: bool = False
) -> dict[str, Any]:
    """Resources of a container; with ``limits`` the same amounts as limits."""
    amounts = {name: q for name, q in (("cpu", cpu), ("memory", memory)) if q is not None}
    return {"requests": amounts, "limits": amounts} if limits else {"requests": amounts}
