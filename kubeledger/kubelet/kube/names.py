"""Names of resources, labels and pods: which kind a name is, and whether it is valid."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

HUGE_PAGES: Final = "hugepages-"
ATTACHABLE_VOLUMES: Final = "attachable-volumes-"
NATIVE_DOMAIN: Final = "kubernetes.io/"
QUOTA_REQUESTS: Final = "requests."
UID: Final = r"(?:[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})"
"""Of a pod, in a text: the API server's, also as systemd's units have it; a static pod's hash."""

_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII)


def is_label_value(text: str) -> bool:
    """Whether a label may have this value (apimachinery ``IsValidLabelValue``)."""
    return not text or (len(text.encode()) <= 63 and _NAME.fullmatch(text) is not None)


@lru_cache(maxsize=1024)
def is_qualified_name(text: str) -> bool:
    """Whether the text is ``name`` or ``domain/name`` (apimachinery ``IsQualifiedName``)."""
    *prefix, name = text.split("/")
    if len(prefix) > 1 or len(name) > 63 or _NAME.fullmatch(name) is None:
        return False
    return all(len(p) <= 253 and _SUBDOMAIN.fullmatch(p) is not None for p in prefix)


@lru_cache(maxsize=1024)
def is_extended_resource(name: str) -> bool:
    """Whether a resource is of some domain outside of Kubernetes, as devices are.

    Source: v1.20.2 pkg/apis/core/v1/helper/helpers.go IsExtendedResourceName
    Differs: no.
    """
    if "/" not in name or NATIVE_DOMAIN in name or name.startswith(QUOTA_REQUESTS):
        return False
    return is_qualified_name(QUOTA_REQUESTS + name)


@lru_cache(maxsize=1024)
def is_scalar_resource(name: str) -> bool:
    """Whether a resource is counted besides cpu, memory, storage and pods.

    Source: v1.20.2 pkg/scheduler/util/utils.go IsScalarResourceName
    Differs: no.
    """
    return (
        is_extended_resource(name)
        or name.startswith((HUGE_PAGES, ATTACHABLE_VOLUMES))
        or NATIVE_DOMAIN in name
    )


def is_pod_level_resource(name: str) -> bool:
    """Whether a pod as a whole can ask for this resource.

    Source: v1.36.2 staging/src/k8s.io/component-helpers/resource/helpers.go
        IsSupportedPodLevelResource
    Differs: no.
    """
    return name in ("cpu", "memory") or name.startswith(HUGE_PAGES)
