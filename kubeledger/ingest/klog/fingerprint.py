"""The kubelet's version from where its log lines stand in its source.

A build without a version (``v0.0.0-master+...``) still writes ``file.go:line`` into each
line. The pairs below were seen in logs of builds whose version is known; the same message
stands elsewhere in other versions. One pair may fit by chance, so several must agree.
"""

from __future__ import annotations

from collections.abc import Iterable

AGREEING_MIN = 4

_CALLERS = {
    version: frozenset(text.split())
    for version, text in {
        "1.19": b"""
    kubelet.go:1218 kubelet.go:1228 kubelet.go:1827 kubelet.go:1865 server.go:411
    topology_manager.go:126 container_manager_linux.go:281 pod_workers.go:191 prober.go:117
    """,
        "1.20.2": b"""
    kubelet.go:1826 kubelet.go:1888 kubelet.go:1901 kubelet.go:1926 kubelet.go:1948
    kubelet.go:1971 kubelet.go:2160 kubelet.go:273 kubelet.go:1256
    kubelet_node_status.go:441 kubelet_node_status.go:561 kubelet_pods.go:1457
    kubelet_pods.go:1492 kubelet_pods.go:1534 eviction_manager.go:243
    eviction_manager.go:334 server.go:416 server.go:645 server.go:762 server.go:1117
    kuberuntime_manager.go:439 kuberuntime_manager.go:678 kuberuntime_manager.go:687
    status_manager.go:166 status_manager.go:429 status_manager.go:572 generic.go:191
    worker.go:194 prober.go:117 prober.go:126 image_gc_manager.go:230
    image_gc_manager.go:304 image_gc_manager.go:375 topology_manager.go:187
    container_manager_linux.go:274 event.go:291 pod_workers.go:191
    """,
        "1.36.2": b"""
    kubelet.go:295 kubelet.go:386 kubelet.go:1002 kubelet.go:1888 kubelet.go:2028
    kubelet.go:2622 kubelet.go:2709 kubelet.go:2737 kubelet.go:2756 kubelet.go:2803
    kubelet.go:2826 kubelet_node_status.go:671 kubelet_pods.go:1237 kubelet_pods.go:1893
    kubelet_pods.go:1903 eviction_manager.go:194 eviction_manager.go:256
    eviction_manager.go:371 server.go:301 server.go:545 server.go:1257 server.go:1403
    kuberuntime_manager.go:477 kuberuntime_manager.go:1177 kuberuntime_manager.go:1454
    status_manager.go:939 status_manager.go:972 generic.go:298 worker.go:240 prober.go:113
    prober.go:122 image_gc_manager.go:267 image_gc_manager.go:491 image_gc_manager.go:565
    topology_manager.go:274 container_manager_linux.go:278 event.go:389 pod_workers.go:984
    pod_workers.go:1251
    """,
    }.items()
}


def version_of_callers(callers: Iterable[bytes]) -> str | None:
    """Version that has the most of these ``file.go:line`` pairs; None unless it is clear."""
    seen = frozenset(callers)
    scores = sorted(
        ((len(seen & known), version) for version, known in _CALLERS.items()), reverse=True
    )
    (best, version), (second, _) = scores[0], scores[1]
    return version if best >= AGREEING_MIN and best >= 2 * second + AGREEING_MIN else None
