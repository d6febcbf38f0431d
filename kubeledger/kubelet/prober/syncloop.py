"""What the kubelet's sync loop does with an update."""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.prober.results import FAILURE, SUCCESS, Result
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.model.bodies.prober import ProbeType


class KnownOfPod(msgspec.Struct, frozen=True, kw_only=True):
    """What the kubelet knows when an update arrives.

    Attributes:
        pod: the pod is still there.
        status: the status manager has a status of it.
        container: that status has the ID of the container.
    """

    pod: bool = True
    status: bool = True
    container: bool = True


class Reaction(msgspec.Struct, frozen=True, kw_only=True):
    """What follows from one update.

    Attributes:
        ready: published for the container at once; None leaves it.
        started: likewise.
        dropped: why the status manager publishes nothing of it, in the words of its log
            since 1.21; empty if it does, or if there is nothing to publish.
        syncs_pod: the pod is synced now. Without, a change takes effect at the next sync that
            something else causes.
        logged: the status in the sync loop's line about the update; None where it logs
            none. Before 1.21 it logs liveness failures alone, in other words.
    """

    ready: bool | None = None
    started: bool | None = None
    dropped: str = ""
    syncs_pod: bool
    logged: str | None = None


_ALL_KNOWN = KnownOfPod()


def reaction_to(
    probe_type: ProbeType, result: Result, facts: ProberFacts, known: KnownOfPod = _ALL_KNOWN
) -> Reaction:
    """What the sync loop does with an update.

    An update for a pod that is gone is logged as irrelevant and syncs nothing.

    Source: v1.36.2 pkg/kubelet/kubelet.go syncLoopIteration, handleProbeSync;
        pkg/kubelet/status/status_manager.go SetContainerReadiness, SetContainerStartup
    Differs: before 1.21 the readiness and startup parts are updateReadiness and
        updateStartup of the probe manager. That a value is the one published before, which
        changes nothing, is not distinguished.
    """
    if probe_type == "liveness":
        if result != FAILURE:
            return Reaction(syncs_pod=False)
        return Reaction(syncs_pod=known.pod, logged="unhealthy")
    succeeded = result == SUCCESS
    dropped = _dropped(probe_type, known)
    published = succeeded if known.pod and not dropped else None
    wakes = facts.results_wake_sync_loop
    return Reaction(
        ready=published if probe_type == "readiness" else None,
        started=published if probe_type == "startup" else None,
        dropped=dropped,
        syncs_pod=wakes and known.pod,
        logged=_logged(probe_type, facts, succeeded=succeeded) if wakes else None,
    )


def _dropped(probe_type: ProbeType, known: KnownOfPod) -> str:
    if known.pod and known.status and known.container:
        return ""
    if not known.pod:
        return f"Pod has been deleted, no need to update {probe_type}"
    why = "for unknown container" if known.status else "before pod has synced"
    return f"Container {probe_type} changed {why}"


def _logged(probe_type: ProbeType, facts: ProberFacts, *, succeeded: bool) -> str:
    if probe_type == "startup":
        return "started" if succeeded else "unhealthy"
    if succeeded:
        return "ready"
    return "not ready" if facts.unready_named else ""
