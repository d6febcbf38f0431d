"""Golden recordings by name, and the lie that each is changed by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from kubeledger.model.record import Record
from kubeledger.testing.scene import Scene
from tests.verify.histories import changed

__all__ = ["GOLDENS", "Golden", "Lie", "golden", "goldens"]


class Lie(msgspec.Struct, frozen=True):
    """One value that is not the one recorded.

    Attributes:
        seq: the record that is changed.
        fields: of its body -> the wrong value.
        blames: seq of the decision that verification has to point at; None: the same one.
        kind: its kind; None: that of the record at ``blames``.
    """

    seq: int
    fields: dict[str, Any]
    blames: int | None = None
    kind: str | None = None


class Golden(msgspec.Struct, frozen=True):
    """One behaviour.

    Attributes:
        name: of the file, without its suffixes.
        records: that hold.
        lie: that makes one decision impossible.
        why: the behaviour, one line.
    """

    name: str
    records: tuple[Record, ...]
    lie: Lie
    why: str

    @property
    def mutated(self) -> list[Record]:
        """The records with the lie."""
        return changed(self.records, self.lie.seq, **self.lie.fields)

    @property
    def expected(self) -> dict[str, Any]:
        """What verification has to say about :attr:`mutated`."""
        seq = self.lie.seq if self.lie.blames is None else self.lie.blames
        kind = self.lie.kind or self.records[seq - 1].kind
        return {"node": self.records[0].node, "seq": seq, "kind": kind}


Made = tuple[Scene | Sequence[Record], Lie]
GOLDENS: dict[str, Callable[[], Golden]] = {}
"""name -> maker, in the order of definition."""


def golden(name: str, *versions: str) -> Callable[[Callable[[str], Made]], Callable[[str], Made]]:
    """Register a behaviour; with several versions there is one recording for each.

    The function gets the version, and gives the scene and the lie. Its docstring tells what a
    reader of the file's name wants to know.
    """

    def register(make: Callable[[str], Made]) -> Callable[[str], Made]:
        for version in versions or ("1.36.2",):
            suffix = f"-{version}" if len(versions) > 1 else ""
            GOLDENS[name + suffix] = _maker(name + suffix, make, version)
        return make

    return register


def _maker(name: str, make: Callable[[str], Made], version: str) -> Callable[[], Golden]:
    def build() -> Golden:
        made, lie = make(version)
        records = made.records if isinstance(made, Scene) else made
        why = (make.__doc__ or "").strip().splitlines()[0]
        return Golden(name, tuple(records), lie, why)

    return build


def goldens() -> Iterator[Golden]:
    """All of them."""
    for build in GOLDENS.values():
        yield build()
