"""All that is found out about a bundle before its first record is written."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from kubeledger.ingest.correlate.context import BundleContext, ContainerRef
from kubeledger.ingest.correlate.survey import fill_context
from kubeledger.ingest.klog.log_survey import LogSurvey, VersionMark
from kubeledger.ingest.planning.bundle import Bundle, Finding
from kubeledger.ingest.planning.identity import KubeletVersion, kubelet_version
from kubeledger.ingest.planning.kernel_dates import date_kernel_logs
from kubeledger.ingest.planning.options import ImportOptions
from kubeledger.ingest.planning.time_order import put_in_order
from kubeledger.ingest.planning.timing import Timing, mark_time, starts_of, timing_of
from kubeledger.ingest.sources.detect import LOG_FORMATS
from kubeledger.ingest.sources.items import LogLine
from kubeledger.kubelet.profile.facts import NEWEST, OLDEST, by_source, is_known_version
from kubeledger.model.bodies.ledger import Source


class Plan(msgspec.Struct):
    """One import: a bundle, whose it is, when it was, and what is odd about it.

    Attributes:
        digest: identity of the import.
        sources: what is new in it, sorted by file.
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
                            return KubeletVersion(mark.release, "log", mark.text)
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
        bundle: all that is read.
        options: overrides of detection.
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
    context = BundleContext(
        node=node,
        kubelet_version=version.version,
        first_ts_ns=timing.first_ts_ns,
        last_ts_ns=timing.last_ts_ns,
        starts_ns=starts_of(timing),
        logged_until_ns=max(logged, default=None),
    )
    for file, reason in fill_context(context, timing.documents, bundle.contents).items():
        findings.append(Finding("malformed", file, f"{reason}; it is not read"))
        _leave_out(bundle, timing, file, reason)
    _take_containers(context, bundle)
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
