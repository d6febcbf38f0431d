"""What a reading of records gives: where they name whom, and what else is made on the way.

Most records name a pod in a way in which others did. So a record is looked at closely where the
texts that count in it came together for the first time; of any other only its number is noted.
"""

from __future__ import annotations

from bisect import bisect
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from kubeledger.ledger.storage import SUBJECTS
from kubeledger.model.record import Record
from kubeledger.replay.episodes.subjects import Naming, naming_fields, naming_of

T = TypeVar("T")

_KNOWN_MAX = 1 << 14
"""So many ways in which records say something are held."""


class Fold(NamedTuple, Generic[T]):
    """What is to be derived.

    Attributes:
        place: name of the directory where it is kept.
        type: of its value, a msgspec structure with defaults for all fields.
        note: takes in a record, in the order of replay: each decision, each that has one of
            ``parts``, and of others of a kind the first with the same ``texts``. Returns whether
            it put something in place of what another said, which may say it again.
        texts: fields that it reads, each hashable.
        parts: fields that it reads of any other type.
        beside: folds that are made in the same reading, where this one lacks records.
    """

    place: str
    type: type[T]
    note: Callable[[T, Record], bool] | None = None
    texts: Collection[str] = ()
    parts: Collection[str] = ()
    beside: tuple[Fold[Any], ...] = ()


class Stretch(NamedTuple, Generic[T]):
    """What consecutive records give; those superseded are left out.

    Attributes:
        value: the fold's.
    """

    first_seq: int
    last_seq: int
    value: T


_SHIFT, _MORE = 7, 0x80
_TWO = 1 << 2 * _SHIFT


class Numbers(msgspec.Struct, array_like=True):
    """Numbers in an order that mostly ascends, a byte or two each.

    Attributes:
        packed: of each what it is more than the one before, twice that, one less if it is less:
            seven bits a byte, the low ones first, the eighth is set where more follow.
    """

    last: int = 0
    packed: bytearray = msgspec.field(default_factory=bytearray)

    def append(self, number: int) -> None:
        """One more."""
        more = number - self.last
        rest = more << 1 if more >= 0 else (-more << 1) - 1
        self.last = number
        while rest >= _MORE:
            self.packed.append(rest & (_MORE - 1) | _MORE)
            rest >>= _SHIFT
        self.packed.append(rest)

    def __iter__(self) -> Iterator[int]:
        number = rest = at = 0
        for byte in self.packed:
            rest |= (byte & (_MORE - 1)) << at
            at += _SHIFT
            if byte < _MORE:
                number += -((rest + 1) >> 1) if rest & 1 else rest >> 1
                yield number
                rest = at = 0


class Life(msgspec.Struct, array_like=True):
    """Of a pod, by its UID: the first record about it, in the order of replay, and the last."""

    first_seq: int
    first_ns: int
    last_ns: int


class Saying(msgspec.Struct, array_like=True):
    """A way in which records name pods.

    Attributes:
        subjects, calls: as in :class:`~kubeledger.replay.episodes.subjects.Naming`.
        seqs: of the records that do.
    """

    subjects: tuple[str, ...]
    calls: tuple[tuple[str, str], ...]
    seqs: Numbers


class Places(msgspec.Struct):
    """Where the records of one stretch name whom.

    Attributes:
        runs: first and last numbers of records that follow each other, in the order of replay.
        sayings: each once.
        lives: UID -> what is known of that pod.
        latest_ns: kind -> the latest time of its records.
    """

    runs: list[list[int]] = []
    sayings: list[Saying] = []
    lives: dict[str, Life] = {}
    latest_ns: dict[str, int] = {}


SUBJECT_INDEX = Fold(SUBJECTS, Places)


class _Form(msgspec.Struct):
    """A kind of body.

    Attributes:
        kind: its name.
        has_lists: pods are named in lists of it.
        is_taken: each of its records is looked at closely.
        texts_of: gives the texts that count in a body; None: there are none.
        known: where those go that have the same texts, and whose lives they tell of.
        latest_ns: the latest time.
    """

    kind: str
    has_lists: bool
    is_taken: bool
    texts_of: Callable[[object], Any] | None
    known: dict[Any, tuple[Numbers, list[Life]]]
    latest_ns: int


class Noting:
    """Takes in records as they are read, for some folds at once.

    Attributes:
        beyond: the record that was read and not taken in; None: all were.
    """

    def __init__(self, values: Sequence[tuple[Fold[Any], Any]]) -> None:
        """Nothing more is taken in than the values hold; these are changed."""
        places = [value for _, value in values if isinstance(value, Places)]
        self._places: Places = places[0] if places else Places()
        self._folds = [(fold, value) for fold, value in values if fold.note is not None]
        self._sayings = {(one.subjects, one.calls): one for one in self._places.sayings}
        self._forms: dict[type, _Form] = {}
        self.beyond: Record | None = None

    def take(self, records: Iterable[Record], end_seq: int) -> None:
        """As :meth:`passing`, of records that nobody else reads."""
        deque(self.passing(records, end_seq), 0)

    def passing(self, records: Iterable[Record], end_seq: int) -> Iterator[Record]:
        """The same records, up to the first with a greater number, which is ``beyond`` then."""
        self.beyond = None
        forms, runs = self._forms, self._places.runs
        run = runs[-1] if runs else [0, -1]
        for record in records:
            seq, ts_ns, body = record.seq, record.ts_ns, record.body
            if seq > end_seq:
                self.beyond = record
                break
            if seq != run[1] + 1:
                run = [seq, seq]
                runs.append(run)
            run[1] = seq
            form = forms.get(body.__class__) or self._form_of(record)
            if ts_ns > form.latest_ns:
                form.latest_ns = ts_ns
            if form.is_taken:
                self._note(record, form)
            elif form.texts_of is not None:
                texts = form.texts_of(body)
                found = form.known.get(texts)
                if found is None:
                    form.known[texts] = self._note(record, form)
                else:
                    numbers, lives = found
                    rest = seq - numbers.last << 1
                    if 0 < rest < _TWO:  # as Numbers.append does, without the call
                        numbers.last = seq
                        if rest >= _MORE:
                            numbers.packed.append(rest & (_MORE - 1) | _MORE)
                            rest >>= _SHIFT
                        numbers.packed.append(rest)
                    else:
                        numbers.append(seq)
                    for life in lives:
                        life.last_ns = ts_ns
            yield record
        self._places.latest_ns.update((form.kind, form.latest_ns) for form in forms.values())

    def _form_of(self, record: Record) -> _Form:
        kind = record.body.__class__
        there = frozenset(kind.__struct_fields__)
        naming = naming_fields(kind)
        texts = {*(naming or ()), *(name for fold, _ in self._folds for name in fold.texts)} & there
        parts = {name for fold, _ in self._folds for name in fold.parts} & there
        is_decision = bool(self._folds) and record.role == "decision"
        form = self._forms[kind] = _Form(
            record.kind,
            naming is None,
            naming is None or is_decision or bool(parts),
            attrgetter(*sorted(texts)) if texts else None,
            {},
            self._places.latest_ns.get(record.kind, record.ts_ns),
        )
        return form

    def _note(self, record: Record, form: _Form) -> tuple[Numbers, list[Life]]:
        """Take in what a record says; where that goes which others that say the same have, too."""
        for fold, value in self._folds:
            if fold.note is not None and fold.note(value, record):
                for each in self._forms.values():
                    each.known.clear()
        if len(form.known) >= _KNOWN_MAX:
            form.known.clear()
        naming = naming_of(record.body)
        lives = [self._life(uid, record) for uid in naming.about]
        numbers = Numbers()
        for subjects, calls in (
            _each(naming) if form.has_lists else ((naming.subjects, naming.calls),)
        ):
            numbers = self._numbers(subjects, calls)
            numbers.append(record.seq)
        return numbers, lives

    def _life(self, uid: str, record: Record) -> Life:
        lives, ts_ns = self._places.lives, record.ts_ns
        life = lives.setdefault(uid, Life(record.seq, ts_ns, ts_ns))
        life.last_ns = ts_ns
        return life

    def _numbers(self, subjects: tuple[str, ...], calls: tuple[tuple[str, str], ...]) -> Numbers:
        if not subjects:
            return Numbers()
        saying = self._sayings.get((subjects, calls))
        if saying is None:
            saying = self._sayings[subjects, calls] = Saying(subjects, calls, Numbers())
            self._places.sayings.append(saying)
        return saying.seqs


def _each(naming: Naming) -> Iterator[tuple[tuple[str, ...], tuple[tuple[str, str], ...]]]:
    """Of those named together, which are hardly the same another time, each alone."""
    for subject in naming.subjects:
        yield (subject,), tuple(call for call in naming.calls if call[0] == subject)


def folded(fold: Fold[T], records: Iterable[Record]) -> Stretch[T]:
    """What some records give, in the order of replay, of which nothing is kept."""
    value = fold.type()
    Noting(((fold, value),)).take(records, 1 << 63)
    return Stretch(1, 0, value)


def seqs_naming(subjects: Collection[str], stretches: Iterable[Stretch[Places]]) -> list[int]:
    """Numbers of the records that name one of some subjects, in the order of replay."""
    found: list[int] = []
    wanted = frozenset(subjects)
    for stretch in stretches:
        runs = stretch.value.runs
        sayings = (one.seqs for one in stretch.value.sayings if not wanted.isdisjoint(one.subjects))
        numbers = sorted({seq for seqs in sayings for seq in seqs})
        if runs != sorted(runs):
            ranked = sorted((first, rank) for rank, (first, _) in enumerate(runs))
            at = {seq: ranked[bisect(ranked, (seq, len(runs))) - 1][1] for seq in numbers}
            numbers.sort(key=lambda seq: (at[seq], seq))
        found += numbers
    return found


def uids_of(subject: str, stretches: Iterable[Stretch[Places]]) -> set[str]:
    """UIDs of the pods that records name so."""
    sayings = (one for stretch in stretches for one in stretch.value.sayings)
    return {uid for one in sayings for called, uid in one.calls if called == subject}


def lives_of(uids: Collection[str], stretches: Iterable[Stretch[Places]]) -> dict[str, Life]:
    """UID -> what is known of each of some pods, the first to be told of first."""
    found: dict[str, Life] = {}
    for stretch in stretches:
        for uid, life in stretch.value.lives.items():
            if uid in uids:
                known = found.setdefault(uid, life)
                found[uid] = Life(known.first_seq, known.first_ns, life.last_ns)
    return found


def latest_of(kinds: Collection[str], stretches: Iterable[Stretch[Places]]) -> int | None:
    """The latest time of records of some kinds; None where there is none."""
    times = [
        ts_ns
        for stretch in stretches
        for kind, ts_ns in stretch.value.latest_ns.items()
        if kind in kinds
    ]
    return max(times, default=None)
