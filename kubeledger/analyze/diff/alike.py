"""What of a decision can be compared between two nodes, or two runs of one.

UIDs and container IDs are drawn again each time a pod is made, so they are replaced by the
names that they stand for: the UID of ``default/web`` by ``<default/web>``, the ID of its
container ``app`` by ``<default/web/app>``. Times are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from kubeledger.analyze.sql.summaries import subject_of
from kubeledger.model.bodies.lifecycle import ContainerRestarted, ContainerStarted, PodListed
from kubeledger.model.record import Record

__all__ = ["NAMING_KINDS", "Names"]

NAMING_KINDS = frozenset(
    {
        PodListed.kind,
        "lifecycle.PodConfigChanged",
        ContainerStarted.kind,
        ContainerRestarted.kind,
    }
)
"""Kinds of records that show which name an ID stands for."""

_ID = re.compile(
    # After ``pod``, as in names of cgroups, too: its last letter is no digit of the ID.
    r"(?<!po)(?:[0-9a-f]{64}|[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})"
)


class Names:
    """Names of the IDs of one history."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._names: dict[str, str] = {}
        for record in records:
            body: Any = record.body
            pod = f"{body.namespace}/{body.pod}"
            if body.pod_uid:
                self._names[body.pod_uid] = f"<{pod}>"
            if getattr(body, "container_id", None):
                container = getattr(body, "container", None) or "sandbox"
                self._names[body.container_id] = f"<{pod}/{container}>"

    def comparable(self, record: Record) -> tuple[str, dict[str, Any]]:
        """Subject and body of a record, with names in place of IDs."""
        body = self._named(msgspec.to_builtins(record.body))
        return self._text(subject_of(body)), body

    def _named(self, value: Any) -> Any:  # noqa: ANN401 # any JSON value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return {self._text(key): self._named(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._named(item) for item in value]
        return value

    def _text(self, text: str) -> str:
        return _ID.sub(self._name, text) if len(text) >= 32 else text

    def _name(self, match: re.Match[str]) -> str:
        found = match[0]
        return self._names.get(found) or self._names.get(found.replace("_", "-")) or found
