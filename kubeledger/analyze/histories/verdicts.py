"""What verification found, kept: the same records by the same rules give the same again.

It is bound to the ledger by the chain digest of its last record, and to the rules by
:func:`rules_version`; another end of the ledger, or other rules, and it is not used. Only what was
decided as recorded, by all verifiers, is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from itertools import islice, zip_longest

import msgspec
import zstandard

from kubeledger.analyze.histories.derived import KEPT_FROM, decoded, loaded, rules_version, save
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.reading import Reading
from kubeledger.ledger.storage import VERDICTS
from kubeledger.model.errors import LedgerUnavailableError
from kubeledger.verify.finding import Contradiction, Finding, Outcome, Violation

_BLOCK = 500
_GROWN = 10
"""All is verified for a question where one part of so many of the records came since that was."""

_LEVEL = 3
_BLOCK_BYTES_MAX = 1 << 28


class _Outcomes(msgspec.Struct):
    """Some outcomes: which comes next says a letter of ``order``, the first of the type's name."""

    order: str = ""
    findings: list[Finding] = []
    contradictions: list[Contradiction] = []
    violations: list[Violation] = []


class _Block(msgspec.Struct):
    """Outcomes compressed, and the least and the greatest number of a record judged in them."""

    first_seq: int
    last_seq: int
    packed: bytes


class Verdicts(msgspec.Struct):
    """All outcomes of a node's records.

    Attributes:
        first_seq: the first record that was verified; those before were dropped.
        blocks: one after the other.
    """

    first_seq: int
    blocks: list[_Block] = []

    def outcomes(self) -> Iterator[Outcome]:
        """In the order in which they were found."""
        for block in self.blocks:
            yield from _unpacked(block)

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

    def __init__(self, ledger: Ledger, node: str) -> None:
        """Nothing is read yet."""
        self._ledger = ledger
        self._node = node
        self._store = ledger.snapshots(node, VERDICTS)

    def verified(self, verify: Callable[[], Iterator[Outcome]]) -> Iterator[Outcome]:
        """What ``verify`` finds, or found of the same records; these are proved all the same.

        Raises:
            KubeledgerError: the records cannot be read, or are not as they were written.
        """
        with self._ledger.reading(self._node) as look:
            kept = self._newest(look)
            if kept is not None:
                look.prove()
        if kept is None:
            yield from self._noted(verify)
        else:
            yield from kept.outcomes()

    def held(self) -> Verdicts | None:
        """What is kept of all records, if that is; these are not proved.

        Raises:
            KubeledgerError: as :meth:`verified`.
        """
        with self._ledger.reading(self._node) as look:
            return self._newest(look)

    def newest(self, verify: Callable[[], Iterator[Outcome]]) -> Verdicts | None:
        """What is kept of all records, or was found now because they have become many.

        Returns:
            None where it costs less to verify some.

        Raises:
            KubeledgerError: as :meth:`verified`.
        """
        with self._ledger.reading(self._node) as look:
            kept = self._newest(look)
            first_seq, last_seq = look.begin.seq, look.info().last_seq
        known_seq = max(
            (seq for seq in self._store.seqs() if self._store.load(seq, rules_version())),
            default=first_seq,
        )
        if kept is None and (last_seq - known_seq) * _GROWN >= last_seq - first_seq >= KEPT_FROM:
            for _ in self._noted(verify):
                pass
            kept = self.held()
        return kept

    def disproved(self, verify: Callable[[], Iterator[Outcome]]) -> int | None:
        """The record up to which verdicts are kept that are not those of ``verify``.

        Raises:
            KubeledgerError: as :meth:`verified`.
        """
        with self._ledger.reading(self._node) as look:
            kept, last_seq = self._newest(look), look.info().last_seq
        if kept is None:
            return None
        encode = msgspec.json.Encoder(order="sorted").encode
        pairs = zip_longest(kept.outcomes(), verify())
        return None if all(encode(one) == encode(other) for one, other in pairs) else last_seq

    def _newest(self, look: Reading) -> Verdicts | None:
        last_seq = look.info().last_seq
        snapshot = loaded(self._store, look, last_seq)
        verdicts = None if snapshot is None else decoded(snapshot.state, Verdicts)
        is_whole = verdicts is not None and verdicts.first_seq == look.begin.seq + 1
        return verdicts if is_whole else None

    def _noted(self, verify: Callable[[], Iterator[Outcome]]) -> Iterator[Outcome]:
        before = self._ledger.info(self._node).last_seq
        with self._ledger.reading(self._node, before) as look:
            verdicts = Verdicts(look.begin.seq + 1)
        rest = verify()
        while some := list(islice(rest, _BLOCK)):
            verdicts.blocks.append(_packed(some))
            yield from some
        with self._ledger.reading(self._node) as look:
            is_still = (look.begin.seq + 1, look.info().last_seq) == (verdicts.first_seq, before)
            if is_still and before - look.begin.seq >= KEPT_FROM:
                with suppress(LedgerUnavailableError):
                    self._keep(look, before, verdicts)

    def _keep(self, look: Reading, last_seq: int, verdicts: Verdicts) -> None:
        """In place of older ones."""
        if save(self._store, look, last_seq, verdicts):
            for seq in self._store.seqs():
                if seq != last_seq:
                    self._store.drop(seq, seq)


def _packed(some: list[Outcome]) -> _Block:
    outcomes = _Outcomes()
    for outcome in some:
        if isinstance(outcome, Violation):
            outcomes.order += "V"
            outcomes.violations.append(outcome)
        elif isinstance(outcome, Contradiction):
            outcomes.order += "C"
            outcomes.contradictions.append(outcome)
        else:
            outcomes.order += "F"
            outcomes.findings.append(outcome)
    seqs = [finding.seq for finding in outcomes.findings]
    data = zstandard.ZstdCompressor(level=_LEVEL).compress(msgspec.json.encode(outcomes))
    return _Block(min(seqs, default=1), max(seqs, default=0), data)


def _unpacked(block: _Block) -> Iterator[Outcome]:
    unpack = zstandard.ZstdDecompressor().decompress
    data = unpack(block.packed, max_output_size=_BLOCK_BYTES_MAX)
    outcomes = msgspec.json.decode(data, type=_Outcomes)
    lists: dict[str, Iterator[Outcome]] = {
        "F": iter(outcomes.findings),
        "C": iter(outcomes.contradictions),
        "V": iter(outcomes.violations),
    }
    return (next(lists[letter]) for letter in outcomes.order)
