"""``import_sources`` and ``import_and_snapshot``: from paths to records in a ledger."""

from __future__ import annotations

import gc
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from kubeledger.ingest.ingest import NodeReport, history_of, ingest
from kubeledger.ingest.pipeline import Progress
from kubeledger.ingest.planning.bundle import ImportOptions, find_bundles
from kubeledger.ingest.planning.node_split import split_by_node
from kubeledger.ingest.planning.plan import make_plan
from kubeledger.ingest.sources.collect import collect
from kubeledger.ingest.sources.packing import spool_directory
from kubeledger.ingest.standing import known_lengths
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.recovery import CountedAnew, RecoveryReport
from kubeledger.ledger.writer import LedgerWriter
from kubeledger.model.errors import KubeledgerError
from kubeledger.replay import refresh_snapshots

__all__ = [
    "ImportOptions",
    "ImportReport",
    "NodeReport",
    "import_and_snapshot",
    "import_sources",
]


_COLLECT_AFTER = 200_000
"""New objects after which reference cycles are looked for."""


class ImportReport(msgspec.Struct):
    """What an import did, a bundle at a time.

    Attributes:
        recovery: what was put right when the ledger was opened for writing.
    """

    bundles: list[NodeReport]
    recovery: tuple[RecoveryReport | CountedAnew, ...] = ()

    @property
    def added(self) -> int:
        """Records appended."""
        return sum(bundle.added for bundle in self.bundles)


def import_and_snapshot(
    directory: Path,
    paths: Sequence[str],
    options: ImportOptions | None = None,
    progress: Progress | None = None,
) -> ImportReport:
    """Import into the ledger at ``directory``, made if need be, and bring its snapshots up to date.

    Raises:
        KubeledgerError: as ``import_sources``; a ledger that was made for nothing is removed.
    """
    was_there = directory.exists()
    ledger = Ledger.open_or_create(directory)
    try:
        report = import_sources(paths, ledger, options, progress)
    except KubeledgerError:
        if not was_there and not ledger.nodes():
            shutil.rmtree(directory, ignore_errors=True)
        raise
    for node in sorted({bundle.node for bundle in report.bundles if bundle.added}):
        refresh_snapshots(ledger, node)
    return report


def import_sources(
    paths: Sequence[str],
    ledger: Ledger,
    options: ImportOptions | None = None,
    progress: Progress | None = None,
    *,
    keep: bool = True,
) -> ImportReport:
    """Import files, directories and archives.

    All bundles are looked at before the first record of any is written.

    Args:
        options: overrides of detection.
        keep: keep the sources, so that a later import of more files of the node reads them
            together with these.

    Raises:
        BadInputError: nothing usable, mixed nodes, a file that cannot be read.
        BadQuestionError: an option makes no sense.
        LedgerBusyError, LedgerUnavailableError, DamagedLedgerError: as the ledger's.
    """
    options = options or ImportOptions()
    with _rare_collections(), spool_directory() as spool:
        collected = collect(paths, spool)
        with ledger.writer() as writer:
            lengths = _lengths(ledger, writer)
            bundles = split_by_node(find_bundles(collected, options, lengths), options)
            plans = [make_plan(bundle, options) for bundle in bundles]
            parts = Counter(plan.context.node for plan in plans)
            reports = []
            for plan in plans:
                # What is read of a node in several bundles is kept for the next of them.
                kept = keep or parts[plan.context.node] > 1
                reports.append(ingest(plan, ledger, writer, options, progress, keep=kept))
            return ImportReport(reports, writer.recovery)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Reference cycles are looked for rarely: an import makes many objects and hardly a cycle.

    Of imports in several threads the first alone changes that, and changes it back.
    """
    before = gc.get_threshold()
    if before[0] == _COLLECT_AFTER:
        yield
        return
    gc.set_threshold(_COLLECT_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _lengths(ledger: Ledger, writer: LedgerWriter) -> list[int]:
    """Lengths of all logs that were imported, of any node: whose a log is comes later."""
    sources = []
    for node in ledger.nodes():
        sources += history_of(ledger, writer, node).imported
    return known_lengths(sources)
