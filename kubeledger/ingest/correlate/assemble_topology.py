"""From lines of the topology manager to hints and affinities."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kubeledger.ingest.correlate.assembler import (
    FreeTextHandler,
    ItemHandler,
    StructuredHandler,
)
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.holdback import Holdback
from kubeledger.ingest.correlate.queued import (
    LineMethod,
    MatchMethod,
    QueuedAssembler,
    nothing,
    nothing_matched,
)
from kubeledger.ingest.correlate.topology_admissions import REASON, REFUSAL, Admissions, Subject
from kubeledger.ingest.klog.line_values import split_pod, split_pod_text, text_of
from kubeledger.ingest.messages.heartbeat import HEARTBEAT, HEARTBEAT_FREE
from kubeledger.ingest.messages.topology_hints import hint_of, hints_of
from kubeledger.ingest.sources.facts import Facts
from kubeledger.ingest.sources.items import Item, KubeletConfigFile, LogLine

__all__ = ["TopologyAssembler"]

_TAG = r"\[topologymanager\] "
_UID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OLD_EVENT = (
    r'Event\(v1\.ObjectReference\{Kind:"Pod", Namespace:"(?P<namespace>[^"]*)", '
    rf'Name:"(?P<name>[^"]*)", UID:"(?P<uid>[^"]*)".*?\}}\): type: \'Warning\' reason: \'{REASON}\''
)
_FILES = ("topology_manager.go", "scope_container.go", "scope_pod.go")


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
            "Event occurred": self._event,
        }
        return self.then_release(methods)

    def free_text(self) -> Mapping[str, Sequence[tuple[re.Pattern[str], FreeTextHandler]]]:
        """``file.go`` -> patterns and methods for free text; files moved between versions."""
        admission: list[tuple[str, MatchMethod]] = [
            (rf"{_TAG}Creating topology manager with (?P<policy>\S+) policy", self._created_text),
            (
                rf"{_TAG}TopologyHints for pod '(?P<pod>[^']*)'(?:, container '(?P<container>"
                r"[^']*)')?: (?P<hints>map\[.*\])",
                self._hints_text,
            ),
            (
                rf"{_TAG}(?:Container|Pod)TopologyHint: (?P<pod>)(?P<container>)(?P<hint>\{{.*\}})",
                self._merged_text,
            ),
            (
                rf"{_TAG}Best TopologyHint for \(pod: (?P<pod>\S+?)"
                r"(?: container: (?P<container>\S+))?\): (?P<hint>\{.*\})",
                self._merged_text,
            ),
            (
                rf"{_TAG}Topology Affinity for \(pod: (?P<pod>\S+?)"
                r"(?: container: (?P<container>\S+))?\): (?P<hint>\{.*\})",
                self._stored_text,
            ),
        ]
        tables: dict[str, list[tuple[str, MatchMethod]]] = dict.fromkeys(_FILES, admission)
        tables["policy.go"] = [
            (
                rf"{_TAG}Hint Provider has no (?P<what>preference for NUMA affinity with"
                r"|possible NUMA affinities for) resource '(?P<resource>[^']+)'",
                self._found_text,
            )
        ]
        tables["status_manager.go"] = [
            (
                rf'Status Manager: (?:adding|syncing) pod: "(?P<uid>[^"]*)".*?{REFUSAL}',
                self._status_text,
            )
        ]
        tables["event.go"] = [(_OLD_EVENT, self._old_event)]
        tables["kubelet.go"] = [(HEARTBEAT_FREE, nothing_matched)]
        return self.then_release_matched(tables)

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
        self._set_policy(text_of(line, "topologyPolicyName") or "none")

    def _created_text(self, line: LogLine, match: re.Match[str]) -> None:
        self._set_policy(match["policy"])

    def _set_policy(self, policy: str) -> None:
        self._policy_logged = True
        self._admissions.policy = policy

    def _hints(self, line: LogLine) -> None:
        hints, unclear = hints_of((line.values or {}).get("hints"))
        self._admissions.offered(line, _subject(line), hints, unclear)

    def _hints_text(self, line: LogLine, match: re.Match[str]) -> None:
        hints, unclear = hints_of(match["hints"])
        self._admissions.offered(line, self._text_subject(line, match), hints, unclear)

    def _found(self, line: LogLine, *, possible: bool) -> None:
        if resource := text_of(line, "resource"):
            self._admissions.found(line, resource, possible=possible)

    def _found_text(self, line: LogLine, match: re.Match[str]) -> None:
        possible = match["what"].startswith("preference")
        self._admissions.found(line, match["resource"], possible=possible)

    def _merged(self, line: LogLine) -> None:
        hint = hint_of(_hint_value(line))
        if hint is not None:
            self._admissions.merged(line, _subject(line), hint)

    def _merged_text(self, line: LogLine, match: re.Match[str]) -> None:
        hint = hint_of(match["hint"])
        if hint is not None:
            self._admissions.merged(line, self._text_subject(line, match), hint)

    def _stored(self, line: LogLine) -> None:
        hint = hint_of(_hint_value(line))
        if hint is not None:
            self._admissions.stored(line, _subject(line), hint)

    def _stored_text(self, line: LogLine, match: re.Match[str]) -> None:
        hint = hint_of(match["hint"])
        if hint is not None:
            self._admissions.stored(line, self._text_subject(line, match), hint)

    def _result(self, line: LogLine) -> None:
        if REFUSAL in (text_of(line, "Message", "message") or ""):
            self._admissions.refused(line, _subject(line))

    def _event(self, line: LogLine) -> None:
        values = line.values or {}
        if values.get("kind") == "Pod" and values.get("reason") == REASON:
            self._admissions.refused(line, Subject(*split_pod(text_of(line, "object"))))

    def _old_event(self, line: LogLine, match: re.Match[str]) -> None:
        subject = Subject(match["namespace"], match["name"], match["uid"] or None)
        self._admissions.refused(line, subject)

    def _status_text(self, line: LogLine, match: re.Match[str]) -> None:
        self._admissions.refused(line, Subject(uid=match["uid"]))

    def _text_subject(self, line: LogLine, match: re.Match[str]) -> Subject:
        """1.20 writes ``name_namespace(uid)``, 1.19 the name in one line and the UID in another."""
        text, container = match["pod"], match["container"] or None
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


def _subject(line: LogLine) -> Subject:
    namespace, pod = split_pod(text_of(line, "pod"))
    return Subject(namespace, pod, text_of(line, "podUID"), text_of(line, "containerName"))
