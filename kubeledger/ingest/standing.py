"""What the ledger already holds of an import, and which earlier records still follow.

Records and facts both come in the order of time, so both are walked together and only a window
of records around the present is held. A record stays where a fact says the same to the letter,
at the same time and for the same cause, and where it would be replayed at the place of that fact.
All others are superseded: what is right about them is recorded again. But a record of a recording
whose evidence is not read again (the capture lost it) stays as it is.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

import msgspec

from kubeledger.ingest.planning.bundle import FoundFile
from kubeledger.ingest.sources.envelope.forms import LOG_FORMATS
from kubeledger.ingest.sources.items import Fact
from kubeledger.ingest.sources.packing import without_suffix
from kubeledger.ledger.manifest import Span, spans_of
from kubeledger.ledger.manifest import is_superseded as is_within
from kubeledger.model.bodies.ledger import (
    FindingReported,
    GapObserved,
    ImportCompleted,
    ImportStarted,
    LinesNotUnderstood,
    RecordsSuperseded,
    Source,
)
from kubeledger.model.record import Body, Evidence, Record
from kubeledger.model.units import NS_PER_S

# Facts against records: which of the facts of an import are in the ledger already.
#
# Facts and records both come in the order of time, so both sides are walked together and
# only a window of records around the present is held. Each record is found once at most.
#
# What is the same is a matter of the question. The facts of one import that was broken off
# are regenerated to the letter. Facts of another import about the same moment may
# know more or less of it (a pod list gave the names, a checkpoint the NUMA nodes): for those
# the kind, the time and the subject decide.

WINDOW_NS = 120 * NS_PER_S
"""How far apart in the order of time a fact and its record may stand."""

_SUBJECT = (
    "namespace",
    "pod",
    "probe_type",
    "to_result",
    "resource",
    "image_id",
    "cgroup",
    "signal",
    "operation",
    "victim_pod",
    "reason",
    "message",
    "listed_by",
)
"""Fields that tell facts of one kind and one moment apart, and do not depend on what else a
bundle holds. Containers and UIDs do: they may have been unknown before."""

_UNNAMED = frozenset({"cpumanager", "devicemanager", "memorymanager", "topologymanager"})
"""Subsystems whose lines often name a pod by its UID alone."""

Key = Callable[[int, Body], Hashable]


def same_body(ts_ns: int, body: Body) -> bytes:
    """Key by which only equal facts are equal."""
    text = msgspec.json.encode(body, order="sorted")
    return hashlib.blake2b(
        ts_ns.to_bytes(12, "big", signed=True) + body.kind.encode() + text, digest_size=16
    ).digest()


def same_subject(ts_ns: int, body: Body) -> Hashable:
    """Key by which facts are equal that are about the same thing at the same time."""
    names = _SUBJECT[2:] if body.kind.partition(".")[0] in _UNNAMED else _SUBJECT
    return ts_ns, body.kind, *(getattr(body, name, None) for name in names)


class StoredFacts:
    """Records of earlier imports, to be found again once each."""

    def __init__(self, records: Iterable[Record], key: Key) -> None:
        """Begin before the first record.

        Args:
            records: in the order of time (within a run, of its source).
            key: what makes a fact and a record the same.
        """
        self._records: Iterator[Record] = iter(records)
        self._key = key
        self._window: deque[tuple[int, Hashable, int]] = deque()
        self._seqs: dict[Hashable, deque[int]] = {}
        self._latest_record_ns: int | None = None
        self._latest_fact_ns: int | None = None

    def take(self, fact: Fact) -> int | None:
        """Seq of the record that says the same; None when there is none."""
        latest_ns = max(self._latest_fact_ns or fact.ts_ns, fact.ts_ns)
        self._latest_fact_ns = latest_ns
        self._pull(latest_ns + WINDOW_NS)
        self._forget(latest_ns - WINDOW_NS)
        seqs = self._seqs.get(self._key(fact.ts_ns, fact.body))
        return seqs.popleft() if seqs else None

    def _pull(self, upto_ns: int) -> None:
        while self._latest_record_ns is None or self._latest_record_ns <= upto_ns:
            record = next(self._records, None)
            if record is None:
                return
            latest_ns = max(self._latest_record_ns or record.ts_ns, record.ts_ns)
            self._latest_record_ns = latest_ns
            key = self._key(record.ts_ns, record.body)
            self._window.append((latest_ns, key, record.seq))
            self._seqs.setdefault(key, deque()).append(record.seq)

    def _forget(self, before_ns: int) -> None:
        """Records far behind leave the window, unless they were found already."""
        while self._window and self._window[0][0] < before_ns:
            _, key, seq = self._window.popleft()
            seqs = self._seqs.get(key)
            if seqs is None:
                continue
            if seqs and seqs[0] == seq:
                seqs.popleft()
            if not seqs:
                del self._seqs[key]


# What earlier imports of a node have already reported.
#
# A log is known again by the digest of its content, whatever it is called now, and one that
# has grown since by the digest of its beginning. A snapshot is known by its digest and its
# name, which holds its time: what a file held before, it may hold again.
#
# This decides whether a bundle is read at all, and which accounts of lines are old. Whether
# a fact is, the records themselves show (above).

_WHOLE = 1 << 62


class Coverage(msgspec.Struct):
    """How many first bytes of each file are known.

    Attributes:
        known: file of the bundle -> bytes; 0 for a new one, ``_WHOLE`` for one known whole.
    """

    known: dict[str, int]

    @property
    def is_empty(self) -> bool:
        """Nothing of the bundle has been imported before."""
        return not any(self.known.values())

    @property
    def is_whole(self) -> bool:
        """All of the bundle has been imported before."""
        return all(known == _WHOLE for known in self.known.values())

    def known_bytes(self, file: str) -> int:
        """First bytes of a file that are known; 0 when it is new."""
        return self.known.get(file, 0)

    def holds(self, evidence: tuple[Evidence, ...]) -> bool:
        """An earlier import has read all of this evidence."""
        return bool(evidence) and all(self._holds_place(place) for place in evidence)

    def _holds_place(self, place: Evidence) -> bool:
        known = self.known.get(place.file, 0)
        return known == _WHOLE or (place.offset is not None and place.offset < known)


def known_lengths(sources: Iterable[Source]) -> list[int]:
    """Lengths of the logs that were imported: a log may begin with one of them."""
    return sorted({source.size_bytes for source in sources if source.format in LOG_FORMATS})


def coverage_of(files: Iterable[FoundFile], imported: Iterable[Source]) -> Coverage:
    """Compare a bundle with the sources of completed imports."""
    names: dict[str, list[str]] = {}
    for source in imported:
        names.setdefault(source.digest, []).append(source.file)
    coverage = Coverage({})
    for file in files:
        name = file.source.name
        coverage.known[name] = 0
        same = names.get(file.digests.digest, ())
        if same and (file.survey is not None or any(same_name(name, other) for other in same)):
            coverage.known[name] = _WHOLE
            continue
        lengths = [
            length
            for length, digest in file.digests.prefixes.items()
            if digest in names and length > 0
        ]
        if lengths:
            coverage.known[name] = _line_start(file, max(lengths))
    return coverage


def same_name(name: str, other: str) -> bool:
    """One path is the end of the other: the bundle was named by another of its directories."""
    left, right = without_suffix(name), without_suffix(other)
    return left == right or left.endswith(f"/{right}") or right.endswith(f"/{left}")


def _line_start(file: FoundFile, length: int) -> int:
    """Start of the line that the end of the older copy cut; ``length`` if it cut none."""
    position, start = 0, 0
    for chunk in file.source.stored_chunks():
        piece = chunk[: length - position]
        cut = piece.rfind(b"\n")
        if cut >= 0:
            start = position + cut + 1
        position += len(piece)
        if position >= length:
            break
    return start


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
