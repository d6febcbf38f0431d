"""How a node's records are cut into stretches, and what verification knows where one begins.

What is decided in a stretch rests on what is recorded up to the end of the next one. So a ledger
that grows need not be verified from its beginning: at a seam all that came before is decided for
good, and what is known there is kept (:mod:`kubeledger.ledger.frozen`) and gone on from.

A stretch has to be longer than what a kubelet takes: it begins at a number of a record that is a
multiple of :data:`STRETCH`, or with an import, an hour or more after another. Lists and files that
come with a log tell of all of it: an import that holds some is cut only where it ends. From where
imports overlap by more than a moment all is one stretch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from kubeledger.analyze.histories.derived import clipped
from kubeledger.ingest.sources.envelope.forms import LOG_FORMATS
from kubeledger.ledger.frozen import Frozen, NotFreezableError, NotFrozenError, freeze, thaw
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import Run, Span, is_superseded
from kubeledger.ledger.reader import Verify
from kubeledger.ledger.reading import Reading
from kubeledger.model.bodies.ledger import ImportStarted
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.registry import verifiers_for
from kubeledger.verify.run import Seam, Start, Verification, ask_nothing

STRETCH = 1 << 13
"""So many records are a stretch, whatever time they take."""
_LEAST: Final = 1 << 10
"""Fewer are none: evidence is derived once a stretch."""
_HOUR_NS: Final = 3600 * NS_PER_S
_WORTH: Final = 2
"""So many stretches are decided again rather than a new seam kept, at most."""
_OVERLAP_NS: Final = 60 * NS_PER_S
"""What an import tells again of the end of the one before it, where it goes on from that."""
_ON_QUESTION: Final = "on_question"


class KeptSeam(msgspec.Struct):
    """A seam, and what has to be as it was for it to fit.

    Attributes:
        seq, latest_ns, noted_seq, noted_ns: as the seam's.
        starts: of the stretches up to ``noted_seq``.
        superseded: spans of records before ``noted_seq``.
        blocks: so many of the outcomes' blocks come before it.
        at: a :class:`~kubeledger.verify.run.Verification`.
    """

    seq: int
    latest_ns: int
    noted_seq: int
    noted_ns: int
    starts: list[int]
    superseded: list[Span]
    blocks: int
    at: Frozen

    def verification(self, cut: Cut) -> Verification | None:
        """What is known there; None where it does not fit the ledger as it is now, or the program.

        Args:
            cut: as it is now, of a ledger whose last record that was there is the same.
        """
        if cut.before(self.noted_seq) == (self.starts, self.superseded):
            verifiers_for(None)  # objects of their modules are among those that are kept
            with suppress(NotFrozenError):
                at = thaw(self.at, {_ON_QUESTION: ask_nothing})
                return at if isinstance(at, Verification) else None
        return None


class Cut(NamedTuple):
    """A node's records as they are cut.

    Attributes:
        starts: of the stretches after the first one.
        superseded: spans of records that are left out.
    """

    starts: list[Start]
    superseded: list[Span]

    def before(self, seq: int) -> tuple[list[int], list[Span]]:
        """First records of the stretches up to one, and what is superseded before that."""
        starts = [start.seq for start in self.starts if start.seq <= seq]
        return starts, clipped(self.superseded, 1, seq - 1)


def worth_from(kept: KeptSeam) -> int:
    """From which record on a new seam saves more than to keep it costs: an object a record."""
    return kept.seq + min(_WORTH * STRETCH, len(kept.at.objects))


def kept_seam(seam: Seam, cut: Cut, blocks: int) -> KeptSeam | None:
    """A seam as it is kept; None where something that waits there cannot be."""
    with suppress(NotFreezableError, OverflowError, UnicodeEncodeError):
        at = freeze(seam.at, {_ON_QUESTION: ask_nothing})
        places = seam.seq, seam.latest_ns, seam.noted_seq, seam.noted_ns
        return KeptSeam(*places, *cut.before(seam.noted_seq), blocks, at)
    return None


def stretches(look: Reading, upto_seq: int) -> Cut:
    """How a node's records up to one are cut."""
    begin_seq = look.begin.seq
    runs = [run for run in look.info().runs if begin_seq < run.last_seq]
    runs = [run for run in runs if run.first_seq <= upto_seq]
    end_seq = min(_apart(runs), upto_seq + 1)
    found: list[Start] = []
    before_seq, before_ns = begin_seq, runs[0].first_ts_ns if runs else 0
    for run in runs:
        cut_from = _cut_from(look, run, begin_seq)
        multiples = range(-(-run.first_seq // STRETCH) * STRETCH, run.last_seq + 1, STRETCH)
        for seq in (run.first_seq, *(seq for seq in multiples if seq >= cut_from)):
            count, took_ns = seq - before_seq, run.first_ts_ns - before_ns
            is_long = count >= min(_LEAST, STRETCH) and took_ns >= _HOUR_NS
            if (is_long or count >= STRETCH) and seq < end_seq:
                found.append(Start(seq, run.last_seq))
                before_seq = seq
                before_ns = run.first_ts_ns if seq == run.first_seq else run.max_ts_ns
    return Cut(found, look.superseded)


def _apart(runs: Sequence[Run]) -> int:
    """The first record from which on imports overlap by more than a moment."""
    for at, run in enumerate(runs):
        for before, other in enumerate(runs[:at]):
            beyond_ns = other.max_ts_ns - run.first_ts_ns
            if beyond_ns > (_OVERLAP_NS if before == at - 1 else 0):
                return other.first_seq
    return 1 << 63


def _cut_from(look: Reading, run: Run, begin_seq: int) -> int:
    """From which record on a run may be cut: from none of an import of documents on."""
    if run.digest is None:
        return run.first_seq
    started = look.record(run.first_seq) if run.first_seq > begin_seq else None
    body = None if started is None else started.body
    if isinstance(body, ImportStarted) and all(one.format in LOG_FORMATS for one in body.sources):
        return run.first_seq
    return run.end_seq + 1 if run.end_seq else run.last_seq + 1


def records_from(
    ledger: Ledger,
    node: str,
    kinds: Collection[str] | None,
    seq: int,
    latest_ns: int,
    last_seq: int,
) -> Iterator[Record]:
    """Records in the order of replay, from a seam on, that are there now.

    Args:
        kinds: only these, which are not proved; None: all, proved by their chain.
        seq: the first; all before it come before it.
        latest_ns: the latest time of these.
        last_seq: the last one.
    """
    with ledger.reading(node, seq - 1) as look:
        proved: Verify = "crc" if kinds else "chain"
        if look.is_in_order:
            superseded = look.superseded
            for record in look.records(seq - 1, verify=proved, kinds=kinds):
                if record.seq > last_seq:
                    return
                if not is_superseded(record.seq, superseded):
                    yield record
            return
        for record in look.replay_from(seq, latest_ns, verify=proved):
            if record.seq <= last_seq and (kinds is None or record.kind in kinds):
                yield record
