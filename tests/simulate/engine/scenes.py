"""Plans of small nodes for tests, and what verification finds in their records."""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, parse_ts
from kubeledger.simulate.engine.plan import (
    ContainerScript,
    ImageArrival,
    NodePlan,
    Plan,
    PlannedPod,
)
from kubeledger.simulate.engine.sim import Sim
from kubeledger.verify.finding import Finding, Outcome, Violation
from kubeledger.verify.run import verify

VERSIONS = ("1.20.2", "1.36.2")
GIB = 1 << 30
IMAGE = ImageArrival(name="registry.local/app:1", image_id="sha256:" + "a" * 64, size_bytes=5 << 20)

SETTINGS: dict[str, Any] = {
    "cgroupDriver": "cgroupfs",
    "cgroupsPerQOS": True,
    "cpuCFSQuota": True,
    "cpuCFSQuotaPeriod": "100ms",
    "cpuManagerPolicy": "none",
    "crashLoopBackOff": {"maxContainerRestartPeriod": "5m0s"},
    "enforceNodeAllocatable": ["pods"],
    "evictionHard": {"memory.available": "100Mi", "nodefs.available": "10%"},
    "evictionMaxPodGracePeriod": 0,
    "evictionMinimumReclaim": {},
    "evictionPressureTransitionPeriod": "5m0s",
    "evictionSoft": {},
    "evictionSoftGracePeriod": {},
    "featureGates": {},
    "imageGCHighThresholdPercent": 85,
    "imageGCLowThresholdPercent": 80,
    "imageMaximumGCAge": "0s",
    "imageMinimumGCAge": "2m0s",
    "kubeReserved": {"cpu": "200m", "memory": "256Mi"},
    "maxPods": 110,
    "nodeStatusUpdateFrequency": "10s",
    "podPidsLimit": -1,
    "podsPerCore": 0,
    "qosReserved": {},
    "registerWithTaints": [],
    "reservedSystemCPUs": "",
    "systemReserved": {"cpu": "100m"},
    "topologyManagerPolicy": "none",
    "topologyManagerScope": "container",
}


def container(
    name: str = "app",
    requests: dict[str, str] | None = None,
    limits: dict[str, str] | None = None,
    **more: Any,  # noqa: ANN401 # any field of the API
) -> dict[str, Any]:
    resources = {"requests": requests, "limits": limits}
    return {
        "name": name,
        "image": IMAGE.name,
        "resources": {key: value for key, value in resources.items() if value},
        **more,
    }


def planned(
    name: str,
    *containers: dict[str, Any],
    at_s: float = 10,
    deleted_s: float | None = None,
    scripts: dict[str, ContainerScript] | None = None,
    source: Any = "api",  # noqa: ANN401 # one of two words
    **spec: Any,  # noqa: ANN401 # any field of the API
) -> PlannedPod:
    digits = name.encode().hex().rjust(20, "0")
    return PlannedPod(
        place=f"pods.{name}",
        manifest={
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"{digits[:8]}-0000-4000-8000-{digits[8:]}",
            },
            "spec": {
                "restartPolicy": "Always",
                "terminationGracePeriodSeconds": 5,
                "priority": 0,
                **spec,
                "containers": list(containers) or [container()],
            },
        },
        source=source,
        arrives_ns=int(at_s * NS_PER_S),
        deleted_ns=None if deleted_s is None else int(deleted_s * NS_PER_S),
        scripts=scripts or {},
    )


def plan(
    *pods: PlannedPod,
    version: str = "1.36.2",
    minutes: float = 5,
    settings: dict[str, Any] | None = None,
    cpus: int = 4,
    numa: tuple[int, ...] = (0,),
    **more: Any,  # noqa: ANN401 # any field of a plan
) -> Plan:
    return Plan(
        **{
            "kubelet_version": version,
            "seed": 7,
            "start_ns": parse_ts("2026-01-05T08:00:00Z"),
            "duration_ns": int(minutes * 60 * NS_PER_S),
            "node": NodePlan(
                name="sim",
                cpus=cpus,
                memory_bytes=8 * GIB,
                numa_nodes=numa,
                disk_bytes=100 * GIB,
                disk_used_bytes=10 * GIB,
            ),
            "settings": {**SETTINGS, **(settings or {})},
            "images": (IMAGE,),
            "pods": pods,
            **more,
        }
    )


def records(of: Plan) -> list[Record]:
    """All records of a run; verification has nothing against them."""
    found = list(Sim(of).run())
    assert bad(found) == []
    return found


def run(*pods: PlannedPod, **more: Any) -> list[Record]:  # noqa: ANN401 # as of `plan`
    """All records of a node with these pods."""
    return records(plan(*pods, **more))


def outcomes(found: list[Record]) -> list[Outcome]:
    """What verification finds in records."""

    def read(kinds: Collection[str] | None) -> Iterator[Record]:
        return iter([r for r in found if kinds is None or r.kind in kinds])

    return list(verify(read))


def tally(found: list[Record]) -> Counter[str]:
    """Findings by verdict; contradictions count as such."""
    return Counter(
        o.verdict if isinstance(o, Finding) else "contradiction" for o in outcomes(found)
    )


def of_kind(found: list[Record], kind: str) -> list[Any]:
    """Bodies of records of a kind, in order."""
    return [record.body for record in found if record.kind == kind]


def bad(found: list[Record], known: Collection[str] = ()) -> list[str]:
    """What verification says against records, but for invariants that a kubelet may break."""
    return [
        f"{o.kind if isinstance(o, Finding) else 'contradiction'} {o.subject}: {o.why}"
        for o in outcomes(found)
        if (not isinstance(o, Finding) or o.verdict == "impossible")
        and not (isinstance(o, Violation) and o.bugs and o.invariant in known)
    ]
