"""Records of containers, from what is known of an ID."""

from __future__ import annotations

from kubeledger.ingest.correlate.links import ContainerLink
from kubeledger.ingest.sources.facts import Fact
from kubeledger.model.bodies.lifecycle import ContainerKilled, ContainerRestarted, ContainerStarted

__all__ = ["is_sandbox", "restarted_body", "started_body", "was_killed_later", "why_restarted"]


def why_restarted(before: ContainerLink | None) -> tuple[str | None, Fact | None]:
    """Reason of a restart and the fact that led to it, from the instance before."""
    if before is None:
        return None, None
    if before.kill is not None:
        body = before.kill.body
        return (body.reason if isinstance(body, ContainerKilled) else None), before.kill
    return ("exited", before.died) if before.died is not None else (None, None)


def was_killed_later(container: ContainerLink) -> bool:
    """Whether the kubelet killed it, and not at once because its postStart hook failed."""
    body = None if container.kill is None else container.kill.body
    return isinstance(body, ContainerKilled) and body.reason != "post_start_hook"


def is_sandbox(container: ContainerLink) -> bool | None:
    """Whether it is a sandbox; None when no source tells."""
    return False if container.name is not None else container.sandbox


def started_body(container: ContainerLink) -> ContainerStarted:
    """It started."""
    return ContainerStarted(
        namespace=container.pod.namespace,
        pod=container.pod.name,
        pod_uid=container.pod.uid,
        container=container.name,
        container_id=container.container_id,
        sandbox=is_sandbox(container),
    )


def restarted_body(
    container: ContainerLink, previous: str | None, reason: str | None, count: int | None
) -> ContainerRestarted:
    """It started again; for the arguments see ``ContainerRestarted``."""
    return ContainerRestarted(
        namespace=container.pod.namespace,
        pod=container.pod.name,
        pod_uid=container.pod.uid,
        container=container.name or "",
        container_id=container.container_id,
        previous_container_id=previous,
        reason=reason,
        restart_count=count,
    )
