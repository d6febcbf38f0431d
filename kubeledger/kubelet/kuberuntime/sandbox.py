"""Whether a pod needs another sandbox."""

from __future__ import annotations

from typing import Final

import msgspec

from kubeledger.kubelet.kuberuntime.objects import Pod, PodStatus

_ATTEMPTS: Final = 2**32


class SandboxChange(msgspec.Struct, frozen=True, gc=False):
    """The sandbox of a sync.

    Attributes:
        changed: another one is needed.
        attempt: of the one to use or to make.
        sandbox_id: the newest one's; empty where it is of no use.
        why: a part of a sentence, after "because".
    """

    changed: bool
    attempt: int
    sandbox_id: str
    why: str


def pod_sandbox_changed(pod: Pod, status: PodStatus) -> SandboxChange:
    """Find the sandbox to use, or that there is none.

    Source: v1.36.2 pkg/kubelet/kuberuntime/util/util.go PodSandboxChanged; v1.20.2
    Differs: there is no sandbox whose network the runtime does not report.
    """
    if not status.sandboxes:
        return SandboxChange(True, 0, "", "the pod has no sandbox")
    newest = status.sandboxes[0]
    attempt = (newest.attempt + 1) % _ATTEMPTS
    ready = sum(sandbox.state == "ready" for sandbox in status.sandboxes)
    if ready > 1:
        return SandboxChange(True, attempt, newest.id, f"{ready} sandboxes of the pod are ready")
    if newest.state != "ready":
        return SandboxChange(True, attempt, newest.id, f"sandbox {newest.id} is not ready")
    host_network = bool(pod.spec.host_network)
    if newest.host_network != host_network:
        uses = "the node's network" if newest.host_network else "a network of its own"
        return SandboxChange(
            True, attempt, "", f"sandbox {newest.id} uses {uses}, the pod does not"
        )
    if not host_network and not newest.ip:
        return SandboxChange(True, attempt, newest.id, f"sandbox {newest.id} has no IP address")
    return SandboxChange(False, newest.attempt, newest.id, f"sandbox {newest.id} is ready")
