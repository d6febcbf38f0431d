"""Whether a container that ended is started again."""

from __future__ import annotations

from kubeledger.kube.restartpolicy import container_should_restart, matching_restart_rule
from kubeledger.profile.resolve import KubeletProfile
from kubeledger.verify.lives.life import Instance
from kubeledger.verify.lives.specs import PodAsk

__all__ = ["ends_for_good"]


def ends_for_good(
    profile: KubeletProfile, ask: PodAsk, container: str, before: Instance
) -> str | None:
    """Why the container is not started again; None when it is, or may be.

    Init containers also run again with a pod that is made anew, so only containers proper
    are judged here.
    """
    entry = ask.container(container)
    if entry is None or not ask.is_app(container):
        return None
    policy = ask.restart_policy
    if entry.restart_policy is not None and profile.kuberuntime.container_restart_rules:
        policy = entry.restart_policy
    if before.killed_ns is not None and before.reasons:
        reason = before.reasons[0]
        if reason == "spec_changed":
            return None
        if reason in ("liveness_probe", "startup_probe") and policy == "Never":
            return f"restart policy Never does not start container {container} again"
        return None
    if before.exit_code is None:
        never = policy == "Never" and not entry.restart_policy_rules
        return f"restart policy Never does not start container {container} again" if never else None
    if not profile.kuberuntime.container_restart_rules:
        again = policy == "Always" or (policy == "OnFailure" and before.exit_code != 0)
        again = again or policy not in ("Always", "OnFailure", "Never")
    else:
        again = _should_restart(profile, ask, container, before.exit_code)
    if again:
        return None
    return (
        f"container {container} ended with exit code {before.exit_code}, after which restart "
        f"policy {policy} does not start it again"
    )


def _should_restart(profile: KubeletProfile, ask: PodAsk, container: str, code: int) -> bool:
    entry = ask.container(container)
    assert entry is not None
    restart_all = profile.kuberuntime.restart_all_containers
    if container_should_restart(entry, ask.restart_policy, code, restart_all=restart_all):
        return True
    return matching_restart_rule(entry, code) is not None
