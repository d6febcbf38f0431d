"""Pods to be probed."""

from typing import Any


def pod(
    *containers: dict[str, Any],
    ip: str = "127.0.0.1",
    ready: bool = False,
    started: bool = True,
    running: bool = True,
    **spec: object,
) -> dict[str, Any]:
    """``default/web``; of its status all containers have the same."""
    state: dict[str, Any] = {"running": {"startedAt": "2026-01-05T08:00:00Z"}}
    return {
        "kind": "Pod",
        "metadata": {"namespace": "default", "name": "web", "uid": "36aa"},
        "spec": {"containers": list(containers), "restartPolicy": "Always", **spec},
        "status": {
            "phase": "Running",
            "podIP": ip,
            "containerStatuses": [
                {
                    "name": each["name"],
                    "containerID": "containerd://abc",
                    "ready": ready,
                    "started": started,
                    "state": state if running else {"waiting": {}},
                }
                for each in containers
            ],
        },
    }


def pod_list(*pods: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "List", "apiVersion": "v1", "items": list(pods)}
