"""Records of imports whose sources are read again: which of them still follow from what is read.

Records and facts both come in the order of time, so both are walked together and only a window
of records around the present is held. A record stays where a fact says the same to the letter,
at the same time and for the same cause, and where it would be replayed at the place of that fact.
All others are superseded: what is right about them is recorded again. But a record of a recording
whose evidence is not read again (the capture lost it) stays as it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from kubeledger.ingest.sources.facts import Fact
from kubeledger.ingest.stored import WINDOW_NS, same_body
from kubeledger.ledger.superseded import Span, spans_of
from kubeledger.ledger.superseded import is_superseded as is_within
from kubeledger.model.bodies.ledger import (
    FindingReported,
    GapObserved,
    ImportCompleted,
    ImportStarted,
    LinesNotUnderstood,
    RecordsSuperseded,
)
from kubeledger.model.record import Body, Evidence, Record

OWN: tuple[type[Body], ...] = (ImportStarted, ImportCompleted, RecordsSuperseded)
"""What each import records about itself."""

_Key = tuple[int, bytes, int | None, tuple[Evidence, ...] | None]
"""Time in the replay, body, cause, and of a recording's record the evidence."""


class StandingRecords:
    """Records of earlier imports, to be found again once each."""

    def __init__(
        self,
        records: Iterable[tuple[int, Record]],
        first_ts_ns: int,
        recorded: Sequence[Span] = (),
        sizes: Mapping[str, int] | None = None,
        instant_seq: int | None = 0,
    ) -> None:
        """Begin before the first record.

        Args:
            records: in the order of replay, each with its time in that order (``keyed_replay``).
            first_ts_ns: time of the new import's first record, or the latest before the records.
            recorded: those of a recording of the same files, which must rest on the same evidence;
                sorted.
            sizes: file -> bytes of it that are read. A record of the recording that rests on what
                is not read stays as it is.
            instant_seq: the last record of the latest time; None: what follows in it is new.
        """
        self._records = iter(records)
        self._recorded = recorded
        self._sizes = sizes or {}
        self._window: deque[tuple[int, _Key, int]] = deque()
        self._seqs: dict[_Key, deque[int]] = {}
        self._found: set[int] = set()
        self._unread: set[int] = set()
        self._left: list[int] = []
        self._record_ns: int | None = None
        self._instant_ns = first_ts_ns
        self._instant_seq = instant_seq

    def take(self, fact: Fact) -> int | None:
        """Seq of the record that says the same at the same place; None when there is none."""
        if fact.ts_ns > self._instant_ns:
            self._instant_ns, self._instant_seq = fact.ts_ns, 0
        self._pull(self._instant_ns + WINDOW_NS)
        self._forget(self._instant_ns - WINDOW_NS)
        cause = fact.cause.seq if fact.cause is not None else None
        body = same_body(fact.ts_ns, fact.body)
        key: _Key = (self._instant_ns, body, cause, None)
        if self._recorded and (exact := (*key[:3], fact.evidence)) in self._seqs:
            key = exact
        seqs = self._seqs.get(key)
        # Records of one instant are replayed in the order of seq, and new ones have the highest.
        if self._instant_seq is None or not seqs or seqs[0] < self._instant_seq:
            self._instant_seq = None
            return None
        self._instant_seq = seqs.popleft()
        self._found.add(self._instant_seq)
        if not seqs:
            del self._seqs[key]
        return self._instant_seq

    def superseded(self) -> list[Span]:
        """Spans of all records that no fact was found for; to be asked after the last fact."""
        for replayed in self._records:
            self._take_in(*replayed)
        left = [seq for _, _, seq in self._window if seq not in self._found | self._unread]
        return spans_of([*self._left, *left])

    def _pull(self, upto_ns: int) -> None:
        while self._record_ns is None or self._record_ns <= upto_ns:
            replayed = next(self._records, None)
            if replayed is None:
                return
            self._take_in(*replayed)

    def _take_in(self, replay_ns: int, record: Record) -> None:
        body = record.body
        self._record_ns = replay_ns
        if not body.kind.startswith("ledger.") or isinstance(
            body, FindingReported | GapObserved | LinesNotUnderstood
        ):
            is_recorded = is_within(record.seq, self._recorded)
            evidence = record.evidence if is_recorded else None
            key = replay_ns, same_body(record.ts_ns, body), record.cause, evidence
            if is_recorded and not self._is_read(record.evidence):
                self._unread.add(record.seq)
            self._window.append((replay_ns, key, record.seq))
            self._seqs.setdefault(key, deque()).append(record.seq)

    def _is_read(self, evidence: tuple[Evidence, ...]) -> bool:
        return all((place.offset or 0) < self._sizes.get(place.file, 0) for place in evidence)

    def _forget(self, before_ns: int) -> None:
        """Records far behind leave the window; those not found are superseded."""
        while self._window and self._window[0][0] < before_ns:
            _, key, seq = self._window.popleft()
            if seq in self._found:
                self._found.discard(seq)
                continue
            if seq not in self._unread:
                self._left.append(seq)
            self._unread.discard(seq)
            seqs = self._seqs[key]
            seqs.remove(seq)
            if not seqs:
                del self._seqs[key]
