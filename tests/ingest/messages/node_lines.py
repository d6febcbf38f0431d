"""Lines about the state of the node, as ``lines.py`` shows lines: without their heads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

_REFUSED = 'Get "https://10.0.0.1:6443/api/v1/nodes/n": dial tcp 10.0.0.1:6443: connect: refused'
_LISTING = (
    'failed to list *v1.Node: Get "https://10.0.0.1:6443/api/v1/nodes?limit=500": dial tcp '
    "10.0.0.1:6443: connect: connection refused"
)
_LATER = "2027-11-23 16:45:39 +0000 UTC"
_STATUS, _CERTIFICATES = "E kubelet_node_status.go", "E certificate_manager.go"
_CHANGED, _TROUBLED = "node.ConditionChanged", "node.Troubled"
_SHUTDOWN, _PROGRESSED = "I nodeshutdown_manager_linux.go", "node.ShutdownProgressed"
_DETECTED = "Shutdown manager detected new shutdown event, isNodeShuttingDownNow"
_DONE = "Shutdown manager completed processing"
_SECONDS = "ShutdownGracePeriodSeconds"
_ALLOCATION, _WEB = "I allocation_manager.go", {"pod": "shop/web"}
_RUNTIME = "Ready=false reason:NotReady message:shim: cni config uninitialized"
_READY = {
    "type": "Ready",
    "status": "False",
    "lastTransitionTime": "2026-11-23T17:06:53Z",
    "reason": "KubeletNotReady",
    "message": "node is shutting down",
}
_TEXT = (
    "{Type:Ready Status:False LastHeartbeatTime:2026-11-21 02:53:00.5 +0000 UTC m=+9.5 "
    "LastTransitionTime:2026-11-21 02:53:00.5 +0000 UTC m=+9.5 Reason:KubeletNotReady "
    "Message:node is shutting down}"
)

_RESIZED = "lifecycle.PodResized"
_GUARANTEED = "Resize is infeasible for Guaranteed Pods alongside"

RESIZES: dict[tuple[str, str], tuple[tuple[str, str, dict[str, Any]], ...]] = {
    ("Allocated pod resize is not currently feasible", _RESIZED): (
        (
            "E kuberuntime_manager.go",
            '"Allocated pod resize is not currently feasible" err="below usage" pod="shop/web"',
            {"err": "below usage", "pod": "shop/web"},
        ),
    ),
    ("Pod resize is deferred; will reevaluate later", _RESIZED): (
        (_ALLOCATION, '"Pod resize is deferred; will reevaluate later" pod="shop/web"', _WEB),
    ),
    ("Pod resize successfully allocated", _RESIZED): (
        (_ALLOCATION, '"Pod resize successfully allocated" pod="shop/web"', _WEB),
    ),
    ("Resize cannot be accommodated", _RESIZED): (
        (
            _ALLOCATION,
            '"Resize cannot be accommodated" pod="shop/web" reason="OutOfcpu" message="used"',
            {"reason": "OutOfcpu", "message": "used", **_WEB},
        ),
    ),
    ("Pod resize is infeasible", _RESIZED): (
        (_ALLOCATION, '"Pod resize is infeasible" pod="shop/web"', _WEB),
        (
            "I kubelet.go",
            '"Resize is not feasible as request exceeds allocatable node resources" pod="shop/web"',
            _WEB,
        ),
        *(
            (_ALLOCATION, f'"{_GUARANTEED} {manager} Manager {policy}" pod="web_shop(u-1)"', {})
            for manager in ("CPU", "Memory")
            for policy in ("static policy", 'policy \\"static\\"')
        ),
    ),
}
"""The same of resizes."""

NODE_STATE: dict[tuple[str, str], tuple[tuple[str, str, dict[str, Any]], ...]] = {
    ("Recording event message for node", _CHANGED): (
        (
            "I kubelet_node_status.go",
            '"Recording event message for node" node="n" event="NodeHasDiskPressure"',
            {"event": "NodeHasDiskPressure"},
        ),
    ),
    ("Fast updating node status as it just became ready", _CHANGED): (
        ("I kubelet_node_status.go", '"Fast updating node status as it just became ready"', {}),
    ),
    ("Node became not ready", _CHANGED): (
        (
            "I setters.go",
            f'"Node became not ready" node="n" condition={json.dumps(_READY)}',
            {"condition": _READY},
        ),
        ("I setters.go", f"Node became not ready: {_TEXT}", {"condition": _TEXT}),
    ),
    ("Container runtime network not ready", _TROUBLED): (
        (
            "E kubelet.go",
            f'"Container runtime network not ready" networkReady="Network{_RUNTIME}"',
            {"networkReady": f"Network{_RUNTIME}"},
        ),
        (
            "E kubelet.go",
            f"Container runtime network not ready: Network{_RUNTIME}",
            {"networkReady": f"Network{_RUNTIME}"},
        ),
    ),
    ("Container runtime not ready", _TROUBLED): (
        (
            "E kubelet.go",
            f'"Container runtime not ready" runtimeReady="Runtime{_RUNTIME}"',
            {"runtimeReady": f"Runtime{_RUNTIME}"},
        ),
    ),
    ("Container runtime sanity check failed", _TROUBLED): (
        (
            "E kubelet.go",
            '"Container runtime sanity check failed" err="rpc error: code = Unavailable"',
            {"err": "rpc error: code = Unavailable"},
        ),
    ),
    ("Container runtime status", _TROUBLED): (
        (
            "I kubelet.go",
            '"Container runtime status" status="RuntimeReady=false reason:R message:no"',
            {"status": "RuntimeReady=false reason:R message:no"},
        ),
    ),
    ("Container runtime status is nil", _TROUBLED): (
        ("E kubelet.go", '"Container runtime status is nil"', {}),
    ),
    ("Skipping pod synchronization", _TROUBLED): (
        (
            "E kubelet.go",
            '"Skipping pod synchronization" err="container runtime is down"',
            {"err": "container runtime is down"},
        ),
        (
            "I kubelet.go",
            "skipping pod synchronization - container runtime is down",
            {"err": "container runtime is down"},
        ),
    ),
    ("Failed to initialize CSINode", _TROUBLED): (
        (
            "I csi_plugin.go",
            "Failed to contact API server when waiting for CSINode publishing: csinodes.storage "
            '"n" is forbidden',
            {"err": 'csinodes.storage "n" is forbidden'},
        ),
    ),
    ("Error updating node status, will retry", _TROUBLED): tuple(
        (_STATUS, f'"{words}" err={json.dumps(_REFUSED)}', {"err": _REFUSED})
        for words in (
            "Error updating node status, will retry",
            "Error updating node status, will retry with syncNodeStatus",
        )
    ),
    ("Unable to update node status", _TROUBLED): (
        (
            _STATUS,
            '"Unable to update node status" err="update node status exceeds retry count"',
            {"err": "update node status exceeds retry count"},
        ),
    ),
    ("Failed to ensure lease exists, will retry", _TROUBLED): (
        *(
            ("E controller.go", f'"{words}" err="timed out" interval="7s"', {"err": "timed out"})
            for words in (
                "Failed to ensure lease exists, will retry",
                "Failed to update lease",
                "Will retry updating lease",
            )
        ),
        (
            "E controller.go",
            "failed to ensure node lease exists, will retry in 7s, error: timed out",
            {"err": "timed out"},
        ),
    ),
    ("Failed to watch", _TROUBLED): (
        (
            "E reflector.go",
            f'"Failed to watch" err={json.dumps(_LISTING)} logger="UnhandledError" '
            'reflector="k8s.io/client-go/informers/factory.go:160" type="*v1.Node"',
            {"err": _LISTING},
        ),
        (
            "E reflector.go",
            f"k8s.io/client-go/informers/factory.go:134: Failed to watch *v1.Node: {_LISTING}",
            {"err": _LISTING},
        ),
    ),
    ("Unhandled Error", _TROUBLED): (
        (
            _CERTIFICATES,
            '"Unhandled Error" err="kubernetes.io/kubelet-serving: certificate request was not '
            'signed: timed out" logger="UnhandledError"',
            {"err": "kubernetes.io/kubelet-serving: certificate request was not signed: timed out"},
        ),
    ),
    ("Caches populated", ""): (
        ("I reflector.go", '"Caches populated" type="*v1.Node" reflector="k8s.io/client-go"', {}),
    ),
    ("Successfully registered node", ""): (
        ("I kubelet_node_status.go", '"Successfully registered node" node="n"', {}),
        ("I kubelet_node_status.go", '"Node was previously registered" node="n"', {}),
    ),
    ("Error getting node", _TROUBLED): (
        ("E kubelet.go", 'node "n" not found', {"err": 'node "n" not found'}),
        *(
            (file, f'"{words}" err="node \\"n\\" not found"', {"err": 'node "n" not found'})
            for file, words in (
                ("E kubelet.go", "Error getting node"),
                (_STATUS, "Error getting the current node from lister"),
            )
        ),
    ),
    ("Unable to register node with API server", _TROUBLED): (
        *(
            (_STATUS, f'"{words}" err="forbidden" node="n"', {"err": "forbidden"})
            for words in (
                "Unable to register node with API server",
                "Unable to register node with API server, error getting existing node",
                "Unable to register node with API server, no node instance returned",
                "Unable to register node with API server, reason is forbidden",
                "Unable to construct v1.Node object for kubelet",
                "Unable to reconcile node with API server,error updating node",
            )
        ),
        (_STATUS, 'Unable to register node "n" with API server: refused', {"err": "refused"}),
    ),
    ("Certificate rotation deadline determined", ""): (
        (
            "I certificate_manager.go",
            f'"Certificate rotation deadline determined" expiration="{_LATER}" deadline="{_LATER}"',
            {"expiration": _LATER},
        ),
        (
            "I certificate_manager.go",
            "kubernetes.io/kubelet-serving: Certificate expiration is 2027-11-23 16:45:39 +0000 "
            "UTC, rotation deadline is 2027-08-23 16:45:39 +0000 UTC",
            {"expiration": "2027-11-23 16:45:39 +0000"},
        ),
    ),
    ("Creating node shutdown manager", ""): (
        (
            _SHUTDOWN,
            '"Creating node shutdown manager" shutdownGracePeriodRequested="0s" '
            'shutdownGracePeriodByPodPriority=[{"Priority":0,"ShutdownGracePeriodSeconds":17}]',
            {"shutdownGracePeriodByPodPriority": [{"Priority": 0, _SECONDS: 17}]},
        ),
    ),
    (_DETECTED, _PROGRESSED): (
        (_SHUTDOWN, f'"{_DETECTED}" event=true', {"event": True}),
        (
            _SHUTDOWN,
            '"Shutdown manager detected new shutdown event" event="shutdown"',
            {"event": "shutdown"},
        ),
        (
            "I nodeshutdown_manager_windows.go",
            '"Shutdown manager detected new preshutdown event" event="preshutdown"',
            {"event": "preshutdown"},
        ),
        (_SHUTDOWN, f"{_DETECTED}: true", {"event": "true"}),
    ),
    ("Shutdown manager processing shutdown event", _PROGRESSED): (
        (_SHUTDOWN, '"Shutdown manager processing shutdown event"', {}),
        (
            "I nodeshutdown_manager_windows.go",
            '"Shutdown manager processing preshutdown event"',
            {},
        ),
    ),
    ("Shutdown manager pod killing time out", _PROGRESSED): (
        (
            "I nodeshutdown_manager.go",
            '"Shutdown manager pod killing time out" gracePeriod=17 priority=0',
            {"gracePeriod": 17, "priority": 0},
        ),
        (
            _SHUTDOWN,
            "Shutdown manager pod killing did not complete in 1m30s",
            {"gracePeriod": "1m30s"},
        ),
    ),
    (f"{_DONE} shutdown event, node will shutdown shortly", _PROGRESSED): tuple(
        (_SHUTDOWN, f'"{_DONE} {kind} event, node will shutdown shortly"', {})
        for kind in ("shutdown", "preshutdown")
    ),
    ("Failed while requesting a signed certificate from the control plane", _TROUBLED): (
        *(
            (_CERTIFICATES, f'"{words}" err="timed out"', {"err": "timed out"})
            for words in (
                "Certificate request was not signed",
                "Failed while requesting a signed certificate from the control plane",
                "Reached backoff limit, still unable to rotate certs",
            )
        ),
        ("I certificate_manager.go", '"Current certificate is expired"', {}),
        *(
            ("E transport.go", f'"{words}"', {})
            for words in (
                "No valid client certificate is found but the server is not responsive. A restart "
                "may be necessary to retrieve new initial credentials.",
                "The currently active client certificate has expired, but the server is not "
                "responsive. A restart may be necessary to retrieve new initial credentials.",
            )
        ),
        (
            _CERTIFICATES,
            "kubernetes.io/kubelet-serving: Failed while requesting a signed certificate from the "
            "control plane: timed out",
            {
                "err": "Failed while requesting a signed certificate from the control plane: "
                "timed out"
            },
        ),
    ),
}
"""Message and the kind of its record -> level and file, line, values."""


def rows(shown: Mapping[tuple[str, str], Any]) -> Iterator[tuple[str, str, Any, str | None]]:
    """Text, message, values and kind of each."""
    for (to, kind), lines in shown.items():
        for head, words, values in lines:
            level, file = head.split()
            yield (
                f"{level}1123 16:45:39.982839    2479 {file}:40] {words}",
                to,
                values,
                kind or None,
            )
