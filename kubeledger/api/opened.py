"""An opened ledger: append, import, replay, verify, ask and draw."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubeledger.analyze.clock import parse_time
from kubeledger.api.results import Imported, NodeOutlook, Outlooks, Reasons, Verification
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.tail import Draft
from kubeledger.model.errors import BadInputError, BadQuestionError
from kubeledger.model.record import Record

if TYPE_CHECKING:
    from kubeledger.analyze.histories.history import History
    from kubeledger.analyze.sql.api import Queryable
    from kubeledger.analyze.sql.rows import Rows
    from kubeledger.ledger.writer import LedgerWriter
    from kubeledger.replay.node.state import NodeState

_BATCH = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Instant = str | int | datetime
"""A time as the command line takes it (``2026-11-21T03:07``, ``03:07``, ``+5m``, ``-2h``),
nanoseconds since the epoch, or an aware datetime."""


def open_ledger(path: str | Path) -> OpenLedger:
    """Open the ledger at ``path``; where nothing is there, the first append makes one.

    Raises:
        BadQuestionError: something else is there.
        DamagedLedgerError: it was written by a newer version.
    """
    there = Path(path)
    if there.exists() and not (there.is_dir() and not any(there.iterdir())):
        Ledger.open(there)
    return OpenLedger(there)


class OpenLedger:
    """A ledger: fill, read, replay, verify and question it. As a context manager it is closed.

    Attributes:
        path: its directory.
    """

    def __init__(self, path: Path, connect: Callable[[Path], Queryable] | None = None) -> None:
        self.path = path
        self._connect = connect
        self._queryable: Queryable | None = None

    def __enter__(self) -> OpenLedger:
        """Nothing is held open before it is needed."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Let go of the query engine, if one was started."""
        if self._queryable is not None:
            self._queryable.close()
            self._queryable = None

    @property
    def ledger(self) -> Ledger:
        """Its storage, for what has no short form here.

        Raises:
            BadQuestionError: nothing was appended yet, so there is none.
        """
        return Ledger.open(self.path)

    @property
    def nodes(self) -> list[str]:
        """Names of the nodes with records, sorted."""
        return self.ledger.nodes()

    def append(self, records: Iterable[Record | Draft], *, node: str | None = None) -> list[int]:
        """Append records; they are on disk when this returns.

        A thousand records of one node in succession are one batch: if one of them cannot be
        stored, none of its batch is, and all before it are.

        Args:
            records: records as another ledger or recording gave them, each with the number
                that its node has next, so that causes still hold; or drafts, which have none.
            node: whose, for drafts.

        Returns:
            (n,) their numbers.

        Raises:
            BadInputError: a record cannot be stored, or has another number than the next.
            BadQuestionError: drafts without a node.
            LedgerBusyError: another writer is at work.
            LedgerUnavailableError: disk full and the like.
        """
        seqs: list[int] = []
        with Ledger.open_or_create(self.path).writer() as writer:
            for name, run in groupby(records, lambda record: _node_of(record, node)):
                for batch in writer.append_batches(name, _batches(writer, name, run)):
                    seqs += batch
        return seqs

    def import_(
        self,
        *sources: str | Path,
        node: str | None = None,
        kubelet_version: str | None = None,
        year: int | None = None,
    ) -> Imported:
        """Read files, directories and archives of a node, and append what they say as records.

        Args:
            sources: as ``kubeledger import`` takes them; what was imported before adds nothing.
            node: name of the node that all of them are from; None: they say it.
            kubelet_version: of its kubelet; None: they say it.
            year: of the first log line, where the logs do not show it.

        Raises:
            BadInputError: nothing usable, or a file that cannot be read.
            KubeledgerError: as the ledger's.
        """
        from kubeledger.analyze.headlines import in_a_sentence, incidents
        from kubeledger.analyze.problems.told import told_by
        from kubeledger.ingest.api import ImportOptions, import_and_snapshot

        options = ImportOptions(node=node, kubelet_version=kubelet_version, year=year)
        report = import_and_snapshot(self.path, [str(source) for source in sources], options)
        summaries = []
        for name in sorted({each.node for each in report.bundles if each.added}):
            (history,) = self._histories(name)
            summaries.append(f"{name}: {in_a_sentence(incidents(told_by(history)))}")
        return Imported(report, tuple(summaries))

    def records(
        self, node: str | None = None, after_seq: int = 0, *, kinds: Collection[str] | None = None
    ) -> Iterator[Record]:
        """Records in the order of their numbers, one node after the other, each proved.

        Args:
            node: whose; None: all nodes'.
            after_seq: only those with a higher number.
            kinds: only those of these kinds.

        Raises:
            BadQuestionError: no such node.
            DamagedLedgerError: a record is not what was written; all before it were.
        """
        return self.ledger.records(node, after_seq, kinds=kinds)

    def state(
        self, at: Instant | None = None, *, node: str | None = None, seq: int | None = None
    ) -> NodeState:
        """State of a node at an instant.

        Args:
            at: see :data:`Instant`; None for the latest record.
            node: whose; may be left out where the ledger holds only one.
            seq: the state after this record instead of at a time.

        Raises:
            BadQuestionError: no such time, node or record, or several nodes and none named.
        """
        from kubeledger.replay import state_at

        return state_at(self.ledger, node, ts_ns=self._ns(at, node), seq=seq)

    def verify(self, *, node: str | None = None) -> Verification:
        """Decide every recorded decision again, one node after the other.

        Returns:
            to be iterated over: findings, one a decision, and contradictions, see
            :mod:`kubeledger.verify`; printed it shows counts and what is wrong.

        Raises:
            BadQuestionError: no such node, or no record at all.
        """
        histories = self._histories(node)
        return Verification(lambda: chain.from_iterable(each.verify() for each in histories))

    def why(self, target: str, *, at: Instant | None = None, node: str | None = None) -> Reasons:
        """Why something is as it is, with its evidence.

        Args:
            target: as ``kubeledger why`` takes it, e.g. ``web-0`` or ``node``.
            at: as of then, see :data:`Instant`; None for the latest record.
            node: whose records; None: all nodes'.

        Raises:
            BadQuestionError: no such target, time or node.
        """
        from kubeledger.analyze.headlines import besides_on
        from kubeledger.analyze.problems.told import told_by
        from kubeledger.analyze.why import answers_to, with_besides

        histories = self._histories(node)
        found = answers_to(target, histories, upto_ts_ns=self._ns(at, node))
        if target.partition("/")[0] == "node" and at is None:
            besides = {each.node: besides_on(told_by(each)) for each in histories}
            found = [with_besides(each, *besides[each.node]) for each in found]
        return Reasons(tuple(found))

    def whatif(
        self, *settings: str, kubelet_version: str | None = None, node: str | None = None
    ) -> Outlooks:
        """Replay the observations under other settings: which decisions would have been others.

        Args:
            settings: each ``KEY=VALUE`` as ``kubeledger whatif --set`` takes it;
                ``KEY=A|B`` makes two variants.
            kubelet_version: decide by the rules of this kubelet; None: the recorded one.
            node: whose records; None: all nodes'.

        Raises:
            BadQuestionError: nothing is changed, no such setting, value, version or node.
        """
        from kubeledger.analyze.whatif import Outlook, outlook, variants_of

        versions = () if kubelet_version is None else (kubelet_version,)
        found = []
        for history in self._histories(node):
            for variant in variants_of(history, settings, versions):
                result = Outlook(variant=variant.name)
                changes = tuple(outlook(history.read, variant, result, recorded=history.verify()))
                found.append(NodeOutlook(node=history.node, outlook=result, changes=changes))
        return Outlooks(tuple(found))

    def timeline(
        self,
        path: str | Path,
        *,
        node: str | None = None,
        pods: Collection[str] = (),
        from_: Instant | None = None,
        to: Instant | None = None,
    ) -> Path:
        """Write the timeline page: one HTML file that opens from disk.

        Args:
            path: the file; one that is there is replaced when the new one is whole.
            node: only this one; None: all, with a switch.
            pods: only these, as ``NAME`` or ``NAMESPACE/NAME``; empty: all.
            from_: only what happened since, see :data:`Instant`.
            to: only what happened until then.

        Returns:
            the path.

        Raises:
            BadQuestionError: no such node, no record, or a pod that no record is about.
            OSError: the file cannot be written.
        """
        from kubeledger.ledger.storage import TEMPORARY_SUFFIX
        from kubeledger.timeline import Scope, write_ledger_page

        scope = Scope(pods=tuple(pods), from_ns=self._ns(from_, node), to_ns=self._ns(to, node))
        page = Path(path)
        temporary = page.with_name(page.name + TEMPORARY_SUFFIX)
        try:
            with temporary.open("w", encoding="utf-8", newline="\n") as stream:
                write_ledger_page(self.path, stream, node=node, scope=scope)
            temporary.replace(page)
        finally:
            temporary.unlink(missing_ok=True)
        return page

    def sql(self, query: str, params: Mapping[str, Any] | None = None) -> Rows:
        """Run one read-only query over the views.

        Args:
            query: one SELECT; parameters as ``$name``.
            params: parameter name -> value.

        Raises:
            BadQuestionError: no single reading query, one that DuckDB refuses, or no ledger.
        """
        if self._queryable is None:
            from kubeledger.analyze.sql.api import connect

            self._queryable = (self._connect or connect)(self.path)
        return self._queryable.sql(query, params)

    def run(self, name: str, **params: Instant) -> Rows:
        """Run a shipped query (docs/sql.md lists them), e.g. ``run("pod_timeline", pod="web-0")``.

        Raises:
            BadQuestionError: no such query or time, or a parameter that is missing or not known.
        """
        from kubeledger.analyze.sql.views import find_query
        from kubeledger.model.units import format_ts

        shipped = find_query(name)
        values = shipped.bind({key: str(value) for key, value in params.items()})
        for each in shipped.parameters:
            ts_ns = self._ns(params.get(each.name)) if each.is_time else None
            values |= {} if ts_ns is None else {each.name: format_ts(ts_ns)}
        return self.sql(shipped.sql, values)

    def _ns(self, at: Instant | None, node: str | None = None) -> int | None:
        """Nanoseconds since the epoch; some texts count from the node's records."""
        if isinstance(at, str):
            return parse_time(at, partial(self.ledger.span, node))
        if not isinstance(at, datetime):
            return at
        if at.tzinfo is None:
            raise BadQuestionError(f"{at} has no zone", advice="say datetime(..., tzinfo=UTC)")
        return (at - _EPOCH) // timedelta(microseconds=1) * 1000

    def _histories(self, node: str | None) -> list[History]:
        from kubeledger.analyze.histories.history import histories_of_ledger

        return histories_of_ledger(self.ledger, node)


def _node_of(record: Record | Draft, node: str | None) -> str:
    name = record.node if isinstance(record, Record) else node
    if name is None:
        raise BadQuestionError("drafts do not say whose they are", advice="say so with node=NAME")
    return name


def _batches(
    writer: LedgerWriter, node: str, records: Iterator[Record | Draft]
) -> Iterator[list[Draft]]:
    seq = writer.next_seq(node)
    while batch := list(islice(records, _BATCH)):
        yield [_draft(record, number) for number, record in enumerate(batch, seq)]
        seq += len(batch)


def _draft(record: Record | Draft, seq: int) -> Draft:
    if isinstance(record, Draft):
        return record
    if record.seq != seq:
        raise BadInputError(f"record {record.seq} of {record.node}: the next one is {seq}")
    return Draft(record.ts_ns, record.body, record.evidence, record.cause)
