"""What the kubelet writes when it kills a container."""

from __future__ import annotations

from kubeledger.kuberuntime.kills import app_kill, sidecar_kill
from kubeledger.prober.results import FAILURE, SUCCESS, Result
from kubeledger.profile.resolve import KubeletProfile
from kubeledger.verify.lives.specs import PodAsk

__all__ = ["kill_words"]


def kill_words(profile: KubeletProfile, ask: PodAsk, container: str, reason: str) -> str:
    """The kubelet's message for a kill of that reason."""
    if reason == "post_start_hook":
        return "FailedPostStartHook"
    entry = ask.container(container)
    liveness: Result | None = FAILURE if reason == "liveness_probe" else None
    startup: Result | None = FAILURE if reason == "startup_probe" else None
    changed = reason == "spec_changed"
    if ask.is_sidecar(container):
        has_startup_probe = entry is not None and entry.startup_probe is not None
        kill = sidecar_kill(
            container,
            liveness,
            startup or SUCCESS,
            profile.kuberuntime,
            has_startup_probe=has_startup_probe,
            definition_changed=changed,
        )
    else:
        kill = app_kill(
            container,
            liveness,
            startup,
            profile.kuberuntime,
            restart_policy=ask.restart_policy,
            own_policy=None if entry is None else entry.restart_policy,
            definition_changed=changed,
        )
    return f"Stopping container {container}" if kill is None else kill.message
