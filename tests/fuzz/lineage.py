"""Inputs by name: a number is a change of a seed, ``17.4`` a change of the input that 17 is.

An input is worth keeping when it reaches new lines, and worth naming when it does harm. Its
lineage is its name and its recipe: nothing has to be stored to have it again.
"""

from random import Random

from tests.fuzz.target import Target

Lineage = tuple[int, ...]


def parse_lineage(text: str) -> Lineage:
    """Read ``17.4.1``.

    Raises:
        ValueError: it is none.
    """
    return tuple(map(int, text.split(".")))


def grown(target: Target, data: bytes | None, number: int) -> bytes:
    """The input that ``number`` makes of ``data``, or of a seed that it chooses."""
    random = Random(number)
    seeds = target.seeds()
    return target.mutate(random, random.choice(seeds) if data is None else data, seeds)


def input_of(target: Target, lineage: Lineage) -> bytes:
    data: bytes | None = None
    for number in lineage:
        data = grown(target, data, number)
    assert data is not None, "a lineage has at least one number"
    return data
