"""A pod in the words that kubectl prints: READY, STATUS and RESTARTS.

``printPod`` (pkg/printers/internalversion/printers.go, 1.19 to 1.36) reads them from a pod's
status, which ``generateAPIPodStatus`` and ``convertToAPIContainerStatuses``
(pkg/kubelet/kubelet_pods.go) make. Here both are made of what records show of the pod. Where a
rejection or an eviction gave the pod a reason, that is its status unless a status of it shows how
its containers ended: other records show containers that such a pod's status does not hold.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from kubeledger.kubelet.lifecycle.state import TERMINAL_PHASES, ContainerState, PodState

CREATING = "ContainerCreating"
"""What containers wait for before the first, as long as nothing else is known."""
_SIGKILL_EXIT = 137


class PrintedPod(NamedTuple):
    """Cells of a pod's row.

    Attributes:
        ready, total: containers, and sidecars among the init containers.
    """

    ready: int
    total: int
    status: str
    restarts: int


class _Status(msgspec.Struct, frozen=True):
    """A container's status: it waits or has terminated for a reason, or runs.

    Attributes:
        is_shown: a status of the pod shows how it ended.
    """

    sidecar: bool
    restarts: int
    ready: bool
    waiting: str = ""
    terminated: str = ""
    exit_code: int | None = None
    is_shown: bool = False


def print_pod(
    pod: PodState,
    waiting: Mapping[str | None, str],
    ready: Collection[str],
    sidecars: Collection[str],
    *,
    order: Sequence[str] = (),
    ends: Mapping[str, str] = {},
    leaving: str = "",
) -> PrintedPod:
    """The row of a pod.

    Args:
        waiting: container -> the reason for which the kubelet cannot start it; under None that of
            one that no record names, or of the pod itself before any container.
        ready: names of containers that would be ready if they run.
        sidecars: names of init containers that run beside the others.
        order: names of init containers as they run, one after the other.
        ends: ID of a container -> the reason that a status gives for its end.
        leaving: ``Terminating`` of a pod whose ``deletionTimestamp`` is set, ``Unknown`` if its
            node is lost, too; empty of others.
    """
    inits = [name for name, each in pod.containers.items() if each.init]
    inits.sort(key=lambda name: order.index(name) if name in order else len(order))
    main = sorted(pod.containers.keys() - set(inits))
    first = "PodInitializing" if inits else CREATING
    unnamed = waiting.get(None)
    found = {}
    for name in (*inits, *main):
        container = pod.containers[name]
        reason = waiting.get(name)
        if reason is None and unnamed not in (None, CREATING) and not _has_passed(container):
            reason, unnamed = unnamed, None
        found[name] = _Status(
            sidecar=_is_sidecar(pod, name, sidecars),
            restarts=container.restart_count,
            ready=container.running and name in ready,
            **_reason(container, reason, first, ends),
        )
    of_inits, of_main = ([found[name] for name in names] for names in (inits, main))
    counted = [*(each for each in of_inits if each.sidecar), *of_main]
    initializing = None if _has_begun(pod, main) else _initializing(of_inits)
    return PrintedPod(
        ready=sum(each.ready for each in counted),
        total=len(counted),
        status=_leaving(pod, leaving) or _word(pod, initializing, of_main, unnamed),
        restarts=sum(each.restarts for each in (of_inits if initializing else counted)),
    )


def _is_sidecar(pod: PodState, name: str, sidecars: Collection[str]) -> bool:
    """As its spec says; without one, an init container that runs when others do."""
    container = pod.containers[name]
    others = any(each.running for each in pod.containers.values() if not each.init)
    return bool(container.init) and (name in sidecars or (container.running and others))


def _has_passed(container: ContainerState) -> bool:
    return container.running or container.exit_code == 0


def _has_begun(pod: PodState, main: Collection[str]) -> bool:
    """A container of the pod itself has run, so the pod was initialized."""
    return any(pod.containers[name].container_id or pod.containers[name].running for name in main)


def _reason(
    container: ContainerState, waiting: str | None, first: str, ends: Mapping[str, str]
) -> dict[str, Any]:
    """Why it does not run: what it waits for, or how it ended."""
    code = container.exit_code
    if container.running:
        return {}
    if waiting is None and container.back_off_s is not None and code != 0:
        waiting = "CrashLoopBackOff"
    never = container.container_id is None and container.finished_ts_ns is None and code is None
    if waiting is not None or never:
        return {"waiting": waiting or first}
    end = ends.get(container.container_id or "")
    return {"terminated": end or _ended(container), "exit_code": code, "is_shown": bool(end)}


def _ended(container: ContainerState) -> str:
    killed_ns = container.oom_killed_ts_ns
    if container.exit_code is None:
        return "<unknown>"
    if container.exit_code == 0:
        return "Completed"
    was_oom = killed_ns is not None and killed_ns >= (container.started_ts_ns or 0)
    return "OOMKilled" if container.exit_code == _SIGKILL_EXIT and was_oom else "Error"


def _initializing(inits: list[_Status]) -> str | None:
    """What the first init container that is not done says; None: all are."""
    for number, each in enumerate(inits):
        if each.terminated and each.exit_code == 0:
            continue
        if each.sidecar and not each.terminated and not each.waiting:
            continue
        if each.terminated:
            return f"Init:{each.terminated}"
        if each.waiting not in ("", "PodInitializing"):
            return f"Init:{each.waiting}"
        return f"Init:{number}/{len(inits)}"
    return None


def _leaving(pod: PodState, shown: str) -> str:
    if pod.ended:
        return shown if shown == "Unknown" else ""
    return shown or ("Terminating" if pod.deleting else "")


def _word(pod: PodState, initializing: str | None, main: list[_Status], unnamed: str | None) -> str:
    if pod.reason and not any(each.is_shown for each in main):
        return pod.reason
    if initializing is not None and pod.phase not in TERMINAL_PHASES:
        return initializing
    # The first by name that does not run has the last word.
    reasons = [each.waiting or each.terminated for each in main]
    word = next(filter(None, reasons), pod.phase or "Unknown")
    if not main and unnamed is not None and pod.phase in (None, "Pending"):
        return unnamed
    if word != "Completed":
        return word
    failed = next((each.terminated for each in main if each.exit_code), None)
    runs = any(each.ready for each in main)
    return failed or ("NotReady" if runs else word)
