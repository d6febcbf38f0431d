"""What the kubelet writes when it kills a container."""

from __future__ import annotations

from kubeledger.prober.results import FAILURE
from kubeledger.prober.syncloop import kill_message
from kubeledger.profile.resolve import KubeletProfile
from kubeledger.verify.lives.specs import PodAsk

__all__ = ["effective_policy", "kill_words"]


def effective_policy(profile: KubeletProfile, ask: PodAsk, container: str) -> str:
    """Restart policy that counts for a container that runs: its own, or the pod's."""
    entry = ask.container(container)
    own = None if entry is None else entry.restart_policy
    if own is None or not (profile.prober.container_restart_rules or ask.is_sidecar(container)):
        return ask.restart_policy
    return own


def kill_words(profile: KubeletProfile, ask: PodAsk, container: str, reason: str) -> str:
    """The kubelet's message for a kill of that reason."""
    policy = effective_policy(profile, ask, container)
    message: str | None = None
    if reason == "liveness_probe":
        message = kill_message(container, FAILURE, None, restart_policy=policy)
    elif reason == "startup_probe":
        message = kill_message(container, None, FAILURE, restart_policy=policy)
    elif reason == "spec_changed":
        message = f"Container {container} definition changed, will be restarted"
    return message or f"Stopping container {container}"
