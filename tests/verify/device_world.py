"""A node with one device plugin, step by step, for tests of device verification."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from kubeledger.model.bodies.devicemanager import (
    AllocationFailed,
    AllocationRequested,
    CheckpointEntry,
    CheckpointRead,
    DevicesAllocated,
    DevicesReleased,
    DevicesReported,
    PluginRegistered,
)
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    PodConfigChanged,
    PodListed,
    PodTerminated,
)
from kubeledger.model.bodies.node import NodeObserved
from kubeledger.model.bodies.resourcemanagers import AffinityDecided, Hint, HintsGenerated
from kubeledger.model.record import Body, Record
from kubeledger.verify import RECORDED, Contradiction, Finding, Outcome, Variant
from kubeledger.verify.rules.devices.rule import DeviceVerifier
from tests.verify.histories import at_work, kubelet_of, outcomes, scene, settings_told

GPU = "example.com/gpu"
IDS = ("gpu-0", "gpu-1", "gpu-2", "gpu-3")


def hint(*nodes: int, preferred: bool = True) -> Hint:
    """A hint for these nodes; none: any."""
    return Hint(numa_nodes=nodes or None, preferred=preferred)


def device_outcomes(records: list[Record], variant: Variant = RECORDED) -> list[Outcome]:
    """All outcomes with no other verifier at work."""
    with at_work(DeviceVerifier):
        return outcomes(records, variant)


class Node:
    """Steps of a scene; each step is a tenth of a second behind the one before."""

    def __init__(
        self,
        version: str | None = "1.36.2",
        policy: str | None = "none",
        numa: tuple[int, ...] | None = (0,),
        **settings: Any,  # noqa: ANN401 # any JSON value
    ) -> None:
        self.steps: list[tuple[float, Body]] = []
        self.causes: dict[int, int] = {}
        self.now = 0.0
        self.version, self.settings = version, dict(settings)
        if policy is not None:
            self.settings["topologyManagerPolicy"] = policy
        self.start()
        if numa is not None:
            self.add(NodeObserved(numa_nodes=numa))

    def add(self, body: Body, *, at: float | None = None, cause: int | None = None) -> int:
        """Append a record; returns its seq."""
        self.now = self.now + 0.1 if at is None else at
        self.steps.append((self.now, body))
        if cause is not None:
            self.causes[len(self.steps)] = cause
        return len(self.steps)

    def start(self, *, restart: bool = False, from_start: bool = True) -> int:
        body = kubelet_of(self.version, restart=restart, from_start=from_start)
        seq = self.add(body)
        self.add(settings_told(self.settings))
        return seq

    def plugin(self) -> int:
        """The plugin registers and sends its list."""
        self.add(PluginRegistered(resource=GPU))
        count = len(IDS)
        return self.add(DevicesReported(resource=GPU, total=count, healthy=count, device_ids=IDS))

    def pod(self, name: str, *containers: tuple[str, int, str], added: bool = True) -> None:
        """A pod is listed (and added); a container is (name, limit, ``app|init|sidecar``)."""
        spec: dict[str, Any] = {"containers": [], "initContainers": [], "restartPolicy": "Always"}
        for container, limit, role in containers:
            one: dict[str, Any] = {"name": container, "resources": {"limits": {GPU: str(limit)}}}
            if role == "sidecar":
                one["restartPolicy"] = "Always"
            spec["containers" if role == "app" else "initContainers"].append(one)
        if added:
            self.add(
                PodConfigChanged(
                    namespace="ns", pod=name, pod_uid=f"uid-{name}", operation="ADD", source="api"
                )
            )
        self.add(
            PodListed(
                namespace="ns",
                pod=name,
                pod_uid=f"uid-{name}",
                spec=spec,
                status={"phase": "Running"},
                listed_by="kubelet",
            )
        )

    def hints(self, name: str, container: str | None, **hints: tuple[Hint, ...] | None) -> int:
        """Hints for devices; ``gpu=`` stands for the resource."""
        given = {GPU if key == "gpu" else key: value for key, value in hints.items()}
        return self.add(HintsGenerated(**_of(name), container=container, hints=given))

    def affinity(
        self,
        name: str,
        container: str | None,
        merged: Hint,
        cause: int | None,
        **fields: Any,  # noqa: ANN401 # any field
    ) -> int:
        given = {"admit": True, "policy": self.settings.get("topologyManagerPolicy"), **fields}
        body = AffinityDecided(**_of(name), container=container, hint=merged, **given)
        return self.add(body, cause=cause)

    def ask(self, name: str, container: str = "c", needed: int = 1) -> int:
        return self.add(
            AllocationRequested(**_of(name), container=container, resource=GPU, needed=needed)
        )

    def grant(
        self,
        name: str,
        *ids: str,
        container: str = "c",
        ask: bool = True,
        at: float | None = None,
        **fields: Any,  # noqa: ANN401 # any field
    ) -> int:
        """The container asks, and gets devices."""
        cause = self.ask(name, container, len(ids)) if ask else None
        body = DevicesAllocated(
            **_of(name), container=container, resource=GPU, device_ids=tuple(sorted(ids)), **fields
        )
        return self.add(body, at=at, cause=cause)

    def refuse(self, name: str, needed: int, error: str, **fields: Any) -> int:  # noqa: ANN401 # any field
        """The container asks, and is refused."""
        cause = self.ask(name, "c", needed) if needed else None
        given = {"container": "c", "resource": GPU, **fields}
        return self.add(AllocationFailed(**_of(name), error=error, **given), cause=cause)

    def short(self, name: str, requested: int, available: int, needed: int | None = None) -> int:
        error = (
            f"requested number of devices unavailable for {GPU}. "
            f"Requested: {requested}, Available: {available}"
        )
        return self.refuse(
            name,
            requested if needed is None else needed,
            error,
            requested=requested,
            available=available,
        )

    def release(self, name: str, **fields: Any) -> int:  # noqa: ANN401 # any field
        """The pod's devices are given back."""
        return self.add(DevicesReleased(pod_uid=f"uid-{name}", **fields))

    def end(self, name: str) -> int:
        return self.add(PodTerminated(**_of(name)))

    def live_on(self, name: str) -> int:
        """A container of the pod dies, ten seconds later: till then the pod lived."""
        body = ContainerDied(**_of(name), container="c", container_id="x")
        return self.add(body, at=self.now + 10)

    def checkpoint(
        self,
        entries: Mapping[tuple[str, str], Mapping[str, tuple[str, ...]]],
        *,
        sound: bool = True,
        resources: Collection[str] = (GPU,),
    ) -> int:
        """A checkpoint is read; (pod, container) -> NUMA node -> IDs."""
        return self.add(
            CheckpointRead(
                entries=tuple(
                    CheckpointEntry(
                        pod_uid=f"uid-{pod}", container=container, resource=GPU, numa=dict(numa)
                    )
                    for (pod, container), numa in sorted(entries.items())
                ),
                registered=dict.fromkeys(resources, IDS),
                checksum=1,
                checksum_ok=sound,
            )
        )

    def records(self) -> list[Record]:
        return [
            msgspec.structs.replace(record, cause=self.causes.get(record.seq))
            for record in scene(*self.steps)
        ]

    def outcomes(self, variant: Variant = RECORDED) -> list[Outcome]:
        return device_outcomes(self.records(), variant)

    def finding(self, seq: int, variant: Variant = RECORDED) -> Finding:
        return next(
            outcome
            for outcome in self.outcomes(variant)
            if not isinstance(outcome, Contradiction)
            and outcome.seq == seq
            and outcome.recorded is not None
        )

    def contradictions(self) -> list[Contradiction]:
        return [outcome for outcome in self.outcomes() if isinstance(outcome, Contradiction)]


def _of(name: str) -> dict[str, Any]:
    return {"namespace": "ns", "pod": name, "pod_uid": f"uid-{name}"}
