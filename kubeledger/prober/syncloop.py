"""What the kubelet's sync loop does with an update, and when a sync kills a container."""

from __future__ import annotations

import msgspec

from kubeledger.prober.records import ProbeType
from kubeledger.prober.results import FAILURE, SUCCESS, Result
from kubeledger.profile.prober import ProberFacts

__all__ = ["Reaction", "kill_message", "reaction_to"]


class Reaction(msgspec.Struct, frozen=True, kw_only=True):
    """What follows from one update.

    Attributes:
        ready: published for the container at once; None leaves it.
        started: likewise.
        syncs_pod: the pod is synced now, if the kubelet still has it. Without, a change takes
            effect at the next sync that something else causes.
    """

    ready: bool | None = None
    started: bool | None = None
    syncs_pod: bool


def reaction_to(probe_type: ProbeType, result: Result, facts: ProberFacts) -> Reaction:
    """What the sync loop does with an update.

    Source: v1.36.2 pkg/kubelet/kubelet.go syncLoopIteration
    Differs: before 1.21 the readiness and startup parts are updateReadiness and
        updateStartup of the probe manager.
    """
    succeeded = result == SUCCESS
    match probe_type:
        case "liveness":
            return Reaction(syncs_pod=result == FAILURE)
        case "readiness":
            return Reaction(ready=succeeded, syncs_pod=facts.results_wake_sync_loop)
        case "startup":
            return Reaction(started=succeeded, syncs_pod=facts.results_wake_sync_loop)


def kill_message(
    container: str, liveness: Result | None, startup: Result | None, *, restart_policy: str
) -> str | None:
    """Why a sync kills a running container because of its probes; None when it does not.

    Only cached failures kill, liveness before startup; readiness never does.

    Args:
        container: its name.
        liveness: cached result of its container ID; None for none.
        startup: likewise.
        restart_policy: of the pod.

    Source: v1.20.2 pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions
    Differs: a changed definition, which comes first, is not asked for here; the policy of
        the container itself, which newer versions ask first, neither.
    """
    if liveness == FAILURE:
        message = f"Container {container} failed liveness probe"
    elif startup == FAILURE:
        message = f"Container {container} failed startup probe"
    else:
        return None
    return message if restart_policy == "Never" else f"{message}, will be restarted"
