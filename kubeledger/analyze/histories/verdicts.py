"""What verification found, kept: the same records by the same rules give the same again.

It is bound to the ledger by the chain digest of its last record, and to the rules by
:func:`rules_version`; another end of the ledger, or other rules, and it is not used. Only what was
decided as recorded, by all verifiers, is kept. Beside it stands the last seam
(:mod:`.seams`), from which a ledger that has grown is verified further.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

import msgspec
import zstandard

from kubeledger.analyze.histories.derived import KEPT_FROM, decoded, loaded, rules_version, save
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.reading import Reading
from kubeledger.ledger.storage import VERDICTS
from kubeledger.model.errors import LedgerUnavailableError
from kubeledger.verify.finding import Contradiction, Finding, Outcome, Violation

if TYPE_CHECKING:  # who only asks for what is kept needs no rules
    from kubeledger.analyze.histories.seams import Cut, KeptSeam
    from kubeledger.verify.run import OnSeam, Seam

_BLOCK = 500
_GROWN = 10
"""All is verified for a question where one part of so many of the records came since that was, or
where that goes on from a seam."""

Verify = Callable[["OnSeam"], Iterator[Outcome]]
"""Verifies all records; what it is given is called at each seam."""
NO_SEAM = msgspec.Raw(msgspec.msgpack.encode(None))

_LEVEL = 3
_BLOCK_BYTES_MAX = 1 << 28


def is_wrong(outcome: Outcome) -> bool:
    """Whether it is a contradiction, an impossible decision, or one that had to be taken."""
    return isinstance(outcome, Contradiction) or outcome.is_wrong


_LETTERS: dict[type[Outcome], str] = {Finding: "F", Contradiction: "C", Violation: "V"}
"""Type of outcomes -> its letter in a block."""
_DECODE: dict[str, Callable[[msgspec.Raw], Any]] = {
    letter: msgspec.json.Decoder(kind).decode for kind, letter in _LETTERS.items()
}


class _Block(msgspec.Struct):
    """Outcomes compressed, and the least and the greatest number of a record judged in them.

    Attributes:
        wrong: something of them is.
    """

    first_seq: int
    last_seq: int
    wrong: bool
    packed: bytes


class _Place(msgspec.Struct):
    """Of a seam, its first record."""

    seq: int


class Verdicts(msgspec.Struct):
    """All outcomes of a node's records.

    Attributes:
        first_seq: the first record that was verified; those before were dropped.
        blocks: one after the other.
        seam: the last one, if it could be kept.
    """

    first_seq: int
    blocks: list[_Block] = []
    seam: msgspec.Raw = NO_SEAM

    def outcomes(self) -> Iterator[Outcome]:
        """In the order in which they were found."""
        for block in self.blocks:
            yield from _unpacked(block)

    def wrong(self) -> Iterator[Outcome]:
        """Those that say that something is wrong."""
        found = (_unpacked(block) for block in self.blocks if block.wrong)
        return filter(is_wrong, chain.from_iterable(found))

    def findings(self, seqs: Collection[int]) -> dict[int, Finding]:
        """Those of some recorded decisions."""
        found: dict[int, Finding] = {}
        for block in self.blocks:
            if any(block.first_seq <= seq <= block.last_seq for seq in seqs):
                for outcome in _unpacked(block):
                    if isinstance(outcome, Finding) and outcome.recorded is not None:
                        found[outcome.seq] = outcome
        return {seq: found[seq] for seq in seqs if seq in found}


class KeptVerdicts:
    """The verdicts on one node of a ledger, kept beside its records."""

    def __init__(self, ledger: Ledger, node: str, upto_seq: int | None = None) -> None:
        """Nothing is read yet; ``upto_seq`` as of :meth:`up_to`."""
        self._ledger = ledger
        self._node = node
        self._upto_seq = upto_seq
        self._store = ledger.snapshots(node, VERDICTS)

    def up_to(self, seq: int) -> KeptVerdicts:
        """The verdicts on the records up to one, after which a writer may append others."""
        return KeptVerdicts(self._ledger, self._node, seq)

    def verified(self, verify: Verify) -> Iterator[Outcome]:
        """What ``verify`` finds, or found of the same records; these are proved from the seam on.

        Of records that were decided for good when there were fewer, only the first digest of the
        chain after them is proved, whether more came or not; ``audit`` proves all.

        Raises:
            KubeledgerError: the records cannot be read, or are not as they were written.
        """
        with self._ledger.reading(self._node) as look:
            kept = self._newest(look)
            if kept is not None:
                seam = decoded(kept.seam, _Place)
                look.prove(0 if seam is None else seam.seq - 1)
        if kept is None:
            yield from self._noted(verify)
        else:
            yield from kept.outcomes()

    def wrong(self, verify: Verify) -> Iterator[Outcome]:
        """Of what ``verify`` finds all that is wrong, and more after the seam.

        Nothing that is kept is proved or unpacked without need, and only another seam is kept.

        Raises:
            KubeledgerError: as :meth:`verified`.
        """
        with self._ledger.reading(self._node) as look:
            kept = self._newest(look)
        return self._noted(verify, only_wrong=True) if kept is None else kept.wrong()

    def held(self) -> Verdicts | None:
        """What is kept of all records, if that is; these are not proved.

        Raises:
            KubeledgerError: as :meth:`verified`.
        """
        with self._ledger.reading(self._node) as look:
            return self._newest(look)

    def newest(self, verify: Verify) -> Verdicts | None:
        """What is kept of all records, or was found now because that costs less.

        Returns:
            None where it costs less to verify some.

        Raises:
            KubeledgerError: as :meth:`verified`.
        """
        with self._ledger.reading(self._node) as look:
            if (kept := self._newest(look)) is not None:
                return kept
            before = self._before(look)
            first_seq, last_seq = look.begin.seq, look.info().last_seq
        goes_on = before is not None and before.seam != NO_SEAM
        count = last_seq - first_seq
        if count < KEPT_FROM or not (goes_on or self._has_grown(first_seq, last_seq)):
            return None
        for _ in self._noted(verify):
            pass
        return self.held()

    def _has_grown(self, first_seq: int, last_seq: int) -> bool:
        known = (seq for seq in self._store.seqs() if self._store.load(seq, rules_version()))
        return (last_seq - max(known, default=first_seq)) * _GROWN >= last_seq - first_seq

    def disproved(self, verify: Verify) -> int | None:
        """The record up to which verdicts are kept that are not those of ``verify``.

        What follows from the seam that is kept has to be the same, too.

        Raises:
            KubeledgerError: as :meth:`verified`.
        """
        from kubeledger.verify.run import keep_nothing

        with self._ledger.reading(self._node) as look:
            kept, last_seq = self._newest(look), look.info().last_seq
        if kept is None:
            return None
        encode = msgspec.json.Encoder(order="sorted").encode
        triples = zip_longest(kept.outcomes(), verify(keep_nothing), self._carried(kept))
        is_so = all(encode(one) == encode(other) == encode(more) for one, other, more in triples)
        return None if is_so else last_seq

    def _newest(self, look: Reading) -> Verdicts | None:
        return self._loaded(look, self._last(look))

    def _loaded(self, look: Reading, seq: int) -> Verdicts | None:
        snapshot = loaded(self._store, look, seq)
        verdicts = None if snapshot is None else decoded(snapshot.state, Verdicts)
        is_whole = verdicts is not None and verdicts.first_seq == look.begin.seq + 1
        return verdicts if is_whole else None

    def _last(self, look: Reading) -> int:
        last_seq = look.info().last_seq
        return last_seq if self._upto_seq is None else min(last_seq, self._upto_seq)

    def _before(self, look: Reading) -> Verdicts | None:
        """What is kept of fewer records than there are now."""
        seqs = [seq for seq in self._store.seqs() if look.begin.seq < seq <= self._last(look)]
        found = (self._loaded(look, seq) for seq in reversed(seqs))
        return next((verdicts for verdicts in found if verdicts is not None), None)

    def _noted(self, verify: Verify, *, only_wrong: bool = False) -> Iterator[Outcome]:
        from kubeledger.analyze.histories.seams import stretches

        with self._ledger.reading(self._node) as look:
            first_seq, last_seq = look.begin.seq + 1, self._last(look)
            cut = stretches(look, last_seq)
            before = self._before(look)
        noting = _Noting(Verdicts(first_seq), cut)
        found = None if before is None else self._rest(before, cut, last_seq, noting.at_seam)
        if before is None or found is None:
            yield from noting.noted(verify(noting.at_seam))
        else:
            noting.go_on(before, found[0])
            kept = noting.verdicts
            yield from kept.wrong() if only_wrong else kept.outcomes()
            yield from noting.noted(found[1])
        with self._ledger.reading(self._node) as look:
            is_still = (look.begin.seq + 1, self._last(look)) == (first_seq, last_seq)
            is_old = only_wrong and before is not None and before.seam == noting.verdicts.seam
            if is_still and not is_old and last_seq - look.begin.seq >= KEPT_FROM:
                with suppress(LedgerUnavailableError):
                    self._keep(look, last_seq, noting.verdicts)

    def _rest(
        self, kept: Verdicts, cut: Cut, last_seq: int, on_seam: OnSeam
    ) -> tuple[KeptSeam, Iterator[Outcome]] | None:
        """The seam that is kept, and what comes after it; None where none fits."""
        from kubeledger.analyze.histories.seams import KeptSeam, records_from
        from kubeledger.verify.run import carry_on

        seam = decoded(kept.seam, KeptSeam)
        at = None if seam is None else seam.verification(cut)
        if seam is None or at is None:
            return None
        of_kinds = seam.noted_seq, seam.noted_ns, last_seq
        of_all = seam.seq, seam.latest_ns, last_seq
        return seam, carry_on(
            at,
            records_from(self._ledger, self._node, at.kinds, *of_kinds),
            records_from(self._ledger, self._node, None, *of_all),
            [start for start in cut.starts if start.seq >= seam.noted_seq],
            on_seam,
        )

    def _carried(self, kept: Verdicts) -> Iterator[Outcome]:
        """What is kept, but what comes after the seam is decided again from there."""
        from kubeledger.analyze.histories.seams import stretches
        from kubeledger.verify.run import keep_nothing

        if kept.seam == NO_SEAM:
            return kept.outcomes()
        with self._ledger.reading(self._node) as look:
            last_seq = self._last(look)
            cut = stretches(look, last_seq)
        found = self._rest(kept, cut, last_seq, keep_nothing)
        if found is None:
            return iter(())
        seam, rest = found
        return chain(chain.from_iterable(map(_unpacked, kept.blocks[: seam.blocks])), rest)

    def _keep(self, look: Reading, last_seq: int, verdicts: Verdicts) -> None:
        """In place of older ones."""
        if save(self._store, look, last_seq, verdicts):
            for seq in self._store.seqs():
                if seq != last_seq:
                    self._store.drop(seq, seq)


class _Noting:
    """Outcomes as they are found.

    Attributes:
        verdicts: what was found up to now.
    """

    def __init__(self, verdicts: Verdicts, cut: Cut) -> None:
        """Nothing is found yet."""
        self.verdicts = verdicts
        self._cut = cut
        self._some: list[Outcome] = []
        self._worth_seq = 0

    def noted(self, outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
        """The same outcomes, noted."""
        for outcome in outcomes:
            self._some.append(outcome)
            if len(self._some) == _BLOCK:
                self._pack()
            yield outcome
        self._pack()

    def go_on(self, before: Verdicts, seam: KeptSeam) -> None:
        """Begin with what was found before a seam, which is kept until there is a later one."""
        from kubeledger.analyze.histories.seams import worth_from

        self._worth_seq = worth_from(seam)
        self.verdicts.seam = before.seam
        self.verdicts.blocks = before.blocks[: seam.blocks]

    def at_seam(self, seam: Seam) -> None:
        """Keep the last one."""
        from kubeledger.analyze.histories.seams import kept_seam

        if seam.noted_seq == self._cut.starts[-1].seq and seam.seq >= self._worth_seq:
            self._pack()
            kept = kept_seam(seam, self._cut, len(self.verdicts.blocks))
            if kept is not None:
                self.verdicts.seam = msgspec.Raw(msgspec.msgpack.encode(kept))

    def _pack(self) -> None:
        if self._some:
            self.verdicts.blocks.append(_packed(self._some))
            self._some = []


def _packed(some: list[Outcome]) -> _Block:
    order = "".join(_LETTERS[type(outcome)] for outcome in some)
    seqs = [outcome.seq for outcome in some if isinstance(outcome, Finding)]
    data = zstandard.ZstdCompressor(level=_LEVEL).compress(msgspec.json.encode((order, some)))
    return _Block(min(seqs, default=1), max(seqs, default=0), any(map(is_wrong, some)), data)


def _unpacked(block: _Block) -> Iterator[Outcome]:
    unpack = zstandard.ZstdDecompressor().decompress
    data = unpack(block.packed, max_output_size=_BLOCK_BYTES_MAX)
    order, found = msgspec.json.decode(data, type=tuple[str, list[msgspec.Raw]])
    return (_DECODE[letter](raw) for letter, raw in zip(order, found, strict=True))
