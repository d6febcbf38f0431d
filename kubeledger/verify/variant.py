"""Under which settings and which kubelet version decisions are taken again."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

from kubeledger.lifecycle.records import PodListed
from kubeledger.machine import Record

__all__ = ["RECORDED", "ResourceChange", "Variant"]


class ResourceChange(msgspec.Struct, frozen=True, kw_only=True):
    """What a container would ask for instead.

    Attributes:
        namespace, pod, container: which one; ``*`` stands for any characters.
        part: of its resources.
        resource: e.g. ``memory``.
        amount: a quantity; None: nothing is asked for.
    """

    namespace: str
    pod: str
    container: str
    part: Literal["limits", "requests"]
    resource: str
    amount: str | None

    def concerns(self, body: PodListed) -> bool:
        """Whether the pod may have such a container."""
        return fnmatchcase(body.namespace, self.namespace) and fnmatchcase(body.pod, self.pod)

    def means(self, body: PodListed, container: dict[str, Any]) -> bool:
        """Whether it is about this container of that pod."""
        name = str(container.get("name", ""))
        return self.concerns(body) and fnmatchcase(name, self.container)

    def apply(self, body: PodListed, container: dict[str, Any]) -> dict[str, Any]:
        """A container of a spec, changed if it is meant."""
        if not self.means(body, container):
            return container
        resources = dict(container.get("resources") or {})
        parts = [self.part]
        if self.part == "limits" and self.resource not in (resources.get("requests") or {}):
            parts.append("requests")  # as the API server does where only a limit is given
        for part in parts:
            amounts = {k: v for k, v in (resources.get(part) or {}).items() if k != self.resource}
            resources[part] = amounts | (
                {} if self.amount is None else {self.resource: self.amount}
            )
        return {**container, "resources": resources}


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that replace the recorded ones.

    Attributes:
        name: for people.
        settings: KubeletConfiguration field -> value (as parsed from JSON).
        entries: field -> entries of ``settings`` that replace only themselves: each kubelet
            process keeps the others of its own map.
        pods: what containers would ask for instead.
        kubelet_version: decide by the rules of this one; None: of the recorded one.
    """

    name: str = "recorded"
    settings: dict[str, Any] = {}
    entries: dict[str, dict[str, Any]] = {}
    pods: tuple[ResourceChange, ...] = ()
    kubelet_version: str | None = None

    def of(self, record: Record) -> Record:
        """A record as it would be: a list shows a pod with what it would ask for.

        The QoS class and what a resize gave follow from that, so they are not shown.
        """
        body = record.body
        if not self.pods or not isinstance(body, PodListed) or body.spec is None:
            return record
        spec = body.spec
        for change in self.pods:
            if change.concerns(body):
                lists = ("containers", "initContainers")
                changed = {key: [change.apply(body, c) for c in spec[key]] for key in lists
                           if isinstance(spec.get(key), list)}  # fmt: skip
                spec = {**spec, **changed}
        if spec == body.spec:
            return record
        status = {k: v for k, v in (body.status or {}).items() if k not in _FOLLOWS}
        for key in ("containerStatuses", "initContainerStatuses"):
            if key in status:
                status[key] = [{k: v for k, v in one.items() if k not in _FOLLOWS}
                               for one in status[key] or ()]  # fmt: skip
        body = msgspec.structs.replace(
            body, spec=spec, status=None if body.status is None else status
        )
        return msgspec.structs.replace(record, body=body)


_FOLLOWS = frozenset({"qosClass", "resources", "allocatedResources"})

RECORDED = Variant()
"""Nothing replaced."""
