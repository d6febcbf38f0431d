"""A bundle that comes in pieces: what the ledger kept of earlier ones is read again with the new.

What a node's files show follows from all of them: a pod list names the pod of a log line, a
checkpoint the NUMA nodes of a grant, a spec the threshold of a probe. So an import of one more
piece reads the pieces before it, too, as one bundle; which of the earlier records still follow
from it is reported record by record (``ingest``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from kubeledger.ingest.carried import Surveys
from kubeledger.ingest.klog.log_survey import survey_log
from kubeledger.ingest.planning.bundle import Bundle, FoundFile, ImportOptions, drop_copies
from kubeledger.ingest.planning.plan import Plan, has_version, make_plan
from kubeledger.ingest.sources.detect import opened
from kubeledger.ingest.sources.envelope.forms import LOG_FORMATS
from kubeledger.ingest.sources.streams import SourceFile, digest_chunks
from kubeledger.ingest.standing import same_name
from kubeledger.ledger.kept import REREAD_BYTES_MAX, KeptImport, KeptSource, KeptSources
from kubeledger.model.errors import BadInputError

_Value = TypeVar("_Value")


def plan_with_kept(
    piece: Plan,
    options: ImportOptions,
    store: KeptSources,
    kept: Sequence[KeptImport],
    surveys: Surveys | None = None,
) -> Plan:
    """Plan the import of a piece together with what was kept of earlier ones.

    Args:
        piece: the plan of what is new.
        options: of the user.
        store: where contents stand.
        kept: earlier imports in their order.
        surveys: of logs among them whose contents are not read, nor proved, nor counted.

    Returns:
        the plan; ``piece`` itself where nothing was kept, or all of it is too much.

    Raises:
        BadInputError: as ``make_plan``.
    """
    known_digests = () if surveys is None else surveys.digests
    sources = (source for known in kept for source in known.sources)
    size = sum(source.size_bytes for source in sources if source.digest not in known_digests)
    if not kept or size + _size_of(piece) > REREAD_BYTES_MAX:
        return piece
    bundle = piece.bundle
    merged_bundle = msgspec.structs.replace(
        bundle, files=list(bundle.files), skipped=dict(bundle.skipped), findings=[]
    )
    merged_bundle.findings += bundle.findings
    given_ts: dict[str, int] = {}
    reread: list[KeptImport] = []
    for known in reversed(kept):
        found = _found(known, store, surveys)
        if found is not None:
            reread.append(known)
            for file, source in found:
                _add(file, source, merged_bundle, given_ts)
    names = (bundle.name, *(known.name for known in reread))
    merged_bundle.name = next((name for name in names if has_version(name)), bundle.name)
    merged_bundle.files.sort(key=lambda file: file.source.name)
    drop_copies(merged_bundle)
    merged = msgspec.structs.replace(
        options,
        node=piece.context.node,
        kubelet_version=_first(options.kubelet_version, *(k.kubelet_version for k in reread)),
        year=_first(options.year, *(known.year for known in reread)),
    )
    plan = make_plan(merged_bundle, merged, given_ts)
    plan.sources, plan.digest = piece.sources, piece.digest
    plan.reread = frozenset(known.digest for known in reread)
    return plan


def keep_sources(
    piece: Plan, plan: Plan, options: ImportOptions, store: KeptSources, number: int
) -> None:
    """Keep the sources of an import for those after it; of too much, which logs they were.

    Args:
        piece: the plan of what is new.
        plan: that of all that is read.
        options: of the user.
        number: how many imports there were before.

    Raises:
        LedgerUnavailableError: they cannot be written.
        BadInputError: a source cannot be read.
    """
    has_contents = _size_of(plan) <= REREAD_BYTES_MAX
    files = piece.bundle.files
    spans = plan.timing.spans
    span = (plan.timing.first_ts_ns, plan.timing.last_ts_ns)
    sources = tuple(
        KeptSource(
            file=file.source.name,
            format=file.format,
            size_bytes=file.digests.size,
            digest=file.digests.digest,
            mtime_ns=file.source.mtime_ns,
            first_ts_ns=spans.get(file.source.name, span)[0],
            last_ts_ns=spans.get(file.source.name, span)[1],
        )
        for file in sorted(files, key=lambda file: file.source.name)
    )
    kept = KeptImport(
        digest=plan.digest,
        number=number,
        name=piece.bundle.name,
        kubelet_version=options.kubelet_version,
        year=options.year,
        sources=sources,
        has_contents=has_contents,
    )
    contents = files if has_contents else []
    store.keep(kept, ((file.digests.digest, file.source.stored_chunks()) for file in contents))


def plan_of_kept(known: KeptImport, store: KeptSources, node: str) -> Plan | None:
    """Plan an import again from what was kept of it; None where that is damaged.

    Args:
        store: where contents stand.
    """
    found = _found(known, store)
    if found is None:
        return None
    files = sorted((file for file, _ in found), key=lambda file: file.source.name)
    bundle = Bundle(known.name, known.name, files, {}, [], node=node)
    return make_plan(bundle, options_of_kept(known, node), {})


def options_of_kept(known: KeptImport, node: str) -> ImportOptions:
    """The options that the user gave for it."""
    return ImportOptions(node=node, kubelet_version=known.kubelet_version, year=known.year)


def _size_of(plan: Plan) -> int:
    return sum(file.digests.size for file in plan.bundle.files)


def _found(
    known: KeptImport, store: KeptSources, surveys: Surveys | None = None
) -> list[tuple[FoundFile, KeptSource]] | None:
    """The files of an earlier import; None where one of them is not what was kept."""
    found = []
    for source in known.sources:
        content = SourceFile(source.file, store.content(source.digest), source.mtime_ns)
        surveyed = None if surveys is None else surveys.file(source, content)
        if surveyed is not None:
            found.append((surveyed, source))
            continue
        try:
            file = opened(content, source.format)
            survey = survey_log(file, []) if source.format in LOG_FORMATS else None
            digests = survey.digests if survey is not None else digest_chunks(file.stored_chunks())
        except BadInputError:
            return None
        if digests.digest != source.digest:
            return None
        found.append((FoundFile(file, source.format, digests, survey), source))
    return found


def _add(
    file: FoundFile, source: KeptSource, merged_bundle: Bundle, given_ts: dict[str, int]
) -> None:
    """Add an earlier file to newer ones, unless it is one of them."""
    name, digest = source.file, source.digest
    is_log = source.format in LOG_FORMATS
    for other in merged_bundle.files:
        same = other.digests.digest == digest
        if same and (is_log or same_name(other.source.name, name)):
            return
    if any(other.source.name == name for other in merged_bundle.files):
        # An older state of that file: what shows no time of its own was read then.
        file.source.name = f"{name}~{digest[:8]}"
        given_ts[file.source.name] = source.first_ts_ns
    merged_bundle.files.append(file)


def _first(*values: _Value | None) -> _Value | None:
    return next((value for value in values if value is not None), None)
