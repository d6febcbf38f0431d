"""From lines of the topology manager to hints and affinities."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kubeledger.ingest.correlate.assembler import Assembler, Method, nothing
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.entry import Entry
from kubeledger.ingest.correlate.topology_admissions import REASON, REFUSAL, Admissions, Subject
from kubeledger.ingest.klog.line_values import split_pod, split_pod_text
from kubeledger.ingest.messages.heartbeat import HEARTBEAT
from kubeledger.ingest.messages.topology_hints import hint_of, hints_of
from kubeledger.ingest.sources.items import KubeletConfigFile
from kubeledger.model.bodies.topologymanager import Hint

__all__ = ["TopologyAssembler"]

_UID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class TopologyAssembler(Assembler):
    """Hints and affinities, by container or by pod."""

    def __init__(self, context: BundleContext) -> None:
        super().__init__(context)
        self._admissions = Admissions(context, self.queue)
        self._policy_logged = False

    def messages(self) -> Mapping[str, Method]:
        """Message -> method for structured lines."""
        merged = partial(self._hinted, self._admissions.merged)
        return {
            **dict.fromkeys(HEARTBEAT, nothing),
            "Creating topology manager with policy per scope": self._created,
            "Creating topology manager with none policy": self._created,
            "TopologyHints": self._hints,
            "Hint Provider has no preference for NUMA affinity with resource": (
                partial(self._found, True)
            ),
            "Hint Provider has no possible NUMA affinities for resource": (
                partial(self._found, False)
            ),
            "ContainerTopologyHint": merged,
            "Topology Affinity": partial(self._hinted, self._admissions.stored),
            "Status Manager: adding pod": self._status,
            "Status Manager: syncing pod": self._status,
            "Pod Admit Result": self._result,
            "Pod admission denied": self._result,
            "Event occurred": self._event,
        }

    def takes(self) -> Mapping[type, Callable[[Any], None]]:
        """Configuration files."""
        return {KubeletConfigFile: self._config}

    def waiting_since(self) -> int | None:
        """Time of the oldest fact that is held back; None when nothing is."""
        since = (self._admissions.waiting_since(), super().waiting_since())
        return min((ts_ns for ts_ns in since if ts_ns is not None), default=None)

    def before(self, ts_ns: int, pid: int | None = None) -> None:
        """What runs out with time."""
        self._admissions.release(ts_ns)

    def end(self, ts_ns: int) -> None:
        """The log ends."""
        self._admissions.finish()

    def _config(self, item: KubeletConfigFile) -> None:
        # The log shows what is in force; the file is only asked when the log does not.
        if not self._policy_logged:
            self._admissions.policy = str(item.config.get("topologyManagerPolicy") or "none")

    def _created(self, entry: Entry) -> None:
        self._policy_logged = True
        self._admissions.policy = entry.get("topologyPolicyName") or "none"

    def _hints(self, entry: Entry) -> None:
        hints, unclear = hints_of(entry.values.get("hints"))
        self._admissions.offered(entry, self._subject(entry), hints, unclear)

    def _found(self, possible: bool, entry: Entry) -> None:
        if resource := entry.get("resource"):
            self._admissions.found(entry, resource, possible=possible)

    def _hinted(self, note: Callable[[Entry, Subject, Hint], None], entry: Entry) -> None:
        """A line with the merged hint, or with the affinity that is stored."""
        hint = hint_of(entry.values.get("bestHint", entry.values.get("affinity")))
        if hint is not None:
            note(entry, self._subject(entry), hint)

    def _result(self, entry: Entry) -> None:
        if REFUSAL in entry.text("message"):
            self._admissions.refused(entry, self._subject(entry))

    def _status(self, entry: Entry) -> None:
        if REFUSAL in entry.text("status"):
            self._admissions.refused(entry, Subject(uid=entry.get("podUID")))

    def _event(self, entry: Entry) -> None:
        if entry.values.get("kind") == "Pod" and entry.values.get("reason") == REASON:
            subject = Subject(*split_pod(entry.get("object")), entry.get("podUID"))
            self._admissions.refused(entry, subject)

    def _subject(self, entry: Entry) -> Subject:
        """1.20 writes ``name_namespace(uid)``, 1.19 the name in one line and the UID in another."""
        text, container = entry.get("pod"), entry.get("containerName")
        namespace, name = split_pod(text)
        if name is not None or text is None:
            return Subject(namespace, name, entry.get("podUID"), container)
        namespace, name, uid = split_pod_text(text)
        if name is not None and namespace is not None:
            if uid:
                self.context.learn_uid(namespace, name, uid, entry.ts_ns, entry.evidence)
            return Subject(namespace, name, uid, container)
        if _UID.fullmatch(text):
            return Subject(uid=text, container=container)
        return Subject(pod=text or None, container=container)
