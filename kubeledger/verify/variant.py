"""Under which settings and which kubelet version decisions are taken again."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["RECORDED", "Variant"]


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that replace the recorded ones.

    Attributes:
        name: for people.
        settings: KubeletConfiguration field -> value (as parsed from JSON).
        entries: field -> entries of ``settings`` that replace only themselves: each kubelet
            process keeps the others of its own map.
        kubelet_version: decide by the rules of this one; None: of the recorded one.
    """

    name: str = "recorded"
    settings: dict[str, Any] = {}
    entries: dict[str, dict[str, Any]] = {}
    kubelet_version: str | None = None


RECORDED = Variant()
"""Nothing replaced."""
