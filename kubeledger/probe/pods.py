"""Where a pod's spec and IP come from: a list, a ledger, or the kubelet itself."""

from __future__ import annotations

import http.client
import re
import sys
import urllib.request
from pathlib import Path
from typing import Any

import msgspec

from kubeledger.ingest.sources.detect import load_documents
from kubeledger.ingest.sources.documents import pods_of
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.errors import BadInputError, BadQuestionError
from kubeledger.record.sources.kubelet_client import (
    KubeletClient,
    RefusedError,
    UnreachableError,
)
from kubeledger.record.sources.snapshots import CONTENT_BYTES_MAX

__all__ = ["FoundPod", "pod_in_ledger", "pod_in_list", "pod_of_kubelet"]

_SILENCE_S = 10
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


def pod_in_list(source: str, namespace: str, name: str) -> FoundPod:
    """A pod of a list: a file, ``-``, or a URL of HTTP or HTTPS that needs no token.

    Raises:
        BadInputError: it cannot be read, or is no list of pods.
        BadQuestionError: the pod is not in it.
    """
    if source.startswith(("http://", "https://")):
        data = _fetched(source)
    else:
        try:
            data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        except OSError as error:
            raise BadInputError(
                f"cannot be read: {(error.strerror or str(error)).lower()}", file=source
            ) from None
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
            advice="--token-file FILE with a token that may read nodes/pods or nodes/proxy, "
            "--ca-file FILE, or --insecure",
        ) from None
    raw = _pod(pods, f"{url}/pods", namespace, name)
    try:
        found = _BUILD_INFO.search(client.get("/metrics"))
    except (UnreachableError, RefusedError):
        found = None
    return FoundPod(raw, found[1].decode("utf-8", "replace") if found else None, f"{url}/pods")


def pod_in_ledger(path: Path, node: str | None, namespace: str, name: str) -> FoundPod:
    """A pod as it was listed last.

    Raises:
        BadQuestionError: no ledger, or no list in it shows the pod.
    """
    ledger = Ledger.open(path)
    last: PodListed | None = None
    version: str | None = None
    kinds = (PodListed.kind, KubeletStarted.kind)
    for record in ledger.records(node, kinds=kinds):
        body = record.body
        if isinstance(body, KubeletStarted):
            version = body.version_text or body.kubelet_version or version
        elif isinstance(body, PodListed) and (body.namespace, body.pod) == (namespace, name):
            last = body if body.spec is not None else last
    if last is None:
        raise BadQuestionError(
            f"no pod list in {path} shows {namespace}/{name}",
            advice="kubeledger get pods, or give a list with --pods",
        )
    metadata = {"namespace": namespace, "name": name, "uid": last.pod_uid or ""}
    raw = {"metadata": metadata, "spec": last.spec or {}, "status": last.status or {}}
    return FoundPod(raw, version, str(path))


def _pod(data: bytes, source: str, namespace: str, name: str) -> dict[str, Any]:
    flaws: list[str] = []
    try:
        pods, _, _ = pods_of(load_documents(data), flaws)
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


def _fetched(url: str) -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=_SILENCE_S) as reply:
            data: bytes = reply.read(CONTENT_BYTES_MAX + 1)
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise BadInputError(f"cannot be read: {reason}", file=url) from None
    if len(data) > CONTENT_BYTES_MAX:
        raise BadInputError(f"is larger than {CONTENT_BYTES_MAX} bytes", file=url)
    return data
