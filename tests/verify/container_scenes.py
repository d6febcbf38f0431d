"""Small histories of probes, kills and restarts."""

from typing import Any

from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerRestarted,
    ContainerStarted,
    KubernetesEvent,
    PodConfigChanged,
    PodListed,
    RestartBackedOff,
)
from kubeledger.model.bodies.node import SettingsObserved
from kubeledger.model.bodies.prober import (
    ProbeExecuted,
    ProbeResult,
    ProbeTransitioned,
    ProbeType,
    TickResult,
)
from kubeledger.model.record import Body, Record
from kubeledger.verify import Contradiction, Finding, Variant
from kubeledger.verify.rules.kills import KillVerifier
from kubeledger.verify.rules.probes import ProbeVerifier
from kubeledger.verify.rules.restarts import RestartVerifier
from tests.verify.histories import kubelet_of, nothing_but, outcomes, scene, settings_told

Step = tuple[float, Body]
WHO: dict[str, Any] = {"namespace": "default", "pod": "p", "pod_uid": "u-1"}
APP: dict[str, Any] = WHO | {"container": "app"}


alone = nothing_but(KillVerifier, ProbeVerifier, RestartVerifier)


def settings(values: dict[str, Any] | None = None) -> SettingsObserved:
    known: dict[str, Any] = {
        "featureGates": {},
        "crashLoopBackOff": {"maxContainerRestartPeriod": "5m0s"},
        "evictionMaxPodGracePeriod": 0,
        "--maximum-dead-containers-per-container": "1",
        "--maximum-dead-containers": "-1",
    }
    given = known | (values or {})
    return settings_told({name: value for name, value in given.items() if value is not None})


def began(version: str | None = "1.36.2", **values: Any) -> list[Step]:  # noqa: ANN401 # any setting
    start = kubelet_of(version)
    return [(0, start), (0.1, settings(values))]


def listed(
    container: dict[str, Any] | None = None,
    *,
    uid: str = "u-1",
    static: bool = False,
    **spec: Any,  # noqa: ANN401 # any field of a spec
) -> PodListed:
    entry = {"name": "app"} | (container or {})
    return PodListed(
        namespace="default",
        pod="p",
        pod_uid=uid,
        annotations={"kubernetes.io/config.source": "file"} if static else {},
        spec={"containers": [entry], "restartPolicy": "Always",
              "terminationGracePeriodSeconds": 30} | spec,
        status={},
        listed_by="kubelet",
    )  # fmt: skip


def added(operation: Any = "ADD") -> PodConfigChanged:  # noqa: ANN401 # one of the operations
    """A config source tells of the pod."""
    return PodConfigChanged(**WHO, operation=operation, source="api")


def started(container_id: str) -> ContainerStarted:
    return ContainerStarted(**APP, container_id=container_id, sandbox=False)


def died(container_id: str, exit_code: int | None = None) -> ContainerDied:
    return ContainerDied(**APP, container_id=container_id, sandbox=False, exit_code=exit_code)


def tick(
    result: TickResult, probe_type: ProbeType = "liveness", container_id: str | None = "c1"
) -> ProbeExecuted:
    return ProbeExecuted(
        **APP, container_id=container_id, probe_type=probe_type, result=result, output=None
    )


def changed_to(
    to: ProbeResult,
    before: ProbeResult,
    probe_type: ProbeType = "liveness",
    **fields: Any,  # noqa: ANN401 # any field
) -> ProbeTransitioned:
    known: dict[str, Any] = {"container_id": "c1", "run": 3, "threshold": 3}
    return ProbeTransitioned(
        **APP, probe_type=probe_type, from_result=before, to_result=to, **(known | fields)
    )


def killed(container_id: str = "c1", **fields: Any) -> ContainerKilled:  # noqa: ANN401 # any field
    """A kill for a failed liveness probe."""
    known: dict[str, Any] = {
        "reason": "liveness_probe",
        "message": "Container app failed liveness probe, will be restarted",
        "grace_period_s": 30,
    }
    return ContainerKilled(**APP, container_id=container_id, **(known | fields))


def restarted(container_id: str, before: str | None, **fields: Any) -> ContainerRestarted:  # noqa: ANN401 # any field
    known: dict[str, Any] = {"reason": "exited"}
    return ContainerRestarted(
        **APP, container_id=container_id, previous_container_id=before, **(known | fields)
    )


def backed_off(seconds: int) -> RestartBackedOff:
    return RestartBackedOff(**APP, back_off_s=seconds)


def event(reason: str, message: str, *, warning: bool = True) -> KubernetesEvent:
    return KubernetesEvent(
        object_kind="Pod", **APP, type="Warning" if warning else "Normal", reason=reason,
        message=message,
    )  # fmt: skip


def judged(
    *steps: Step, version: str | None = "1.36.2", variant: Variant | None = None
) -> tuple[list[Finding], list[Contradiction]]:
    """Outcomes of a history behind a kubelet's start."""
    records: list[Record] = scene(*began(version), *steps)
    found = outcomes(records) if variant is None else outcomes(records, variant)
    return (
        [outcome for outcome in found if isinstance(outcome, Finding)],
        [outcome for outcome in found if isinstance(outcome, Contradiction)],
    )


def verdicts(*steps: Step, version: str | None = "1.36.2") -> list[str]:
    """Verdicts of a history behind a kubelet's start; absent decisions in brackets."""
    found, _ = judged(*steps, version=version)
    return [f.verdict if f.recorded is not None else f"[{f.kind.split('.')[1]}]" for f in found]
