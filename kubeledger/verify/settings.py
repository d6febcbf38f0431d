"""The kubelet's settings at one instant, under a variant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar, TypeVarTuple

from kubeledger.kubelet.profile.gates import with_gates
from kubeledger.kubelet.profile.resolve import KubeletProfile, resolve
from kubeledger.model.errors import BadQuestionError
from kubeledger.verify.evidence.processes import Process
from kubeledger.verify.variant import RECORDED, Variant

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Unknown:
    """Type of :data:`UNKNOWN`."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown()
"""A setting that no source shows. It is no default: a default is a fact of a record, too."""


class Settings:
    """Settings by KubeletConfiguration field (or ``--flag``), values as parsed from JSON.

    They are those of the process that runs, from its start on, whenever it shows them.

    Attributes:
        variant: whose values come first.
        seq: record that holds the recorded ones; None where no source says.
        disputed: settings on which the sources of that record differ.
    """

    def __init__(self, variant: Variant, process: Process | None = None) -> None:
        self.variant = variant
        self.use(process)

    def use(self, process: Process | None) -> None:
        """Another process runs; None: nothing is known of it."""
        self._read: dict[object, Any] = {}
        self.seq = None if process is None else process.settings_seq
        self.disputed: frozenset[str] = frozenset() if process is None else process.disputed
        self._recorded: Mapping[str, Any] = {} if process is None else process.settings
        self._values: dict[str, Any] = {**self._recorded, **self.variant.settings}
        for name, entries in self.variant.entries.items():
            own = self._recorded.get(name)
            self._values[name] = {**(own if isinstance(own, dict) else {}), **entries}

    def as_recorded(self) -> Settings:
        """The same without the variant."""
        found = Settings(RECORDED)
        found.seq, found.disputed = self.seq, self.disputed
        found._values = dict(self._recorded)
        return found

    def is_varied(self, name: str) -> bool:
        """Whether the variant gives a setting another value; one left empty is none."""
        if name not in self.variant.settings and name not in self.variant.entries:
            return False
        return bool((self._values.get(name) or None) != (self._recorded.get(name) or None))

    def once(self, read: Callable[[Settings, *Ts], T], *others: *Ts) -> T:
        """What ``read`` makes of these settings, and of ``others``; read once for each process."""
        key = (read, *others)
        if key not in self._read:
            self._read[key] = read(self, *others)
        found: T = self._read[key]
        return found

    def get(self, name: str) -> Any:  # noqa: ANN401 # any JSON value
        """Value of a setting; ``UNKNOWN`` when no source says."""
        return self._values.get(name, UNKNOWN)


def profile_of(
    version: str | None, gates: Mapping[str, Any] | Unknown | None
) -> KubeletProfile | None:
    """The rules of a kubelet; of a version that this program does not know nothing is assumed.

    Args:
        version: None where it is not known.
        gates: the setting ``featureGates``.
    """
    with suppress(BadQuestionError):
        if version is not None:
            return with_gates(resolve(version), gates if isinstance(gates, dict) else None)
    return None
