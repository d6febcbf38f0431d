"""The verdict over a claimed outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from kubeledger.kubelet.cgroups.conversions import Path

Verdict = Literal["match", "admissible", "impossible"]


class Judgement(msgspec.Struct, frozen=True):
    """Whether the real kubelet could have produced an outcome.

    Attributes:
        verdict: ``match`` is what ``decide`` gives, ``admissible`` is another outcome that the
            kubelet can produce, ``impossible`` is one that it cannot.
        why: one sentence; empty for a match.
    """

    verdict: Verdict
    why: str = ""


MATCH = Judgement("match")
ADMISSIBLE = Judgement(
    "admissible", "the kubelet's order is not fixed here, and another one gives this"
)


def impossible(why: str) -> Judgement:
    """A verdict that says what could not have been."""
    return Judgement("impossible", why)


def compared(decided: object, claimed: object, explain: Callable[[Path], str]) -> Judgement:
    """Whether a claim of any shape is the only possible outcome.

    Args:
        decided: as plain dicts, lists and values.
        claimed: of any shape.
        explain: the rule for the value at a path, or for its absence; empty where none is known.

    Returns:
        a match, or why not, of the first difference:
        ``pod.cpuShares is 2, not 3: a BestEffort pod has the least shares, 2``.
    """
    found = _difference(decided, claimed, ())
    if found is None:
        return MATCH
    path, difference = found
    reason = explain(path)
    where = ".".join(path) or "the outcome"
    return impossible(f"{where} {difference}: {reason}" if reason else f"{where} {difference}")


def _difference(decided: object, claimed: object, path: Path) -> tuple[Path, str] | None:
    """The path of the first difference, and what it is."""
    if isinstance(decided, dict):
        if not isinstance(claimed, dict):
            return path, "is not an object"
        for key in sorted({*decided, *map(str, claimed)}):
            below = (*path, key)
            if key not in claimed:
                return below, "is missing"
            if key not in decided:
                return below, "is not written"
            if found := _difference(decided[key], claimed[key], below):
                return found
        return None
    if type(decided) is not type(claimed) or decided != claimed:
        return path, f"is {_shown(decided)}, not {_shown(claimed)}"
    return None


def _shown(value: object) -> str:
    return msgspec.json.encode(value).decode()
