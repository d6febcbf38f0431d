"""Histories: the records of one node, wherever they stand, opened as often as one likes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from kubeledger.analyze.histories.derived import alongside, stretches_of
from kubeledger.analyze.histories.noting import (
    SUBJECT_INDEX,
    Fold,
    Life,
    Stretch,
    folded,
    latest_of,
    lives_of,
    seqs_naming,
    uids_of,
)
from kubeledger.analyze.histories.verdicts import KeptVerdicts, is_wrong
from kubeledger.ledger.base import BaseContent
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import is_superseded
from kubeledger.ledger.reader import Verify
from kubeledger.ledger.reading import DroppedMeanwhileError, Reading
from kubeledger.ledger.standalone import read_recording
from kubeledger.ledger.storage import NODES, node_directory
from kubeledger.model.record import Record
from kubeledger.replay.episodes.subjects import name_subject
from kubeledger.replay.instants import choose_node, decoded_base
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.finding import BasedReader, Reader

if TYPE_CHECKING:
    from kubeledger.analyze.histories.verdicts import Verdicts
    from kubeledger.verify import Outcome, Variant
    from kubeledger.verify.context import Verifier
    from kubeledger.verify.run import OnSeam, Start


T = TypeVar("T")


_HELD_MIN, _HELD_MAX = 100, 20_000
"""So many records are held for the next time that they are asked for."""


class Derive(Protocol):
    """Gives what is derived from all records of a history; see :mod:`.derived`."""

    def __call__(self, fold: Fold[T]) -> list[Stretch[T]]:
        """Stretch by stretch."""


Alongside = Callable[[Iterator[Record], Sequence[Fold[Any]]], Iterator[Record]]


def _derived_from(read: Reader) -> Derive:
    """Gives what is derived from records of which nothing is kept; they are read once."""
    known: dict[str, list[Stretch[Any]]] = {}

    def derive(fold: Fold[T]) -> list[Stretch[T]]:
        if fold.place not in known:
            known[fold.place] = [folded(fold, read(None))]
        return known[fold.place]

    return derive


class History(msgspec.Struct, frozen=True):
    """The records of one node.

    Attributes:
        node: its name.
        label: where they stand, for people.
        read: opens them; see :data:`kubeledger.verify.Reader`.
        pick: records by their seqs, those that are there, in the order of seq.
        span: first and last time of the records, ns.
        derive: what is derived from all of them, kept or made now.
        kept: what was found of all of them before; None: nothing is kept.
        starts: of the stretches in which they are verified; none: all are one.
        alongside: gives the same records and keeps what folds make of them; None: nothing is kept.
    """

    node: str
    label: str
    read: Reader
    pick: Callable[[Collection[int]], list[Record]]
    span: Callable[[], tuple[int, int]]
    derive: Derive
    kept: KeptVerdicts | None = None
    starts: Callable[[], list[Start]] = list
    alongside: Alongside | None = None

    def record(self, seq: int) -> Record | None:
        """One record by its seq; None when there is no such one."""
        return next(iter(self.pick((seq,))), None)

    def naming(
        self, subjects: Collection[str], kinds: Collection[str] | None = None
    ) -> Iterator[Record]:
        """Records that name one of some pods, and maybe others, in the order of replay.

        Args:
            subjects: as :func:`kubeledger.replay.episodes.subjects.naming_of` has them.
            kinds: only these; None: all.
        """
        named = self.picked(seqs_naming(subjects, self.derive(SUBJECT_INDEX)))
        return (record for record in named if kinds is None or record.kind in kinds)

    def picked(self, seqs: Sequence[int]) -> Iterator[Record]:
        """Records that are there, in the order of their numbers as they are given."""
        found = {record.seq: record for record in self.pick(seqs)}
        return (found[seq] for seq in seqs)

    def lives(self, pod: tuple[str, ...], upto_ts_ns: int | None = None) -> dict[str, Life]:
        """UID -> what is known of each pod of a name, up to a time if given, the first first.

        Args:
            pod: namespace and name, or a UID, or the name of one whose namespace nobody says.
        """
        stretches = self.derive(SUBJECT_INDEX)
        if len(pod) == 1:
            uids = {*pod, *uids_of(name_subject(None, pod[0]), stretches)}
        else:
            uids = uids_of("/".join(pod), stretches)
        if upto_ts_ns is not None:
            then = (record for record in self.naming(uids) if record.ts_ns <= upto_ts_ns)
            stretches = [folded(SUBJECT_INDEX, then)]
        return lives_of(uids, stretches)

    def latest_ns(self, kinds: Collection[str], upto_ts_ns: int | None = None) -> int | None:
        """The latest time of records of some kinds, up to a time if given; None: there is none."""
        if upto_ts_ns is None:
            return latest_of(kinds, self.derive(SUBJECT_INDEX))
        times = (record.ts_ns for record in self.read(kinds))
        return max((ts_ns for ts_ns in times if ts_ns <= upto_ts_ns), default=None)

    def noting(self, note: Callable[[Record], None]) -> History:
        """The same history; ``note`` is called with every record that is read."""

        def noted(records: Iterator[Record]) -> Iterator[Record]:
            for record in records:
                note(record)
                yield record

        return self._through(noted)

    def keeping(self, folds: Callable[[], Sequence[Fold[Any]]]) -> History:
        """The same history; who reads all of its records keeps what these folds make of them."""
        beside = self.alongside
        if beside is None:
            return self
        return self._through(lambda records: beside(records, folds()), only_whole=True)

    def up_to(self, seq: int) -> History:
        """The same history without the records after one, which a writer may append meanwhile."""
        return msgspec.structs.replace(
            self._through(lambda records: (r for r in records if r.seq <= seq)),
            derive=_derived_from(lambda kinds: (r for r in self.read(kinds) if r.seq <= seq)),
            kept=None if self.kept is None else self.kept.up_to(seq),
            starts=lambda: [start for start in self.starts() if start.seq <= seq],
            alongside=None,
        )

    def _through(
        self, each: Callable[[Iterator[Record]], Iterator[Record]], *, only_whole: bool = False
    ) -> History:
        based = self.read if isinstance(self.read, BasedReader) else None
        inner = based.read if based else self.read

        def read(kinds: Collection[str] | None) -> Iterator[Record]:
            return inner(kinds) if only_whole and kinds is not None else each(inner(kinds))

        through = BasedReader(read, based.carried, based.state) if based else read
        return msgspec.structs.replace(self, read=through)

    def begin(self) -> NodeState:
        """The state before the first record: an empty one, unless earlier ones were dropped."""
        return (
            self.read.state() if isinstance(self.read, BasedReader) else NodeState(node=self.node)
        )

    def verify(
        self,
        variant: Variant | None = None,
        verifiers: Sequence[type[Verifier]] | None = None,
    ) -> Iterator[Outcome]:
        """Decide every decision again, as recorded by default; see ``kubeledger.verify.verify``."""
        if variant is None and verifiers is None and self.kept is not None:
            return self.kept.verified(self.decided)
        return self.verified(variant, verifiers)

    def wrong(self) -> Iterator[Outcome]:
        """Of :meth:`verify` what is wrong, as recorded; what is kept is not proved again."""
        found = self.verify() if self.kept is None else self.kept.wrong(self.decided)
        return filter(is_wrong, found)

    def findings(self) -> Verdicts | None:
        """What is kept of :meth:`verify`, or comes to be now; None where some must be asked for."""
        return None if self.kept is None else self.kept.newest(self.decided)

    def verified(
        self,
        variant: Variant | None = None,
        verifiers: Sequence[type[Verifier]] | None = None,
    ) -> Iterator[Outcome]:
        """As :meth:`verify`, whatever was found before."""
        from kubeledger.verify import RECORDED, verify  # who only reads records needs no rules

        decide = RECORDED if variant is None else variant
        return verify(self.read, decide, verifiers, starts=self.starts())

    def decided(self, on_seam: OnSeam) -> Iterator[Outcome]:
        """As :meth:`verified`, as recorded; see ``verify.run.carry_on``."""
        from kubeledger.verify import verify

        return verify(self.read, starts=self.starts(), on_seam=on_seam)


def history_of_reader(node: str, label: str, read: Reader) -> History:
    """A history of records that can only be read one after the other."""

    def pick(seqs: Collection[int]) -> list[Record]:
        wanted = set(seqs)
        found: list[Record] = []
        for record in read(None) if wanted else ():
            if record.seq in wanted:
                found.append(record)
                if len(found) == len(wanted):
                    break
        return sorted(found, key=lambda record: record.seq)

    def span() -> tuple[int, int]:
        times = [record.ts_ns for record in read(None)]
        return min(times), max(times)

    return History(node, label, read, pick, span, _derived_from(read))


def span_of_histories(histories: Sequence[History]) -> tuple[int, int]:
    """First and last time of all their records, ns; there is at least one history."""
    spans = [history.span() for history in histories]
    return min(first for first, _ in spans), max(last for _, last in spans)


def histories_of_ledger(
    ledger: Ledger, node: str | None = None, verify: Verify = "chain"
) -> list[History]:
    """One history a node, sorted by name; only that of ``node`` if it is named.

    Args:
        ledger: whose records they give.
        node: its name.
        verify: what is proved of records where all are read; ``crc``: their chain was just now.

    Raises:
        BadQuestionError: there is no such node, or no record at all.
    """
    nodes = ledger.nodes() if node is None else [choose_node(ledger, node)]
    if not nodes:
        choose_node(ledger, None)

    return [_history_of_node(ledger, name, verify) for name in nodes]


def _history_of_node(ledger: Ledger, node: str, verify: Verify) -> History:
    with ledger.reading(node, 0, 0) as now:
        content = now.content()
    carried = content.records if content else []

    def read(kinds: Collection[str] | None) -> Iterator[Record]:
        with ledger.reading(node) as look:
            _refuse_another_base(look, content)
            if kinds is None:
                yield from look.replay(verify=verify)
                return
            if look.is_in_order:
                superseded = look.superseded
                records = look.records(verify="crc", kinds=kinds)
                yield from (r for r in records if not is_superseded(r.seq, superseded))
            else:  # where a record stands among others follows from all of its run before it
                yield from (r for r in look.replay(verify="crc") if r.kind in kinds)

    last: tuple[set[int], list[Record]] = set(), []

    def pick(seqs: Collection[int]) -> list[Record]:
        nonlocal last  # one question asks for the same records several times, which never change
        wanted = set(seqs)
        if not wanted:
            return []
        if wanted <= last[0]:
            return [record for record in last[1] if record.seq in wanted]
        with ledger.reading(node, max(min(wanted) - 1, 0)) as look:
            picked = (*(r for r in carried if r.seq in wanted), *look.picked(wanted))
        found = sorted(picked, key=lambda record: record.seq)
        if _HELD_MIN <= len(found) <= _HELD_MAX:
            last = wanted, found
        return list(found)

    kept: dict[str, tuple[object, list[Stretch[Any]]]] = {}

    def derive(fold: Fold[T]) -> list[Stretch[T]]:
        with ledger.reading(node) as look:
            _refuse_another_base(look, content)
            info = look.info()
            stand = (info.last_seq, info.superseded)
            if fold.place not in kept or kept[fold.place][0] != stand:
                kept[fold.place] = stand, stretches_of(ledger, look, fold) or []
        return kept[fold.place][1]

    def starts() -> list[Start]:
        from kubeledger.analyze.histories.seams import stretches

        with ledger.reading(node) as look:
            return stretches(look, look.info().last_seq).starts

    reader: Reader = read
    if content is not None:
        directory = ledger.path / NODES / node_directory(node)
        reader = BasedReader(read, carried, partial(decoded_base, directory, content))
    verdicts = KeptVerdicts(ledger, node)
    span, beside = partial(ledger.span, node), partial(alongside, ledger, node)
    return History(node, str(ledger.path), reader, pick, span, derive, verdicts, starts, beside)


def _refuse_another_base(look: Reading, content: BaseContent | None) -> None:
    if look.begin.seq != (content.seq if content else 0):
        raise DroppedMeanwhileError(
            f"records up to {look.begin.seq} of {look.node} were dropped meanwhile",
            advice="run it again",
            file=str(look.directory),
        )


def histories_of_recording(path: str | Path, *, proved: bool = True) -> list[History]:
    """One history a node of a ``*.ledger.jsonl`` file, sorted by name; the file is checked whole.

    ``proved`` is as in ``read_recording``.

    Raises:
        BadInputError: as ``read_recording``.
    """
    recorded = partial(read_recording, path, proved=proved)

    def read(name: str, kinds: Collection[str] | None) -> Iterator[Record]:
        own = (record for record in recorded() if record.node == name)
        return (record for record in own if kinds is None or record.kind in kinds)

    nodes = sorted({record.node for record in recorded()})
    return [history_of_reader(name, str(path), partial(read, name)) for name in nodes]
