"""All that is found out about a bundle before its first record is written."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import msgspec

from kubeledger.ingest.correlate.context import BundleContext, ContainerRef
from kubeledger.ingest.correlate.list_signs import ListSigns
from kubeledger.ingest.correlate.survey import fill_context
from kubeledger.ingest.klog.log_survey import LogSurvey, VersionMark
from kubeledger.ingest.planning.bundle import Bundle, FoundFile, ImportOptions
from kubeledger.ingest.planning.kernel_dates import date_kernel_logs
from kubeledger.ingest.planning.time_order import put_in_order
from kubeledger.ingest.planning.timing import Timing, mark_time, starts_of, timing_of
from kubeledger.ingest.sources.documents import DocumentContents, read_document
from kubeledger.ingest.sources.envelope.forms import LOG_FORMATS
from kubeledger.ingest.sources.items import (
    ApiEvent,
    Finding,
    Item,
    KernelReports,
    LogLine,
    NodeObject,
    PodList,
    StatsSummary,
)
from kubeledger.ingest.sources.node_lines import same_machine
from kubeledger.kubelet.profile.facts import NEWEST, OLDEST, by_source, is_known_version
from kubeledger.model.bodies.ledger import Source
from kubeledger.model.errors import BadInputError
from kubeledger.model.patterns import regex

VersionSource = Literal["option", "log", "metrics", "node", "caller", "name"]

_BUILD_INFO = regex(rb'kubernetes_build_info\{[^}]*git_version="(v[^"]+)"')
_RELEASE = regex(r"v?(\d+\.\d+\.\d+)(?:$|[-+])")
_NOTED = regex(r"v?1\.\d{1,2}\.\d{1,3}(?:[-+][\w.+-]*)?(?![\d.])")
_IN_NAME = regex(r"(?<![\d.])v?(1\.\d{1,2}\.\d{1,2})(?![\d.])")


class KubeletVersion(msgspec.Struct, frozen=True):
    """A kubelet's version and how it is known.

    Attributes:
        version: ``1.36.2``; None when nothing shows it.
        text: what the kubelet calls itself.
        pid, ts_ns: the process that logged it, and when.
    """

    version: str | None
    source: VersionSource | None
    text: str | None = None
    pid: int | None = None
    ts_ns: int | None = None


def release_of(text: str | None) -> str | None:
    """``1.36.2`` of ``v1.36.2+k3s1``; None for a build without a version."""
    match = _RELEASE.match(text) if text else None
    return match[1] if match and not match[1].startswith("0.") else None


def has_version(name: str) -> bool:
    """Whether a directory's name holds a kubelet's version."""
    return _IN_NAME.search(name) is not None


class NamesInside(msgspec.Struct):
    """The nodes that a document names.

    Attributes:
        own: it is of this node: statistics, or the kubelet's own list of pods.
        objects: it holds the objects of these.
        listed: node -> names of pods on it, from lists and events of the API server.
        host: of the machine, as a collection notes it, or a kernel's log names it; a node may be
            called otherwise.
    """

    own: set[str] = set()
    objects: set[str] = set()
    listed: dict[str, set[str]] = {}
    host: str = ""


def name_of_bundle(bundle: Bundle) -> str:
    """The node's name by the directory's, if nothing else has it."""
    return _IN_NAME.sub("", bundle.name).strip("-_. ") or "node"


def names_inside(file: FoundFile, contents: DocumentContents) -> NamesInside:
    """The nodes that a document names; what is malformed is reported later, and names none."""
    names = NamesInside()
    if file.format == "node-name":
        with suppress(BadInputError):
            names.host = _note_of(file).partition("\n")[0].strip()
    if file.format in ("node", "stats-summary", "pod-list", "events", "kernel-log"):
        with suppress(BadInputError, AttributeError, TypeError):
            for item in read_document(file.at(0), contents)[0]:
                _take_names(names, item)
    return names


def _take_names(names: NamesInside, item: Item) -> None:
    match item:
        case NodeObject():
            name = (item.node.get("metadata") or {}).get("name")
            names.objects |= {str(name)} if name else set()
        case StatsSummary():
            name = (item.data.get("node") or {}).get("nodeName")
            names.own |= {str(name)} if name else set()
        case PodList():
            for pod in item.pods:
                name = (pod.get("spec") or {}).get("nodeName")
                if name and item.listed_by == "kubelet":
                    names.own.add(str(name))
                elif name:
                    pods = names.listed.setdefault(str(name), set())
                    pods.add(str((pod.get("metadata") or {}).get("name") or ""))
        case ApiEvent():
            if item.event.component == "kubelet" and item.event.host:
                names.listed.setdefault(item.event.host, set()).add(item.event.key[2])
        case KernelReports():
            hosts = {report.host: set[str]() for report in item.reports if report.host}
            if len(hosts) == 1:
                names.host = next(iter(hosts))
            names.listed |= hosts if len(hosts) > 1 else {}
        case _:
            return


def _note_of(file: FoundFile) -> str:
    return file.source.content().decode("utf-8", "replace").strip()


def kubelet_version(bundle: Bundle, options: ImportOptions) -> KubeletVersion:
    """The version of the bundle's (first) kubelet, from the surest source that has it."""
    if options.kubelet_version is not None:
        return KubeletVersion(options.kubelet_version.removeprefix("v"), "option")
    text = None
    for survey in bundle.logs:
        for mark in survey.versions:
            text = text or mark.text
            if mark.release:
                return KubeletVersion(mark.release, "log", mark.text)
    for source, version in _versions_elsewhere(bundle):
        release = release_of(version)
        if release:
            return KubeletVersion(release, source, version)
        text = text or version
    for noted in _notes(bundle):
        return KubeletVersion(release_of(noted), "name", noted)
    for survey in bundle.logs:
        if survey.caller_version:
            return KubeletVersion(survey.caller_version, "caller", text)
    match = _IN_NAME.search(bundle.name)
    if match:
        return KubeletVersion(match[1], "name", text)
    return KubeletVersion(None, None, text)


def _notes(bundle: Bundle) -> Iterator[str]:
    """Versions that a collection notes in files of their own."""
    for file in bundle.files:
        if file.format == "kubelet-version" and (found := _NOTED.search(_note_of(file))):
            yield found[0]


def _versions_elsewhere(bundle: Bundle) -> Iterator[tuple[VersionSource, str | None]]:
    for file in bundle.files:
        if file.format == "metrics":
            match = _BUILD_INFO.search(file.source.content())
            if match:
                yield "metrics", match[1].decode("utf-8", "replace")
    for file in bundle.files:
        if file.format == "node":
            for item in read_document(file.at(0), bundle.contents)[0]:
                if isinstance(item, NodeObject) and _may_be_of(item, bundle.node):
                    info: dict[str, Any] = (item.node.get("status") or {}).get("nodeInfo") or {}
                    yield "node", info.get("kubeletVersion")


def _may_be_of(item: NodeObject, node: str) -> bool:
    """A cluster's list holds the objects of all nodes."""
    name = (item.node.get("metadata") or {}).get("name")
    return not name or not node or same_machine(str(name), node)


class Plan(msgspec.Struct):
    """One import: a bundle, whose it is, when it was, and what is odd about it.

    Attributes:
        digest: identity of the import.
        reread: digests of earlier imports whose kept sources it reads as well.
        recorded: digest of the recording whose sources these are; its records, of which some may
            rest on less than is known now, stay or are superseded as those of ``reread`` are.
    """

    bundle: Bundle
    context: BundleContext
    version: KubeletVersion
    timing: Timing
    findings: list[Finding]
    sources: tuple[Source, ...]
    digest: str
    reread: frozenset[str] = frozenset()
    recorded: str | None = None

    def version_at(self, line: LogLine) -> KubeletVersion:
        """Version of the kubelet process that begins with a line."""
        if self.version.source != "option":
            for survey in self.bundle.logs:
                if survey.source.name == line.source:
                    for mark in survey.versions:
                        if mark.release and not self._is_before(mark, line, survey):
                            at = mark_time(survey, mark, self.timing.year, self.timing.offset_ns)
                            return KubeletVersion(mark.release, "log", mark.text, mark.pid, at)
        return self.version

    def _is_before(self, mark: VersionMark, line: LogLine, survey: LogSurvey) -> bool:
        """A version was stated before a line, by place or, where lines are reordered, by time."""
        if survey.source.keeps_places:
            return mark.offset < line.offset
        ts_ns = mark_time(survey, mark, self.timing.year, self.timing.offset_ns)
        return ts_ns is not None and ts_ns < line.ts_ns


def make_plan(
    bundle: Bundle, options: ImportOptions, given_ts: Mapping[str, int] | None = None
) -> Plan:
    """Find out whose a bundle is and when it was; nothing is written.

    Args:
        given_ts: file -> time of documents without one, where it is known.

    Raises:
        BadInputError: a file that cannot be read.
    """
    put_in_order(bundle)
    node = bundle.node
    version = kubelet_version(bundle, options)
    timing, findings = timing_of(bundle, options, given_ts or {})
    if version.version is None:
        message = (
            "no source shows the kubelet's version; decisions cannot be verified unless"
            " --kubelet-version says it"
        )
        findings.append(Finding("version_unknown", None, message))
    elif not is_known_version(version.version):
        message = (
            f"the rules of kubelet {version.version} are not known, only those of 1.{OLDEST} to"
            f" 1.{NEWEST}; decisions cannot be verified"
        )
        findings.append(Finding("version_unknown", None, message))
    elif known := by_source(version.version):
        findings.append(Finding("version_by_source", None, known))
    logged = [
        timing.spans[log.source.name][1] for log in timing.logs if log.source.name in timing.spans
    ]
    signs = ListSigns()
    context = BundleContext(
        node=node,
        kubelet_version=version.version,
        first_ts_ns=timing.first_ts_ns,
        last_ts_ns=timing.last_ts_ns,
        starts_ns=starts_of(timing),
        logged_until_ns=max(logged, default=None),
        list_signs=signs,
    )
    for file, reason in fill_context(context, timing.documents, bundle.contents).items():
        findings.append(Finding("malformed", file, f"{reason}; it is not read"))
        _leave_out(bundle, timing, file, reason)
    _take_containers(context, bundle)
    findings += signs.findings()
    findings += date_kernel_logs(context, bundle.logs, timing)
    sources = tuple(
        Source(
            file=file.source.name,
            format=file.format,
            size_bytes=file.digests.size,
            digest=file.digests.digest,
        )
        for file in sorted(bundle.files, key=lambda file: file.source.name)
    )
    digest = _identity(node, sources, options)
    return Plan(bundle, context, version, timing, bundle.findings + findings, sources, digest)


def take_logs(plan: Plan) -> None:
    """Take down what the logs have come to tell: of containers, and of kubelets that started."""
    plan.context.starts_ns = starts_of(plan.timing)
    _take_containers(plan.context, plan.bundle)


def _take_containers(context: BundleContext, bundle: Bundle) -> None:
    """What the logs show of containers, where the lists of pods do not."""
    for log in bundle.logs:
        for container_id, (uid, name) in log.containers.items():
            context.containers.setdefault(container_id, ContainerRef(uid, name))


def _leave_out(bundle: Bundle, timing: Timing, file: str, reason: str) -> None:
    bundle.skipped[file] = reason
    bundle.files = [found for found in bundle.files if found.source.name != file]
    timing.documents = [found for found in timing.documents if found.source.name != file]


def _identity(node: str, sources: Sequence[Source], options: ImportOptions) -> str:
    """Digest of an import; a log's name is no part of it, since rotation renames logs.

    A document's name is: the directory of a snapshot holds its time.
    """
    parts = sorted(
        (source.digest, "" if source.format in LOG_FORMATS else source.file) for source in sources
    )
    given = msgspec.structs.astuple(options)
    data = msgspec.json.encode([node, parts, given])
    return hashlib.blake2b(data, digest_size=32).hexdigest()
