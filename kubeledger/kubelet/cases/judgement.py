"""The verdict over a claimed outcome."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["ADMISSIBLE", "MATCH", "Judgement", "Verdict", "impossible"]

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
