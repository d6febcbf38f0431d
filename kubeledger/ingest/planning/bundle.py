"""Bundles: the files that one node left, told apart from other nodes' and other things."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from kubeledger.ingest.klog.log_survey import LogSurvey, survey_log
from kubeledger.ingest.sources.collect import COLLECTIONS, Collected, Place, place_of
from kubeledger.ingest.sources.detect import (
    A_RECORDING,
    FORMATS,
    NOTES,
    Detected,
    detect,
    is_log_name,
    opened,
)
from kubeledger.ingest.sources.documents import HELD_BYTES_MAX, Document, DocumentContents
from kubeledger.ingest.sources.envelope.forms import LOG_FORMATS
from kubeledger.ingest.sources.items import Finding
from kubeledger.ingest.sources.node_lines import lines_of_nodes, same_machine
from kubeledger.ingest.sources.several import kubelets_sections
from kubeledger.ingest.sources.streams import Digests, SourceFile, digest_chunks
from kubeledger.kubelet.profile.facts import is_version
from kubeledger.model.errors import BadInputError, BadQuestionError

YEAR_MIN, YEAR_MAX = 2014, 2200
"""Of a kubelet's log: the first kubelet is of 2014; later years leave room for what goes on."""

NODE_LENGTH_MAX = 253
"""Of a node's name, a DNS subdomain."""


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Overrides of detection; None: find out.

    Attributes:
        kubelet_version: ``1.36.2``; one whose rules are not known is recorded as well.
        year: year of the first klog line.
        format: of every file that is named, one of ``FORMATS``; of a directory or archive,
            the files that are of this format, and no others.
    """

    node: str | None = None
    kubelet_version: str | None = None
    year: int | None = None
    format: str | None = None

    def __post_init__(self) -> None:
        """Refuse values that mean nothing.

        Raises:
            BadQuestionError: naming the option.
        """
        if self.format is not None and self.format not in FORMATS:
            raise BadQuestionError(
                f"unknown format {self.format!r}", advice=f"one of {', '.join(FORMATS)}"
            )
        if self.year is not None and not YEAR_MIN <= self.year <= YEAR_MAX:
            raise BadQuestionError(
                f"no year of a kubelet's log: {self.year}",
                advice=f"one of {YEAR_MIN} to {YEAR_MAX}",
            )
        if self.kubelet_version is not None and not is_version(self.kubelet_version):
            raise BadQuestionError(
                f"no version of a kubelet: {self.kubelet_version!r}",
                advice="write it as `kubelet --version` does, e.g. 1.30.14",
            )
        if self.node is not None and not self.node.strip():
            raise BadQuestionError("the node name is empty")
        if self.node is not None and (
            len(self.node) > NODE_LENGTH_MAX or not self.node.isprintable()
        ):
            raise BadQuestionError(
                f"no name of a node: {self.node[:40]!r}",
                advice=f"at most {NODE_LENGTH_MAX} letters that can be printed",
            )


_UNREAD = frozenset({"not_text", "truncated", "unreadable"})
"""Findings about files of which nothing is read."""


class FoundFile(msgspec.Struct):
    """A file of a bundle that is read.

    Attributes:
        survey: a log's; None for documents.
    """

    source: SourceFile
    format: str
    digests: Digests
    survey: LogSurvey | None = None

    def at(self, ts_ns: int) -> Document:
        """It as a document of this time."""
        return Document(self.source, self.format, ts_ns, self.digests.digest)


class Bundle(msgspec.Struct):
    """The files of one node, not yet interpreted.

    Attributes:
        label: how the user named it.
        name: the directory's name: a last resort for the node's name and version.
        is_node_guessed: ``node`` is that last resort.
        files: sorted by name.
        skipped: file -> why it is not read.
        node: whose files they are, once that is known (``node_split``).
        is_tree: a directory or an archive.
        contents: what its documents hold.
    """

    label: str
    name: str
    files: list[FoundFile]
    skipped: dict[str, str]
    findings: list[Finding]
    node: str = ""
    is_node_guessed: bool = False
    is_tree: bool = False
    contents: DocumentContents = msgspec.field(default_factory=DocumentContents)

    @property
    def logs(self) -> list[LogSurvey]:
        """Surveys of the kubelet's logs."""
        return [file.survey for file in self.files if file.survey is not None]


def find_bundles(
    collected: Sequence[Collected],
    options: ImportOptions,
    lengths: Sequence[int] = (),
    held_bytes_max: int = HELD_BYTES_MAX,
) -> list[Bundle]:
    """The bundles among what the user named, whatever nodes they are of.

    Files named one by one are one bundle, a directory or archive is one each.

    Args:
        lengths: beginnings of logs whose digests are wanted (earlier imports' lengths).
        held_bytes_max: of documents that are not to be read again for each look at them.

    Raises:
        BadInputError: nothing among it can be used.
    """
    bundles: list[Bundle] = []
    contents = DocumentContents(held_bytes_max)
    loose = [tree for tree in collected if not tree.is_tree]
    if loose:
        bundles.append(_look(_merged(loose), options, lengths, contents))
    for tree in collected:
        if tree.is_tree:
            bundles.append(_look(tree, options, lengths, contents))
    useful = [bundle for bundle in bundles if any(f.format not in NOTES for f in bundle.files)]
    if not useful:
        raise _nothing_useful(bundles)
    _refuse_unread_logs(bundles)
    return useful


def _merged(loose: Sequence[Collected]) -> Collected:
    """Files named one by one, with names that tell them apart."""
    files = [source for tree in loose for source in tree.files]
    names = [source.name for source in files]
    for index, source in enumerate(files):
        if names.count(names[index]) > 1:
            source.name = f"{source.path.resolve().parent.name}/{source.name}"
    taken: set[str] = set()
    for source in files:
        base, number = source.name, 2
        while source.name in taken:
            source.name = f"{base}~{number}"
            number += 1
        taken.add(source.name)
    skipped = {name: why for tree in loose for name, why in tree.skipped.items()}
    label = ", ".join(tree.label for tree in loose)
    return Collected(label, False, files, skipped, loose[0].name if len(loose) == 1 else "")


def _look(
    tree: Collected, options: ImportOptions, lengths: Sequence[int], contents: DocumentContents
) -> Bundle:
    """Detect each file; logs are surveyed, since they show which node they are from."""
    bundle = Bundle(
        tree.label,
        tree.name,
        [],
        dict(tree.skipped),
        list(tree.findings),
        is_tree=tree.is_tree,
        contents=contents,
    )
    seen = _Seen({}, {})
    for source in tree.files:
        try:
            _look_at(source, tree, options, lengths, bundle, seen)
        except BadInputError as error:
            if not tree.is_tree:
                raise
            bundle.skipped[source.name] = error.message
            message = f"is not read: {error.message}"
            bundle.findings.append(Finding("unreadable", source.name, message))
    drop_copies(bundle)
    return bundle


class _Seen(NamedTuple):
    """What was found out of the files of a bundle so far.

    Attributes:
        formats: content and kind of path -> format: many files hold what others do.
        logs: digest -> the first file of this content.
    """

    formats: dict[tuple[str, str, Place | None], Detected]
    logs: dict[str, str]


def _look_at(
    source: SourceFile,
    tree: Collected,
    options: ImportOptions,
    lengths: Sequence[int],
    bundle: Bundle,
    seen: _Seen,
) -> None:
    with source.held() as content:
        digests = None if content is None else Digests.of(content)
        key = (digests.digest if digests else "", source.plain_name, place_of(source.name))
        detected = seen.formats.get(key) if digests else None
        if detected is None:
            detected = seen.formats[key] = _detected(source, tree, options)
        if detected.format is None:
            detail = detected.detail if len(tree.files) == 1 else ""
            bundle.skipped[source.name] = detected.reason + detail
            if detected.finding:
                message = f"is not read: {detected.reason}"
                bundle.findings.append(Finding(detected.finding, source.name, message))
            return
        files = _digested(source, detected.format, lengths, digests)
    if source.truncated:
        message = "the compressed stream ends early; what came before it is read"
        bundle.findings.append(Finding("truncated", source.name, message))
    for file in files:
        twin = seen.logs.get(file.digests.digest) if file.survey is not None else None
        if twin is not None:
            bundle.skipped[source.name] = f"same content as {twin}"
            return
        seen.logs[file.digests.digest] = source.name
        bundle.files.append(file)


def _detected(source: SourceFile, tree: Collected, options: ImportOptions) -> Detected:
    """The format of a file; what the user says of a directory holds for what it fits.

    A format of logs is that of the directory's logs only, one of documents that of the files
    which are such documents: nothing else in a bundle would survive being read as one.
    """
    if options.format is None:
        return detect(source)
    if not tree.is_tree:
        return Detected(options.format)
    detected = detect(source)
    if detected.format == options.format:
        return detected
    what = f"not {options.format}"
    return Detected(None, f"{what}: {detected.format or detected.reason}")


def drop_copies(bundle: Bundle) -> None:
    """Leave out logs all of whose entries another log holds, in another wrapping."""
    logs = sorted(bundle.logs, key=lambda log: (log.digests.size, log.source.name))
    for index, log in enumerate(logs):
        for other in logs[index + 1 :]:
            if _overlap(log, other) and (log.is_within(other) or other.is_within(log)):
                # The bare form is smaller, and says as much.
                copy, kept = (other, log) if other.is_within(log) else (log, other)
                bundle.skipped[copy.source.name] = f"same entries as {kept.source.name}"
                bundle.files = [file for file in bundle.files if file.survey is not copy]
                if copy is log:
                    break


def _overlap(log: LogSurvey, other: LogSurvey) -> bool:
    if not (log.first_stamp and log.last_stamp and other.first_stamp and other.last_stamp):
        return False
    hosts, others = log.writers.hosts, other.writers.hosts
    if hosts and others and not any(same_machine(a, b) for a in hosts for b in others):
        return False
    return log.first_stamp <= other.last_stamp and other.first_stamp <= log.last_stamp


def _digested(
    source: SourceFile, form: str, lengths: Sequence[int], digests: Digests | None
) -> list[FoundFile]:
    """The file; for a log of several nodes the lines of each."""
    if form not in LOG_FORMATS:
        digests = digests or digest_chunks(source.stored_chunks())
        return [FoundFile(opened(source, form), form, digests)]
    written, source = source, opened(kubelets_sections(source), form)
    survey = survey_log(source, list(lengths))
    survey.goes_back &= not written.is_as_written  # else nothing stands in another order, or twice
    writers = [each for each in survey.writers.parts() if each.hosts or not written.is_one_kubelets]
    parts = lines_of_nodes(source, writers)
    surveys = [survey_log(part, list(lengths)) for part in parts] or [survey]
    for each in surveys:  # a node that no line shows the year of has that of the others
        each.reference_ns = each.reference_ns or survey.reference_ns
    return [FoundFile(each.source, form, each.digests, each) for each in surveys]


def _refuse_unread_logs(bundles: Sequence[Bundle]) -> None:
    """A log that is there and cannot be read is an error where it would have been the only one.

    Without it the rest of the files would look like a node on which hardly anything happened.
    """
    if any(bundle.logs for bundle in bundles):
        return
    unread = [
        (bundle, finding.file)
        for bundle in bundles
        for finding in bundle.findings
        if finding.file in bundle.skipped
        and finding.finding in _UNREAD
        and is_log_name(finding.file)
    ]
    if unread:
        bundle, name = unread[0]
        more = f" (and {len(unread) - 1} more)" if len(unread) > 1 else ""
        raise BadInputError(
            f"{name} is not read: {bundle.skipped[name]}{more}; nothing is imported",
            file=bundle.label,
            advice="mend it, or name the other files one by one to import them without it",
        )


def _nothing_useful(bundles: Sequence[Bundle]) -> BadInputError:
    skipped = [(name, why) for bundle in bundles for name, why in bundle.skipped.items()]
    label = bundles[0].label if len(bundles) == 1 else None
    if len(skipped) == 1:
        name, why = skipped[0]
        if why == A_RECORDING:
            return BadInputError(
                f"is {why}",
                file=label or name,
                advice="name it to `verify`, `timeline`, `whatif`, `diff` or `completeness`, "
                "which read it as it is",
            )
        return BadInputError(
            f"holds nothing that can be imported: {why}",
            file=label or name,
            advice="give a kubelet's log (`journalctl -u kubelet -o short-iso-precise`), `kubectl "
            "get pods -o json`, or a directory with such files; docs/sources.md lists all formats",
        )
    listing = "; ".join(f"{name}: {why}" for name, why in skipped[:5])
    return BadInputError(
        f"holds nothing that can be imported; {len(skipped)} files looked at"
        + (f" ({listing})" if listing else ""),
        file=label,
        advice="looked for: a kubelet log (klog text or JSON, or a log store's rows), kernel log, "
        "device checkpoint, cpu_manager_state, memory_manager_state, dra_manager_state, "
        "allocated_pods_state, files of image_manager/, pod lists, events, node object, stats "
        "summary, metrics, cgroup values, kubelet configuration, crictl's "
        f"JSON; also in {', '.join(COLLECTIONS)}",
    )
