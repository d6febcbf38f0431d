"""From a node's ledger to its next generation in the lake: tables, sealed ledger, marker."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import msgspec

from kubeledger.analyze.histories.history import histories_of_ledger
from kubeledger.fleet.contents import chain_of_node
from kubeledger.fleet.identity import pool_of, rules_version
from kubeledger.fleet.lake import Lake, MovedOnError, lake_file
from kubeledger.fleet.layout import (
    LAYOUT,
    LEDGERS,
    NODES,
    ledger_path,
    rows_path,
    run_id,
    summary_path,
)
from kubeledger.fleet.sealed import seal_ledger, unseal_ledger
from kubeledger.fleet.tables import WRITER, NodeTables
from kubeledger.fleet.types import Head, LakeFile, NodeSummary, SourceSeen
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.ledger import ImportCompleted
from kubeledger.model.bodies.node import KubeletStarted, NodeObserved
from kubeledger.model.errors import DamagedLedgerError
from kubeledger.remote.store import StorageError, digest_of_file
from kubeledger.verify import Outcome
from kubeledger.verify.finding import VERDICTS, Tally

_RESTORE = "`kubeledger fleet repair` makes it again"


class _File(NamedTuple):
    """A local file, and where it goes."""

    path: str
    file: Path
    rows: int | None


def fetch_ledger(lake: Lake, head: Head, directory: Path) -> None:
    """Unpack a node's ledger into a new directory.

    Raises:
        MovedOnError: a newer generation has taken its place.
        StorageError: the lake does not hold what its marker names.
        OSError: the directory cannot be written.
    """
    place = f"{_slot(ledger_path(head.node, head.id))}/"
    named = next(file for file in head.files if file.path.startswith(place))
    file = directory.with_name(f"{directory.name}.tar.zst")
    try:
        try:
            lake.store.download(named.path, file)
        except StorageError:
            if lake.store.stat(named.path) is None and lake.head(head.node) != head:
                raise MovedOnError(f"another import of {head.node} was first") from None
            raise
        if digest_of_file(file) != named.digest:
            raise StorageError(
                "it is not what was written there",
                advice=_RESTORE,
                file=lake.store.address(named.path),
            )
        unseal_ledger(file, directory)
    finally:
        file.unlink(missing_ok=True)


def commit_generation(
    lake: Lake,
    scratch: Path,
    sources: tuple[SourceSeen, ...],
    summary: NodeSummary,
    base: Head | None,
    broken: frozenset[str] = frozenset(),
) -> Head:
    """Make the ledger in ``scratch / "ledger"`` the newest generation of its node.

    Where it is that already, prove that the lake has what would be written.

    Args:
        scratch: holds the ledger, and takes the files.
        summary: what is known of the node beside its ledger.
        base: the generation that it was built upon.
        broken: paths of its files that are not what was written: others take their place.

    Raises:
        MovedOnError: another import was first.
        StorageError: the lake cannot be written, or has other files than its marker says.
        KubeledgerError: the ledger cannot be read.
        duckdb.Error, OSError: a file cannot be written.
    """
    ledger = Ledger.open(scratch / "ledger")
    chain, rules = chain_of_node(ledger, summary.name), rules_version()
    began_ns = time.process_time_ns()
    with NodeTables(scratch, summary.node) as tables:
        made_records = tables.records(ledger, summary.name)
        summary = msgspec.structs.replace(summary, pool=summary.pool or _pool(tables))
        id_ = _id(sources, chain, rules + _in_place_of(base, broken), summary)
        history = histories_of_ledger(ledger, summary.name)[0]
        clock = _Clock(history.verify())
        made_verdicts, tally = tables.verdicts(clock)
        rooms = {"records": made_records, "verdicts": made_verdicts}
        rooms |= tables.episodes(history)
        files = [
            _File(rows_path(room, made.date, summary.node, id_), made.path, made.rows)
            for room, dates in rooms.items()
            for made in dates
        ]
        files.append(_File(ledger_path(summary.node, id_), _sealed(ledger, scratch), None))
        if base is not None and base.id == id_:
            return _proved(lake, base, files)
        created: list[str] = []
        sound = [each for each in _files_of(base) if each.path not in broken]
        stored = [_stored(lake, tables, file, sound, created) for file in files]
        summary = msgspec.structs.replace(
            summary,
            **_counts(tables, tally),
            source_bytes=sum(seen.size_bytes for seen in sources),
            lake_bytes=sum(file.size_bytes for file in stored),
            verify_cpu_ms=clock.spent_ns // 1_000_000,
            write_cpu_ms=(time.process_time_ns() - began_ns - clock.spent_ns) // 1_000_000,
            chain=chain,
            rules=rules,
        )
        row = _File(summary_path(summary.node, id_), tables.summary(summary), 1)
        row_stored = _stored(lake, tables, row, (), created)
        summary = tables.read_summary(row.file)
    head = Head(
        layout=LAYOUT,
        id=id_,
        generation=1 if base is None else base.generation + 1,
        sources=sources,
        files=tuple(sorted([*stored, row_stored], key=lambda file: file.path)),
        summary=summary,
    )
    return _commit(lake, head, base, created)


def _files_of(head: Head | None) -> tuple[LakeFile, ...]:
    return () if head is None else head.files


def _in_place_of(base: Head | None, broken: frozenset[str]) -> str:
    """What distinguishes a repair's ID from others: nothing is written over what a marker names."""
    return f" in place of {base.id}" if base is not None and broken else ""


def _id(sources: Iterable[SourceSeen], chain: str, rules: str, summary: NodeSummary) -> str:
    read = [seen.identity for seen in sources]
    return run_id(read, chain, f"{rules} {WRITER}", summary.cluster, summary.pool)


def _commit(lake: Lake, head: Head, base: Head | None, created: Sequence[str]) -> Head:
    try:
        lake.commit(head, base)
    except MovedOnError:  # readers of the folders of the lake must not find them
        lake.store.delete(created)
        raise
    return head


class _Clock:
    """Outcomes, and the processor time that it took to find them."""

    def __init__(self, outcomes: Iterator[Outcome]) -> None:
        self._outcomes = outcomes
        self.spent_ns = 0

    def __iter__(self) -> Iterator[Outcome]:
        while True:
            began_ns = time.process_time_ns()
            outcome = next(self._outcomes, None)
            self.spent_ns += time.process_time_ns() - began_ns
            if outcome is None:
                return
            yield outcome


def _sealed(ledger: Ledger, scratch: Path) -> Path:
    file = scratch / "ledger.tar.zst"
    seal_ledger(ledger.path, file)
    return file


def _stored(
    lake: Lake, tables: NodeTables, made: _File, before: Sequence[LakeFile], created: list[str]
) -> LakeFile:
    """Put a file into the lake, unless it is there; what the marker is to say of it.

    A date to which nothing was added keeps its file of an earlier generation. And a file of this
    very name may have been left by a process that died: if it is sound, it counts, and the local
    one becomes its copy. It is written again all the same, for a sweep removes what is old.

    Args:
        before: sound files of the generation before.
        created: gets its path if nothing was there.
    """
    ours = lake_file(made.path, made.file, made.rows)
    for file in before:
        if _slot(file.path) == _slot(made.path) and file.digest == ours.digest:
            return file
    if lake.store.create(made.path, made.file):
        created.append(made.path)
        return ours
    left = made.file.with_name(f"left-{made.file.name}")
    lake.store.download(made.path, left)
    if _is_sound(left, ours, tables):
        left.replace(made.file)
    lake.store.replace(made.path, made.file.read_bytes())
    return lake_file(made.path, made.file, made.rows)


def _is_sound(left: Path, ours: LakeFile, tables: NodeTables) -> bool:
    """Whether a file that was left holds what ours does.

    The same bytes, but for what one input may come with in two ways: costs in a node's row, times
    of files in its ledger.
    """
    if digest_of_file(left) == ours.digest:
        return True
    place = left.with_name("unsealed")
    try:
        if ours.path.startswith(NODES):
            tables.read_summary(left)
        elif ours.path.startswith(LEDGERS):
            unseal_ledger(left, place)
        else:
            return False
    except (DamagedLedgerError, duckdb.Error, msgspec.ValidationError, ValueError):
        return False
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return True


def _proved(lake: Lake, head: Head, files: Sequence[_File]) -> Head:
    """Compare a generation with the same one made again, and its files with what was written."""
    again = {_slot(file.path): digest_of_file(file.file) for file in files}
    for file in head.files:
        is_as_written = lake.store.digest(file.path) == file.digest
        if not is_as_written or again.get(_slot(file.path), file.digest) != file.digest:
            raise StorageError(
                "it is not what was written there"
                if not is_as_written
                else "it is not what its ledger gives",
                advice=_RESTORE,
                file=lake.store.address(file.path),
            )
    return head


def _slot(path: str) -> str:
    """The directory of a file: each generation has one in it at most."""
    return path.rpartition("/")[0]


def _counts(tables: NodeTables, tally: Tally) -> dict[str, Any]:
    records, first_ts_ns, last_ts_ns = tables.span()
    # Of a log that grew the newest account covers all its lines.
    accounts = {
        account["file"]: account
        for body in tables.bodies(ImportCompleted.kind)
        for account in body["accounts"]
    }.values()
    versions = (body["kubelet_version"] for body in tables.bodies(KubeletStarted.kind))
    return {
        **{verdict: tally.count(verdict) for verdict in VERDICTS},
        "kubelet_versions": tuple(dict.fromkeys(version for version in versions if version)),
        "first_ts_ns": first_ts_ns,
        "last_ts_ns": last_ts_ns,
        "records": records,
        "decisions": tally.decisions,
        "inferred": tally.inferred.total(),
        "contradictions": tally.contradictions,
        "lines": sum(account["lines"] for account in accounts),
        "lines_not_understood": sum(account["not_understood"] for account in accounts),
    }


def _pool(tables: NodeTables) -> str | None:
    pools = (pool_of(body.get("labels") or {}) for body in tables.bodies(NodeObserved.kind))
    return next((pool for pool in reversed(list(pools)) if pool), None)
