"""What the kubelet writes when it kills a container."""

from __future__ import annotations

from kubeledger.prober.results import FAILURE, SUCCESS, Result
from kubeledger.prober.syncloop import kill_message, sidecar_kill_message
from kubeledger.profile.resolve import KubeletProfile
from kubeledger.verify.lives.specs import PodAsk

__all__ = ["kill_words"]


def kill_words(profile: KubeletProfile, ask: PodAsk, container: str, reason: str) -> str:
    """The kubelet's message for a kill of that reason."""
    entry = ask.container(container)
    liveness: Result | None = FAILURE if reason == "liveness_probe" else None
    startup: Result | None = FAILURE if reason == "startup_probe" else None
    changed = reason == "spec_changed"
    if ask.is_sidecar(container):
        has_startup_probe = entry is not None and entry.startup_probe is not None
        message = sidecar_kill_message(
            container,
            liveness,
            startup or SUCCESS,
            profile.prober,
            has_startup_probe=has_startup_probe,
            definition_changed=changed,
        )
    else:
        message = kill_message(
            container,
            liveness,
            startup,
            profile.prober,
            restart_policy=ask.restart_policy,
            own_policy=None if entry is None else entry.restart_policy,
            definition_changed=changed,
        )
    return message or f"Stopping container {container}"
