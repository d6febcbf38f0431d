"""Golden recordings by name, and the lie that each is changed by."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import msgspec

from kubeledger.model.record import Record
from tests.testing.goldens.world import World
from tests.verify.histories import changed


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


W = TypeVar("W", bound=World)
Play = Callable[[W], Lie]
GOLDENS: dict[str, Callable[[], Golden]] = {}
"""name -> maker, in the order of definition."""


def maker_of(world: type[W]) -> Callable[..., Callable[[Play[W]], Play[W]]]:
    """The decorator of behaviours that play on this kind of node.

    It takes the file's name, the versions (with several there is one recording for each), and
    settings of the node. The function gets the node, adds its records, and gives the lie. Its
    docstring tells what a reader of the file's name wants to know.
    """

    def golden(
        name: str,
        *versions: str,
        **settings: Any,  # noqa: ANN401 # of the world
    ) -> Callable[[Play[W]], Play[W]]:
        def register(play: Play[W]) -> Play[W]:
            def build(name: str, version: str) -> Golden:
                node = world(version, **settings)
                lie = play(node)
                why = (play.__doc__ or "").strip().splitlines()[0]
                return Golden(name, tuple(node.records), lie, why)

            for version in versions or ("1.36.2",):
                of_version = f"{name}-{version}" if len(versions) > 1 else name
                GOLDENS[of_version] = partial(build, of_version, version)
            return play

        return register

    return golden


def goldens() -> Iterator[Golden]:
    """All of them."""
    for build in GOLDENS.values():
        yield build()
