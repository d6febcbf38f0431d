"""A log line as an assembler reads it."""

from __future__ import annotations

import re
from typing import Any

from kubeledger.ingest.correlate.context import Subject
from kubeledger.ingest.klog.forms import go_text, split_pod, split_pod_text
from kubeledger.ingest.messages.podref import (
    EventLine,
    PodRef,
    bare_container_id,
    container_of_event,
    structured_pod,
    structured_pods,
)
from kubeledger.ingest.sources.items import LogLine
from kubeledger.kubelet.kube.resources import UID
from kubeledger.model.record import Evidence
from kubeledger.model.units import integer

_UID = re.compile(UID)


class Entry:
    """One log line as an assembler reads it.

    Attributes:
        message: in the words in which it was asked for; ``line.message`` as it stands.
        values: of its keys; of free text those of the structured line that came in its place.
    """

    __slots__ = ("line", "message", "values")

    def __init__(self, line: LogLine, message: str) -> None:
        self.line = line
        self.message = message
        self.values: dict[str, Any] = line.values or {}

    @property
    def ts_ns(self) -> int:
        return self.line.ts_ns

    @property
    def evidence(self) -> Evidence:
        return self.line.evidence

    def get(self, *keys: str) -> str | None:
        """The first of these values that is there, as Go prints it; None when none is."""
        for key in keys:
            value = self.values.get(key)
            if value is not None:
                return go_text(value)
        return None

    def text(self, *keys: str) -> str:
        """The same; empty when none is there."""
        return self.get(*keys) or ""

    def told(self, key: str) -> str:
        """The same, for what only tells it: of a text in which the line was cut, what is left."""
        begun = getattr(self.values, "begun", None)
        if begun is not None and begun[0] == key:
            return f"{begun[1].removesuffix('>').rstrip()}…"  # a pager's mark of a chopped line
        return self.text(key)

    def number(self, key: str) -> int | None:
        """A value as a whole number; None when it is none."""
        return integer(self.values.get(key))

    @property
    def pod(self) -> PodRef | None:
        """The pod that ``pod`` and ``podUID`` name."""
        return structured_pod(self.values.get("pod"), self.values.get("podUID"))

    @property
    def pods(self) -> list[PodRef]:
        """The pods that ``pods`` names."""
        return structured_pods(self.values.get("pods"))

    @property
    def subject(self) -> Subject:
        """Whom the line names, as far as it does.

        1.20 writes ``name_namespace(uid)``; 1.19 the name in one line and the UID in another.
        """
        text, uid = self.get("pod"), self.get("podUID")
        namespace, name = split_pod(text)
        if name is None and text:
            namespace, name, logged_uid = split_pod_text(text)
            uid = uid or logged_uid
            if name is None and _UID.fullmatch(text):
                uid = text
            elif name is None:
                name = text
        return Subject(namespace, name, uid, self.get("containerName"))

    @property
    def event_subject(self) -> Subject:
        """The object of an event."""
        return Subject(*split_pod(self.get("object")), self.get("podUID"))

    @property
    def container_id(self) -> str | None:
        """The bare ID under ``containerID``."""
        return bare_container_id(self.values.get("containerID"))

    def event(self) -> EventLine | None:
        """What an ``Event occurred`` line tells; None when it is not about a pod."""
        pod = structured_pod(self.values.get("object"), self.values.get("podUID"))
        if self.values.get("kind") != "Pod" or pod is None:
            return None
        message = self.text("message")
        container = container_of_event(self.text("fieldPath"), message)
        return EventLine(pod, container, self.text("type"), self.text("reason"), message)
