"""Histories: the records of one node, wherever they stand, opened as often as one likes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import msgspec

from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.standalone import read_recording
from kubeledger.machine import Record
from kubeledger.replay.instants import choose_node
from kubeledger.verify import RECORDED, Outcome, Reader, Variant, verify

__all__ = ["History", "histories_of_ledger", "histories_of_recording", "history_of_reader"]


class History(msgspec.Struct, frozen=True):
    """The records of one node.

    Attributes:
        node: its name.
        label: where they stand, for people.
        read: opens them; see :data:`kubeledger.verify.Reader`.
        pick: records by their seqs, those that are there, in the order of seq.
    """

    node: str
    label: str
    read: Reader
    pick: Callable[[Collection[int]], list[Record]]

    def record(self, seq: int) -> Record | None:
        """One record by its seq; None when there is no such one."""
        return next(iter(self.pick((seq,))), None)

    def verify(self, variant: Variant = RECORDED) -> Iterator[Outcome]:
        """Decide every decision again; see :func:`kubeledger.verify.verify`."""
        return verify(self.read, variant)


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

    return History(node, label, read, pick)


def histories_of_ledger(ledger: Ledger, node: str | None = None) -> list[History]:
    """One history a node, sorted by name; only that of ``node`` if it is named.

    Raises:
        BadQuestionError: there is no such node, or no record at all.
    """
    nodes = ledger.nodes() if node is None else [choose_node(ledger, node)]
    if not nodes:
        choose_node(ledger, None)

    def reader(name: str) -> Reader:
        def read(kinds: Collection[str] | None) -> Iterator[Record]:
            if kinds is None:
                return ledger.replay(name, verify="crc")
            return ledger.records(name, verify="crc", kinds=kinds)

        return read

    def picker(name: str) -> Callable[[Collection[int]], list[Record]]:
        def pick(seqs: Collection[int]) -> list[Record]:
            found = (ledger.record(name, seq) for seq in sorted(set(seqs)))
            return [record for record in found if record is not None]

        return pick

    return [History(name, str(ledger.path), reader(name), picker(name)) for name in nodes]


def histories_of_recording(path: str | Path) -> list[History]:
    """One history a node of a ``*.ledger.jsonl`` file, sorted by name; the file is checked whole.

    Raises:
        BadInputError: as ``read_recording``.
    """
    nodes = sorted({record.node for record in read_recording(path)})

    def reader(name: str) -> Reader:
        def read(kinds: Collection[str] | None) -> Iterator[Record]:
            return (
                record
                for record in read_recording(path)
                if record.node == name and (kinds is None or record.kind in kinds)
            )

        return read

    return [history_of_reader(name, str(path), reader(name)) for name in nodes]
