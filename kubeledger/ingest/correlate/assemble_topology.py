"""From lines of the topology manager to hints and affinities."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kubeledger.ingest.correlate.assembler import (
    ItemHandler,
    StructuredHandler,
)
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.holdback import Holdback
from kubeledger.ingest.correlate.queued import (
    LineMethod,
    QueuedAssembler,
    nothing,
)
from kubeledger.ingest.correlate.topology_admissions import REASON, REFUSAL, Admissions, Subject
from kubeledger.ingest.klog.line_values import split_pod, split_pod_text, text_of
from kubeledger.ingest.messages.heartbeat import HEARTBEAT
from kubeledger.ingest.messages.topology_hints import hint_of, hints_of
from kubeledger.ingest.sources.facts import Facts
from kubeledger.ingest.sources.items import Item, KubeletConfigFile, LogLine

__all__ = ["TopologyAssembler"]

_UID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class TopologyAssembler(QueuedAssembler):
    """Hints and affinities, by container or by pod."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context, Holdback())
        self._admissions = Admissions(context, self.queue)
        self._policy_logged = False

    def structured(self) -> Mapping[str, StructuredHandler]:
        """Message -> method for structured lines."""
        methods: dict[str, LineMethod] = dict.fromkeys(HEARTBEAT, nothing)
        methods |= {
            "Creating topology manager with policy per scope": self._created,
            "Creating topology manager with none policy": self._created,
            "TopologyHints": self._hints,
            "Hint Provider has no preference for NUMA affinity with resource": (
                lambda line: self._found(line, possible=True)
            ),
            "Hint Provider has no possible NUMA affinities for resource": (
                lambda line: self._found(line, possible=False)
            ),
            "ContainerTopologyHint": self._merged,
            "PodTopologyHint": self._merged,
            "Best TopologyHint": self._merged,
            "Topology Affinity": self._stored,
            "Pod Admit Result": self._result,
            "Pod admission denied": self._result,
            "Status Manager: adding pod": self._status,
            "Status Manager: syncing pod": self._status,
            "Event occurred": self._event,
        }
        return self.then_release(methods)

    def items(self) -> Mapping[type, ItemHandler]:
        """Item type -> method."""
        return {KubeletConfigFile: self._config}

    def waiting_since(self) -> int | None:
        """Time of the oldest fact that is held back; None when nothing is."""
        since = (self._admissions.waiting_since(), super().waiting_since())
        return min((ts_ns for ts_ns in since if ts_ns is not None), default=None)

    def before(self, line: LogLine) -> None:
        """What runs out with time, before what is due leaves."""
        self._admissions.release(line.ts_ns)

    def finish(self, ts_ns: int) -> Facts:
        """What still waits."""
        self._admissions.finish()
        return self.queue.drain()

    def _config(self, item: Item) -> None:
        assert isinstance(item, KubeletConfigFile)
        # The log tells what is in force; the file is only asked when the log does not.
        if not self._policy_logged:
            self._admissions.policy = str(item.config.get("topologyManagerPolicy") or "none")

    def _created(self, line: LogLine) -> None:
        self._policy_logged = True
        self._admissions.policy = text_of(line, "topologyPolicyName") or "none"

    def _hints(self, line: LogLine) -> None:
        hints, unclear = hints_of((line.values or {}).get("hints"))
        self._admissions.offered(line, self._subject(line), hints, unclear)

    def _found(self, line: LogLine, *, possible: bool) -> None:
        if resource := text_of(line, "resource"):
            self._admissions.found(line, resource, possible=possible)

    def _merged(self, line: LogLine) -> None:
        hint = hint_of(_hint_value(line))
        if hint is not None:
            self._admissions.merged(line, self._subject(line), hint)

    def _stored(self, line: LogLine) -> None:
        hint = hint_of(_hint_value(line))
        if hint is not None:
            self._admissions.stored(line, self._subject(line), hint)

    def _result(self, line: LogLine) -> None:
        if REFUSAL in (text_of(line, "Message", "message") or ""):
            self._admissions.refused(line, self._subject(line))

    def _event(self, line: LogLine) -> None:
        values = line.values or {}
        if values.get("kind") == "Pod" and values.get("reason") == REASON:
            pod = split_pod(text_of(line, "object"))
            self._admissions.refused(line, Subject(*pod, text_of(line, "podUID")))

    def _status(self, line: LogLine) -> None:
        if REFUSAL in (text_of(line, "status") or ""):
            self._admissions.refused(line, Subject(uid=text_of(line, "podUID")))

    def _subject(self, line: LogLine) -> Subject:
        """1.20 writes ``name_namespace(uid)``, 1.19 the name in one line and the UID in another."""
        text, container = text_of(line, "pod"), text_of(line, "containerName")
        namespace, name = split_pod(text)
        if name is not None or text is None:
            return Subject(namespace, name, text_of(line, "podUID"), container)
        namespace, name, uid = split_pod_text(text)
        if name is not None and namespace is not None:
            if uid:
                self.context.learn_uid(namespace, name, uid, line.ts_ns, line.evidence)
            return Subject(namespace, name, uid, container)
        if _UID.fullmatch(text):
            return Subject(uid=text, container=container)
        return Subject(pod=text or None, container=container)


def _hint_value(line: LogLine) -> Any:  # noqa: ANN401 - any decoded value
    values = line.values or {}
    return values.get("bestHint", values.get("affinity"))
