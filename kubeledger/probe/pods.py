"""Where a pod's spec and IP come from: a list, a ledger, or the kubelet itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from kubeledger.ingest.sources.pod_lists import pods_of, values_of
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.errors import BadInputError, BadQuestionError
from kubeledger.model.units import format_ts
from kubeledger.record.sources.endpoints import KubeletClient, RefusedError, UnreachableError

_BUILD_INFO = re.compile(rb'^kubernetes_build_info\{[^}]*git_version="([^"]+)"', re.MULTILINE)


class FoundPod(msgspec.Struct):
    """A pod, and the version of its kubelet.

    Attributes:
        raw: the API's JSON; of a ledger as far as that keeps it.
        kubelet_version: as the source has it; None where it does not say.
        source: in words.
    """

    raw: dict[str, Any]
    kubelet_version: str | None
    source: str


def pod_in_list(data: bytes, source: str, namespace: str, name: str) -> FoundPod:
    """A pod of a list; ``source`` is where the list came from, in words.

    Raises:
        BadInputError: it is not a list of pods.
        BadQuestionError: the pod is not in it.
    """
    return FoundPod(_pod(data, source, namespace, name), None, source)


def pod_of_kubelet(client: KubeletClient, url: str, namespace: str, name: str) -> FoundPod:
    """A pod as its kubelet lists it, and the version that its metrics name.

    Raises:
        BadInputError: the kubelet does not answer with a list.
        BadQuestionError: the pod is not on its node.
    """
    try:
        pods = client.get("/pods")
    except (UnreachableError, RefusedError) as error:
        raise BadInputError(
            f"{url}/pods: {error}",
            advice="--token FILE with a token that may read nodes/pods or nodes/proxy, "
            "--ca FILE, or --insecure",
        ) from None
    raw = _pod(pods, f"{url}/pods", namespace, name)
    try:
        found = _BUILD_INFO.search(client.get("/metrics"))
    except (UnreachableError, RefusedError):
        found = None
    return FoundPod(raw, found[1].decode("utf-8", "replace") if found else None, f"{url}/pods")


def pod_in_ledger(path: Path, node: str | None, namespace: str, name: str) -> FoundPod:
    """A pod as it was listed last, on whatever node, and the version of that node's kubelet.

    Raises:
        BadQuestionError: no ledger, no list in it shows the pod, or it is gone since.
    """
    versions: dict[str, str] = {}
    listed: dict[str | None, tuple[int, str, PodListed]] = {}
    for record in Ledger.open(path).records(node, kinds=(PodListed.kind, KubeletStarted.kind)):
        body = record.body
        if isinstance(body, KubeletStarted):
            version = body.version_text or body.kubelet_version
            versions |= {record.node: version} if version else {}
        elif isinstance(body, PodListed) and (body.namespace, body.pod) == (namespace, name):
            former = listed.get(body.pod_uid)
            if former is None or former[0] <= record.ts_ns:
                listed[body.pod_uid] = record.ts_ns, record.node, body
    there = [each for each in listed.values() if not each[2].gone]
    if not there:
        ended_ns = max((ts_ns for ts_ns, _, _ in listed.values()), default=None)
        gone = f" any more: it was gone at {format_ts(ended_ns)}" if ended_ns is not None else ""
        raise BadQuestionError(
            f"no pod list in {path} shows {namespace}/{name}{gone}",
            advice="kubeledger get pods, or give a list with --pods",
        )
    # A manifest of the same pod has no status, and so no IP.
    _, of_node, last = max(there, key=lambda each: (each[2].status is not None, each[0]))
    metadata = {"namespace": namespace, "name": name, "uid": last.pod_uid or ""}
    raw = {"metadata": metadata, "spec": last.spec or {}, "status": last.status or {}}
    return FoundPod(raw, versions.get(of_node), str(path))


def _pod(data: bytes, source: str, namespace: str, name: str) -> dict[str, Any]:
    flaws: list[str] = []
    try:
        pods, _, _ = pods_of(values_of(data, flaws), flaws)
    except ValueError as error:
        raise BadInputError(f"no list of pods: {error}", file=source) from None
    for pod in pods:
        metadata = pod["metadata"]
        if (metadata.get("namespace") or "default", metadata.get("name")) == (namespace, name):
            return pod
    if not pods:
        raise BadInputError("holds no pods", file=source, advice="kubectl get pods -A -o json")
    like = [
        f"{p['metadata'].get('namespace') or 'default'}/{p['metadata'].get('name')}" for p in pods
    ]
    near = [each for each in like if name in each] or like
    raise BadQuestionError(
        f"pod {namespace}/{name} is not in {source}", advice=f"there are: {', '.join(near[:8])}"
    )
