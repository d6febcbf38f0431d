"""Cases of the DRA manager: claims of pods that come and go, and what drivers answer.

The order of drivers, of claims in an answer and of pods in the reconcile loop is left to
chance: a claimed outcome is admissible if some orders give it, step by step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from kubeledger.kubelet.cases.fields import Strict, walked
from kubeledger.kubelet.dra.claiminfo import Answer, ClaimInfoState, Device, Result, Verb
from kubeledger.kubelet.dra.manager import Manager
from kubeledger.kubelet.kube.maporder import MapOrder
from kubeledger.kubelet.kube.pod import Pod
from kubeledger.kubelet.kube.resourceclaim import ResourceClaim
from kubeledger.kubelet.profile.resolve import KubeletProfile
from kubeledger.model.errors import BadInputError

Operation = Literal["prepare", "unprepare", "reconcile", "register", "deregister", "restart"]


class PreparedDevice(Strict, frozen=True):
    """A device in an answer."""

    pool_name: str = ""
    device_name: str = ""
    request_names: tuple[str, ...] | None = None
    cdi_device_ids: tuple[str, ...] | None = msgspec.field(default=None, name="cdiDeviceIDs")


class ClaimAnswer(Strict, frozen=True):
    """What a driver says of one claim."""

    error: str | None = ""
    devices: tuple[PreparedDevice, ...] | None = None


class DriverAnswer(Strict, frozen=True):
    """A driver's answer: the call fails with ``error``, or what it would say by claim UID.

    Attributes:
        extra: UID of a claim that it answers about unasked.
    """

    error: str | None = ""
    claims: dict[str, ClaimAnswer] | None = None
    extra: str | None = ""


class Step(Strict, frozen=True):
    """One thing that happens; which of the other keys count depends on it."""

    op: Operation
    pod: Pod | None = None
    claims: tuple[ResourceClaim, ...] | None = None
    answers: dict[str, DriverAnswer] | None = None
    active_pods: tuple[str, ...] | None = None
    sources_ready: bool | None = True
    driver: str | None = None


class DraCase(Strict, frozen=True):
    """One case; ``drivers`` are registered at the start."""

    drivers: tuple[str, ...]
    steps: tuple[Step, ...]


class StepOutcome(Strict, frozen=True):
    """What came of one step.

    Attributes:
        calls: driver -> what it was asked, and for which claims.
        cdi_devices: container -> CDI names, or an error; of a pod that is prepared.
        checkpoint: claims in the file.
        memory: claims in memory, where those differ.
        prepared: namespace and name of claims that are.
    """

    error: str
    calls: dict[str, list[tuple[Verb, tuple[str, ...]]]]
    checkpoint: list[ClaimInfoState]
    memory: list[ClaimInfoState] | None
    prepared: list[str]
    cdi_devices: dict[str, list[str] | str] | UnsetType = UNSET


class Outcome(Strict, frozen=True):
    """What came of each step."""

    steps: list[StepOutcome]


class DraWalk:
    """A case in one order of drivers, claims and pods."""

    def __init__(self, case: DraCase, profile: KubeletProfile, order: MapOrder) -> None:
        self._case, self._order = case, order
        self._manager = Manager(profile.dra, case.drivers)

    def steps(self) -> Iterator[StepOutcome]:
        """Run the steps."""
        for at, step in enumerate(self._case.steps):
            yield self._run(step, at)

    def outcome(self, steps: list[StepOutcome]) -> Outcome:
        return Outcome(steps)

    def _run(self, step: Step, at: int) -> StepOutcome:
        manager, order = self._manager, self._order
        error = ""
        devices: dict[str, list[str] | str] | UnsetType = UNSET
        match step.op:
            case "prepare":
                pod = _needed(step.pod, at, "pod")
                error = manager.prepare_resources(pod, _claims(step), _answers(step), order)
                devices = {
                    container.name or "": _sorted(manager.get_resources(pod, container, order))
                    for container in pod.spec.containers or ()
                }
            case "unprepare":
                pod = _needed(step.pod, at, "pod")
                error = manager.unprepare_resources(pod, _answers(step), order)
            case "reconcile":
                if step.sources_ready is not False:
                    manager.reconcile(step.active_pods or (), _answers(step), order)
            case "register":
                manager.drivers.add(_needed(step.driver, at, "driver"))
            case "deregister":
                manager.drivers.discard(_needed(step.driver, at, "driver"))
            case "restart":
                manager.cache.restart()
        return _outcome(manager, error, devices, sets=step.op == "reconcile")


def _needed(value: Any, at: int, name: str) -> Any:  # noqa: ANN401  # a pod or a name
    if value is None:
        raise BadInputError(f"input.steps[{at}]: no {name}")
    return value


def _claims(step: Step) -> dict[tuple[str, str], ResourceClaim]:
    return {(c.metadata.namespace or "", c.metadata.name or ""): c for c in step.claims or ()}


def _answers(step: Step) -> dict[str, Answer]:
    return {
        driver: Answer(
            f"rpc error: code = Internal desc = {answer.error}" if answer.error else "",
            {
                uid: Result(said.error or "", tuple(map(_device, said.devices or ())))
                for uid, said in (answer.claims or {}).items()
            },
            (answer.extra,) if answer.extra else (),
        )
        for driver, answer in (step.answers or {}).items()
    }


def _device(said: PreparedDevice) -> Device:
    return Device(
        said.pool_name,
        said.device_name,
        request_names=said.request_names or None,
        cdi_device_ids=said.cdi_device_ids or None,
    )


def _sorted(devices: list[str] | str) -> list[str] | str:
    return devices if isinstance(devices, str) else sorted(devices)


def _outcome(
    manager: Manager, error: str, devices: dict[str, list[str] | str] | UnsetType, *, sets: bool
) -> StepOutcome:
    calls: dict[str, list[tuple[Verb, tuple[str, ...]]]] = {}
    for driver, verb, uids in manager.calls:
        calls.setdefault(driver, []).append((verb, tuple(sorted(uids)) if sets else uids))
    manager.calls = []
    cache = manager.cache
    memory = None if cache.claims == cache.checkpoint else _listed(cache.claims)
    return StepOutcome(
        error,
        {driver: sorted(asked) if sets else asked for driver, asked in calls.items()},
        _listed(cache.checkpoint),
        memory,
        [f"{namespace}/{name}" for namespace, name in sorted(cache.prepared)],
        devices,
    )


def _listed(claims: Mapping[tuple[str, str], ClaimInfoState]) -> list[ClaimInfoState]:
    return [claims[key].as_written() for key in sorted(claims)]


DRA = walked(DraCase, Outcome, DraWalk)
