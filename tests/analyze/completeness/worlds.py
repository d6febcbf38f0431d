"""Small worlds of which the tests know what is missing."""

from collections.abc import Sequence
from typing import Any

import msgspec

from kubeledger.analyze.completeness import ALWAYS, Completeness, Span, completeness
from kubeledger.analyze.completeness.gaps import SourceTime
from kubeledger.analyze.histories.history import history_of_reader
from kubeledger.model.bodies.ledger import ImportStarted, Source
from kubeledger.model.bodies.lifecycle import KubernetesEvent, PodListed
from kubeledger.model.bodies.node import KubeletStarted, Setting, SettingsObserved
from kubeledger.model.bodies.prober import ProbeExecuted, ProbeType, TickResult
from kubeledger.model.record import Body, Evidence, Record
from tests.verify.histories import reader

POD: dict[str, Any] = {"namespace": "shop", "pod": "web", "pod_uid": "u-web"}
FLAG_LINE = 'I1121 02:52:41.296376    8337 flags.go:59] FLAG: --v="5"'


def report(
    records: Sequence[Record], span: Span = ALWAYS, source_time: SourceTime = lambda _: None
) -> Completeness:
    history = history_of_reader("node-t", "test", reader(records))
    return completeness(history, span, source_time)


def with_text(record: Record, text: str, file: str = "kubelet.log") -> Record:
    """The record with the text of its first line of evidence replaced."""
    first = record.evidence[0]
    evidence = Evidence(file=file, line=first.line, offset=first.offset, text=text)
    return msgspec.structs.replace(record, evidence=(evidence, *record.evidence[1:]))


def started(version: str | None = "1.20.2", *, restart: bool = False) -> KubeletStarted:
    """A kubelet's start."""
    return KubeletStarted(
        pid=1, kubelet_version=version, version_source="option" if version else None,
        restart=restart,
    )  # fmt: skip


def settings(**values: object) -> SettingsObserved:
    """Settings by their names; ``v`` is the flag ``--v``."""
    return SettingsObserved(
        settings={
            {"v": "--v", "kubeconfig": "--kubeconfig"}.get(name, name): Setting(
                value=msgspec.json.encode(value).decode(), source="flag"
            )
            for name, value in values.items()
        }
    )


def imported(*sources: tuple[str, str]) -> ImportStarted:
    """The begin of an import of (file, format)."""
    return ImportStarted(
        digest="d",
        kubeledger_version="1",
        sources=tuple(
            Source(file=file, format=format_, size_bytes=1, digest=file)
            for file, format_ in sources
        ),
    )


def event(
    reason: str = "Killing",
    message: str = "m",
    *,
    api: int | None = None,
    **fields: Any,  # noqa: ANN401 # any field of the body
) -> KubernetesEvent:
    """A report about ``POD``."""
    values = {"object_kind": "Pod", **POD, "type": "Normal", **fields}
    return KubernetesEvent(reason=reason, message=message, api_count=api, **values)


def tick(
    result: TickResult = "success", probe_type: ProbeType = "readiness", container_id: str = "c1"
) -> ProbeExecuted:
    """A tick of a probe of the container ``app`` of ``POD``."""
    return ProbeExecuted(
        **POD,
        container="app",
        container_id=container_id,
        probe_type=probe_type,
        result=result,
        output=None,
    )


def spec_of(period_s: int, probe: str = "readinessProbe") -> Body:
    """``POD`` as a list of the kubelet shows it, with one probe."""
    container = {"name": "app", probe: {"periodSeconds": period_s, "timeoutSeconds": 1}}
    return PodListed(
        **POD, spec={"containers": [container]}, status=None, listed_by="kubelet"
    )  # fmt: skip
