"""What the ledger says about itself: imports, line accounts, findings.

Their ``ts_ns`` is the time of the source's first (or last) fact, never the clock of the
machine that imports: the same sources give the same bytes anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

import msgspec

from kubeledger.model.record import Observation


class Source(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of a bundle.

    Attributes:
        file: path relative to the bundle.
        format: the importer's name, e.g. ``klog-text``.
        size_bytes, digest: of the decompressed content; BLAKE2b-256, hex.
    """

    file: str
    format: str
    size_bytes: int
    digest: str


class ImportStarted(Observation, frozen=True, kw_only=True):
    """An import begins. Records up to the matching ``ImportCompleted`` are its own.

    Attributes:
        digest: BLAKE2b-256 over the sources' digests and options: the import's identity.
        year: the year given to klog lines, which hold none.
        year_source: ``option``, ``bundle`` (another file shows it) or ``guessed`` (file time).
    """

    kind: ClassVar[str] = "ledger.ImportStarted"
    digest: str
    kubeledger_version: str
    sources: tuple[Source, ...]
    year: int | None = None
    year_source: Literal["option", "bundle", "log", "guessed"] | None = None


class SourceAccount(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the lines of one source went; understood + noise + not understood = lines.

    Attributes:
        repeated: lines of the noise that were left out because they are the same line again
            (sent twice, or also in the next of two rotated logs).
    """

    file: str
    lines: int
    understood: int
    noise: int
    not_understood: int
    repeated: int = 0
    records: dict[str, int] = {}


class ImportCompleted(Observation, frozen=True, kw_only=True):
    """All of an import is in the ledger."""

    kind: ClassVar[str] = "ledger.ImportCompleted"
    digest: str
    accounts: tuple[SourceAccount, ...]


class LinesNotUnderstood(Observation, frozen=True, kw_only=True):
    """Lines of one source with one shape that no importer knows; the first is the evidence.

    Attributes:
        shape: ``file.go`` and the message up to its first variable part.
        count: how many.
        lines: 1-based line numbers, at most 1000 a record; a longer list continues in
            another record of the same shape.
    """

    kind: ClassVar[str] = "ledger.LinesNotUnderstood"
    file: str
    shape: str
    count: int
    lines: tuple[int, ...]


class FindingReported(Observation, frozen=True, kw_only=True):
    """Something about a source that a reader of the ledger must know.

    Attributes:
        finding: ``checksum_mismatch``, ``truncated``, ``not_text``, ``clock_stepped_back``,
            ``contradiction``, ``year_guessed``, ``version_unknown``, ``half_written`` ...
        message: one sentence.
        namespace, pod, pod_uid: the pod that it is about; None: it is about the source.
    """

    kind: ClassVar[str] = "ledger.FindingReported"
    v: ClassVar[int] = 2  # v1 named no pod
    finding: str
    file: str | None
    message: str
    namespace: str | None = None
    pod: str | None = None
    pod_uid: str | None = None


KUBELET_LOG = "kubelet.log"
"""``stream`` of gaps in the kubelet's log, wherever its lines come from."""


class GapObserved(Observation, frozen=True, kw_only=True):
    """The recorder could not observe a source for a time; its record stands where that was noticed.

    Attributes:
        stream: the log whose lines are missing, or the name of the source.
        reason: one sentence.
        since_ts_ns: time of the last that was observed before; None where it is not known.
        until_ts_ns: time of the first that was observed after; None while it lasts, or where it is
            not known.
    """

    kind: ClassVar[str] = "ledger.GapObserved"
    stream: str
    reason: str
    since_ts_ns: int | None
    until_ts_ns: int | None


class RecordsRedacted(Observation, frozen=True, kw_only=True):
    """The records before this one are not the original ones: names in them are pseudonyms.

    Attributes:
        records: how many; their numbers are the original ones.
        key_check: equal where two redactions used the same key, hence the same pseudonyms.
    """

    kind: ClassVar[str] = "ledger.RecordsRedacted"
    records: int
    key_check: str


class SeqSpan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Consecutive record numbers, both ends included."""

    first_seq: int
    last_seq: int


class RecordsSuperseded(Observation, frozen=True, kw_only=True):
    """Records of earlier imports hold no more: an import that knew more replaced them.

    An import reads what the ledger kept of the node's sources again, together with what is new.
    Records that follow from all of them stay; these do not. They remain in the ledger and its
    chain, and neither state nor views, verdicts or exports show them.

    Attributes:
        digest: of the import that read them again.
        spans: (n,) their numbers, sorted; at most 1000 spans a record.
    """

    kind: ClassVar[str] = "ledger.RecordsSuperseded"
    digest: str
    spans: tuple[SeqSpan, ...]


class EarlierDrop(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A drop before the present one, whose own record may be gone by now.

    Attributes:
        seq: number that its record has or had.
        first_seq, last_seq: the records it dropped.
        chain: chain digest of the last of them, 64 hex digits.
        dropped_ts_ns, policy: as in ``RecordsDropped``.
        drops: how many drops this entry stands for; the oldest ones are recorded as one.
    """

    seq: int
    first_seq: int
    last_seq: int
    chain: str
    dropped_ts_ns: int
    policy: str
    drops: int = 1


class RecordsDropped(Observation, frozen=True, kw_only=True):
    """The node's first records were dropped; its ledger begins after them.

    Attributes:
        first_seq, last_seq: the records that this drop took.
        first_ts_ns, last_ts_ns: the earliest and the latest of their times.
        latest_ts_ns: the latest time of all records up to ``last_seq``, those dropped
            earlier too: no state before it can be rebuilt.
        records: kind -> how many of that kind this drop took.
        chain: chain digest of record ``last_seq``, 64 hex digits.
        policy: what allowed it, in words.
        dropped_ts_ns: when, by the clock of the machine that did it.
        imports: digests of the imports that begin among the records dropped.
        open_import: digest of the import that continues after ``last_seq``; None when none does.
        open_import_complete: its ``ImportCompleted`` was among the records dropped.
        open_run: records after ``last_seq`` are of the same run as it.
        base_digest: BLAKE2b-256 of what is kept in place of the records (the state after
            them, the sources of their imports, some of the records), hex.
        earlier: (n,) drops before, the oldest first.
    """

    kind: ClassVar[str] = "ledger.RecordsDropped"
    first_seq: int
    last_seq: int
    first_ts_ns: int
    last_ts_ns: int
    latest_ts_ns: int
    records: dict[str, int]
    chain: str
    policy: str
    dropped_ts_ns: int
    imports: tuple[str, ...]
    open_import: str | None
    open_import_complete: bool
    open_run: bool
    base_digest: str
    earlier: tuple[EarlierDrop, ...] = ()


class RecordsLost(Observation, frozen=True, kw_only=True):
    """Records had been acknowledged, and when the ledger was opened they were not there.

    It stands where the first of them stood; their numbers are given out again.

    Attributes:
        first_seq, last_seq: the numbers that they had.
        chain: chain digest of the last of them, 64 hex digits.
        first_ts_ns, last_ts_ns: their times lie in this span; None where it is not known.
        imports: digests of the imports that lost records, or all of them.
        others: some of them may have been of no import, or came after the end of one.
        found_ts_ns: when they were missed, by the clock of the machine that did.
    """

    kind: ClassVar[str] = "ledger.RecordsLost"
    first_seq: int
    last_seq: int
    chain: str
    first_ts_ns: int | None
    last_ts_ns: int | None
    imports: tuple[str, ...]
    others: bool
    found_ts_ns: int

    def is_healed_by(self, completed: Iterable[str]) -> bool:
        """Whether nothing is missing, as far as is known.

        Args:
            completed: digests of all imports that are complete. What this record names was
                not, when it was written.
        """
        return bool(self.imports) and not self.others and set(self.imports).issubset(completed)

    def phrase(self, node: str) -> str:
        """What was lost, as a clause."""
        if self.first_seq == self.last_seq:
            return (
                f"record {self.last_seq} of {node} was acknowledged, and a recovery did not find it"
            )
        which = f"{self.first_seq} to {self.last_seq}"
        return f"records {which} of {node} were acknowledged, and a recovery did not find them"
