"""All targets, by name."""

from __future__ import annotations

from tests.fuzz import importing, ledgers, queries, texts
from tests.fuzz.target import Target

__all__ = ["TARGETS"]

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (importing, ledgers, texts, queries)
    for target in module.TARGETS
}
