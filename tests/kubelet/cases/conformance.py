"""Recorded decisions of the real kubelet, and claims that it cannot have made.

``tests/data/conformance/<kubelet version>/<subsystem>.jsonl.zst`` holds a case a line, with
every outcome that the real code of that version produced. The inputs are random; we recorded
the outcomes by running that code with its clock and its neighbours scripted.
"""

import random
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
import zstandard

Case = dict[str, Any]

_DATA = Path(__file__).parents[2] / "data" / "conformance"

RECORDED = sorted(
    (path.parent.name, path.name.removesuffix(".jsonl.zst")) for path in _DATA.glob("*/*.zst")
)
"""Version and subsystem."""


@cache
def load(version: str, subsystem: str) -> list[Case]:
    packed = (_DATA / version / f"{subsystem}.jsonl.zst").read_bytes()
    return msgspec.json.Decoder(Case).decode_lines(zstandard.decompress(packed))


canonical = msgspec.json.Encoder(order="sorted").encode


def impossible_claims(cases: list[Case], seed: int) -> Iterator[tuple[Case, object]]:
    """Outcomes of the right shape that are not among those a case can have."""
    rng = random.Random(seed)
    for at, case in enumerate(cases):
        possible = {canonical(outcome) for outcome in case["outcomes"]}
        other = cases[(at + 1) % len(cases)]["outcomes"][0]
        for wrong in (_mutated(rng.choice(case["outcomes"]), rng), other):
            if wrong is not None and canonical(wrong) not in possible:
                yield case, wrong


def _mutated(outcome: object, rng: random.Random) -> object:
    """The outcome with one value, or one list of values, changed; None when it has none."""
    outcome = msgspec.json.decode(msgspec.json.encode(outcome))
    leaves = list(_leaves(outcome))
    if not leaves:
        return None
    value, put = rng.choice(leaves)
    if isinstance(value, bool):
        put(not value)
    elif isinstance(value, int):
        put(value + rng.choice([1, 7, 1000]))
    elif isinstance(value, str):
        put({"Success": "Failure", "Failure": "Success"}.get(value, f"{value}0"))
    else:
        put(value[1:] if rng.random() < 0.5 else value + value[:1])
    return outcome


def _leaves(node: object) -> Iterator[tuple[Any, Callable[[object], None]]]:
    """Texts, numbers, flags and flat lists, each with what replaces it."""
    if isinstance(node, dict):
        members: list[tuple[Any, Any]] = list(node.items())
    elif isinstance(node, list):
        members = list(enumerate(node))
    else:
        return
    for key, value in members:
        flat = isinstance(value, list) and not any(isinstance(x, dict | list) for x in value)
        if isinstance(value, bool | int | str) or (flat and value):
            yield value, partial(node.__setitem__, key)
        yield from _leaves(value)
