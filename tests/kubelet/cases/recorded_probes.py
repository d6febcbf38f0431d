"""Recorded cases of the probe subsystems, and claims that none of them supports."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import zstandard

VERSIONS = ("1.20.2", "1.28.0", "1.36.2")

_DATA = Path(__file__).parents[2] / "data" / "conformance"
"""What kubelets of these versions decided on random input, recorded by us."""

Case = dict[str, Any]


def recorded(version: str, subsystem: str) -> list[Case]:
    """All cases that are kept of a version."""
    packed = (_DATA / version / f"{subsystem}.jsonl.zst").read_bytes()
    text = zstandard.ZstdDecompressor().decompress(packed)
    return [msgspec.json.decode(line) for line in text.splitlines()]


def line_of(case: Case, **more: object) -> bytes:
    """A case as it is fed to ``decide``, or with an ``outcome`` to ``judge``."""
    kept = {key: case[key] for key in ("id", "kubelet", "input")}
    return json.dumps({**kept, **more}).encode()


def flipped(outcome: Any) -> Iterator[Any]:  # noqa: ANN401  # whatever JSON holds
    """The outcome with one leaf changed, for each leaf."""
    for path, leaf in _leaves(outcome, ()):
        wrong = copy.deepcopy(outcome)
        holder = wrong
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = _other(leaf)
        yield wrong


def _leaves(node: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:  # noqa: ANN401
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _leaves(value, (*path, key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _leaves(value, (*path, index))
    else:
        yield path, node


def _other(leaf: object) -> object:
    match leaf:
        case bool():
            return not leaf
        case int():
            return leaf + 1
        case "Success":
            return "Failure"
        case "" | "Failure" | "UNKNOWN":
            return "Success"
        case str():
            return leaf + "0"
        case _:
            return True
