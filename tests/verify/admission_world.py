"""Small scenes of admission: a node of ten CPUs' worth of millicores, pods and their turns."""

from collections.abc import Iterable
from typing import Any, cast

import msgspec

from kubeledger.model.bodies.eviction import InsufficientResource, PodPreempted
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerStarted,
    PodAdmitted,
    PodConfigChanged,
    PodListed,
    PodRejected,
)
from kubeledger.model.bodies.node import NodeObserved, SettingsObserved
from kubeledger.model.record import Body, Record
from kubeledger.verify import Contradiction, Finding, Outcome, Variant
from kubeledger.verify.rules.admission.rule import AdmissionVerifier
from kubeledger.verify.rules.disputes import SourceDisputes
from kubeledger.verify.rules.evictions.rule import EvictionVerifier
from tests.verify.histories import at_work, kubelet_of, outcomes, scene, settings_told

CRITICAL = 2_000_000_000
Step = tuple[float, Body]


def settings_of(**settings: Any) -> SettingsObserved:  # noqa: ANN401 # any JSON value
    """Settings of a node that reserves nothing, and others."""
    known: dict[str, Any] = {
        "systemReserved": {},
        "kubeReserved": {},
        "evictionHard": {},
        "evictionSoft": {},
        "evictionMinimumReclaim": {},
        "evictionPressureTransitionPeriod": "5m0s",
        "maxPods": 10,
        "podsPerCore": 0,
        **settings,
    }
    return settings_told({name: value for name, value in known.items() if value is not None})


def start(version: str | None = "1.36.2", *, whole: bool = True, **settings: Any) -> list[Step]:  # noqa: ANN401 # any JSON value
    """A kubelet on one CPU and a gibibyte."""
    return [
        (0, kubelet_of(version, from_start=whole)),
        (0.1, NodeObserved(cpus=1, memory_capacity_bytes=1 << 30)),
        (0.2, settings_of(**settings)),
    ]


def identity(name: str) -> dict[str, Any]:
    return {"namespace": "ns", "pod": name, "pod_uid": f"uid-{name}"}


def asks(cpu: str | None = None, memory: str | None = None, **more: str) -> dict[str, Any]:
    """A container that requests some amounts."""
    wanted = {"cpu": cpu, "memory": memory, **more}
    requests = {name.replace("__", "/"): q for name, q in wanted.items() if q is not None}
    return {"name": "c", "resources": {"requests": requests} if requests else {}}


def listed(
    name: str,
    *containers: dict[str, Any],
    at: float = 900,
    created_s: int | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,  # noqa: ANN401 # any field of a spec
) -> Step:
    """A list shows the pod, by default at the end."""
    whole = {"containers": list(containers) or [asks()], "nodeName": "node-t", **spec}
    return at, PodListed(
        namespace="ns",
        pod=name,
        pod_uid=f"uid-{name}",
        created_ts_ns=None if created_s is None else created_s * 1_000_000_000,
        spec=whole,
        status=status or {},
        listed_by="kubelet",
    )


def add(name: str, at: float, source: str = "api") -> Step:
    return at, PodConfigChanged(**identity(name), operation="ADD", source=source)


def admitted(name: str, at: float, source: str = "api") -> list[Step]:
    return [
        add(name, at, source),
        (at + 0.01, PodAdmitted(namespace="ns", pod=name, pod_uid=f"uid-{name}")),
    ]


def refused(name: str, at: float, reason: str, message: str) -> list[Step]:
    body = PodRejected(**identity(name), reason=reason, message=message)
    return [add(name, at), (at + 0.01, body)]


def ran(name: str, at: float) -> Step:
    who = identity(name)
    return at, ContainerStarted(
        namespace=who["namespace"],
        pod=name,
        pod_uid=who["pod_uid"],
        container="c",
        container_id=f"id-{name}",
        sandbox=False,
    )


def died(name: str, at: float, exit_code: int | None = 0) -> Step:
    who = identity(name)
    return at, ContainerDied(
        namespace=who["namespace"],
        pod=name,
        pod_uid=who["pod_uid"],
        container="c",
        container_id=f"id-{name}",
        sandbox=False,
        exit_code=exit_code,
    )


def preempted(
    victim: str,
    preemptor: str | None,
    at: float,
    *missing: tuple[str, int],
    evicted: bool | None = True,
) -> Step:
    """A victim is killed for a preemptor."""
    named = preemptor is not None
    return at, PodPreempted(
        victim_namespace="ns",
        victim_pod=victim,
        victim_uid=f"uid-{victim}",
        preemptor_namespace="ns" if named else None,
        preemptor_pod=preemptor,
        preemptor_uid=f"uid-{preemptor}" if named else None,
        insufficient=tuple(InsufficientResource(resource=r, quantity=q) for r, q in missing),
        evicted=evicted,
    )


def judge(*steps: Step | Iterable[Step], variant: Variant | None = None) -> list[Outcome]:
    """Outcomes of a scene, with this subject's verifier only."""
    flat: list[Step] = []
    for step in steps:
        if isinstance(step, tuple) and step and isinstance(step[0], int | float):
            flat.append(cast(Step, step))
        else:
            flat.extend(cast(Iterable[Step], step))
    flat.sort(key=lambda step: step[0])
    return alone(_one_line_a_turn(scene(*flat)), variant)


def _one_line_a_turn(records: list[Record]) -> list[Record]:
    """Pods that are handed over at one instant stand in one line."""
    iterations: dict[int, Record] = {}
    return [
        msgspec.structs.replace(r, evidence=iterations.setdefault(r.ts_ns, r).evidence)
        if isinstance(r.body, PodConfigChanged)
        else r
        for r in records
    ]


def alone(
    records: list[Record] | tuple[Record, ...], variant: Variant | None = None
) -> list[Outcome]:
    """All outcomes of this subject's verifier."""
    with at_work(AdmissionVerifier, EvictionVerifier, SourceDisputes):
        found = outcomes(records, variant or Variant())
    kinds = {kind.kind for kind in AdmissionVerifier.decides}
    return [o for o in found if isinstance(o, Contradiction) or o.kind in kinds]


def findings_of(found: list[Outcome], name: str) -> list[Finding]:
    subject = f"pod/ns/{name}"
    return [o for o in found if isinstance(o, Finding) and o.subject == subject]
