"""The kubelet's settings at one instant, under a variant."""

from __future__ import annotations

from typing import Any

from kubeledger.node.records import SettingsObserved
from kubeledger.verify.variant import RECORDED, Variant

__all__ = ["UNKNOWN", "Settings", "Unknown"]


class Unknown:
    """Type of :data:`UNKNOWN`."""

    def __repr__(self) -> str:
        """Its name."""
        return "UNKNOWN"


UNKNOWN = Unknown()
"""A setting that no source tells. It is no default: a default is a fact of a record, too."""


class Settings:
    """Settings by KubeletConfiguration field (or ``--flag``), values as parsed from JSON.

    Attributes:
        variant: whose values come first.
        seq: record that holds the recorded ones; None before it.
        disputed: settings on which the sources of that record differ.
    """

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.seq: int | None = None
        self.disputed: frozenset[str] = frozenset()
        self._first: dict[str, str] = {}
        self._differing: set[str] = set()
        self._recorded: dict[str, Any] = {}
        self._values: dict[str, Any] = dict(variant.settings)

    def note(self, body: SettingsObserved) -> None:
        """First reading: which settings processes tell differently."""
        for name, setting in body.settings.items():
            if self._first.setdefault(name, setting.value) != setting.value:
                self._differing.add(name)

    def another_process(self) -> None:
        """Until it tells what it runs with, only what all processes tell alike is known of it."""
        alike = {n: value for n, value in self._recorded.items() if n not in self._differing}
        self._recorded = alike
        self._apply_variant()

    def observe(self, seq: int, body: SettingsObserved) -> None:
        """Take in what a kubelet process runs with."""
        recorded = {name: setting.decoded() for name, setting in body.settings.items()}
        self.seq = seq
        self.disputed = frozenset(conflict.partition(":")[0] for conflict in body.conflicts)
        self._recorded = recorded
        self._apply_variant()

    def _apply_variant(self) -> None:
        recorded = self._recorded
        self._values = {**recorded, **self.variant.settings}
        for name, entries in self.variant.entries.items():
            own = recorded.get(name)
            self._values[name] = {**(own if isinstance(own, dict) else {}), **entries}

    def as_recorded(self) -> Settings:
        """The same without the variant."""
        found = Settings(RECORDED)
        found.seq, found.disputed, found._values = self.seq, self.disputed, self._recorded
        return found

    def get(self, name: str) -> Any:  # noqa: ANN401 # any JSON value
        """Value of a setting; ``UNKNOWN`` when no source tells."""
        return self._values.get(name, UNKNOWN)
