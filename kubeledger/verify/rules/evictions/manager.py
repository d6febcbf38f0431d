"""The eviction manager of the running kubelet process, as far as the records tell of it."""

from __future__ import annotations

from typing import Final

from kubeledger.eviction.reclaim import reclaim_functions
from kubeledger.eviction.signals import DiskLayout
from kubeledger.eviction.thresholds import Threshold
from kubeledger.images.records import EvictionSignalObserved
from kubeledger.machine import Record
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.rules.evictions.config import configured, transition_period_ns
from kubeledger.verify.rules.evictions.rounds import Rounds, layout_of
from kubeledger.verify.settings import Settings

__all__ = ["Manager"]

_BEFORE_LOG: Final = "what the eviction manager saw before the log begins"
_AFTER_NS: Final = 5 * NS_PER_S
"""The signals are read again so soon after a reclaim of what is unused."""
_TRANSITION_NS: Final = 300 * NS_PER_S
"""The default, for what does not depend on it."""


class Manager:
    """Follows the rounds, under the settings in force and, with a variant, as recorded.

    Attributes:
        rounds: under the settings in force.
        base: under the recorded settings; the same object without a variant.
        acted: something was reclaimed or evicted since the last round began.
        loose: under a variant only what would be decided counts, not what was said of it.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.loose = bool(bench.variant.settings)
        self._known_layout: DiskLayout | None = None
        self._after: dict[str, EvictionSignalObserved] = {}
        self.restart(from_start=False)

    @property
    def layout(self) -> DiskLayout:
        """Where images and containers are; ``shared`` until the disks tell."""
        return self._known_layout or "shared"

    def restart(self, *, from_start: bool) -> None:
        """Another process begins; the log holds its first lines if ``from_start``."""
        unseen = None if from_start else _BEFORE_LOG
        self.rounds = self.base = Rounds(unseen)
        if self.loose:
            self.base = Rounds(unseen)
        self.acted = False
        self._missing: tuple[str, ...] = ()
        self._key: object = None
        self._reclaim: Record | None = None

    def _both(self) -> list[Rounds]:
        return [self.rounds, self.base] if self.loose else [self.rounds]

    def widen(self, phrase: str) -> None:
        """Rounds may have been held of which no record tells."""
        for each in self._both():
            each.widen(phrase)

    def read(self, record: Record, body: EvictionSignalObserved) -> bool:
        """Take in a reading; True when it begins another round: the last one is judged then."""
        if self._is_after_reclaim(record, body):
            return False
        if not self.rounds.begins(record, body):
            for each in self._both():
                each.read(record, body)
            return False
        self.close()
        return True

    def begin(self, record: Record, body: EvictionSignalObserved) -> None:
        """Another round begins with this reading."""
        self._configure(record.ts_ns)
        loss = self.bench.losses.at(record.ts_ns)
        for each in self._both():
            each.begin(record.ts_ns, evicted=self.acted)
            if loss is not None:
                each.widen(loss.phrase)
            each.read(record, body)
        self.acted = False

    def act(self, cause: int | None = None) -> None:
        """The present round decides: its signals were all read, those behind ``cause`` as well."""
        self.close()
        self.acted = True
        if self._reclaim is not None and cause == self._reclaim.seq:
            self._reclaim = None

    def expect_readings(self, record: Record) -> dict[str, EvictionSignalObserved]:
        """After this reclaim the signals are read again: where they will stand."""
        self._reclaim, self._after, self._after_ns = record, {}, record.ts_ns
        return self._after

    def _is_after_reclaim(self, record: Record, body: EvictionSignalObserved) -> bool:
        """Signals are read again once what is unused was deleted; that is no round."""
        if self._reclaim is None:
            return False
        if body.signal in self._after or record.ts_ns - self._after_ns > _AFTER_NS:
            self._reclaim = None
            return False
        self._after_ns = record.ts_ns
        self._after[body.signal] = body
        return True

    def _configure(self, ts_ns: int) -> None:
        """Take over the settings for a round, and what the disks tell of them."""
        told = layout_of((self.rounds.last, self.rounds.before))
        self._known_layout = told or self._known_layout
        profile, settings = self.bench.profile, self.bench.settings
        key = (settings.seq, self._known_layout, profile)
        if key == self._key:
            return
        self._key = key
        thresholds, self._missing = configured(settings, profile, self._known_layout)
        self.rounds.configure(thresholds, ts_ns)
        if self.loose:
            recorded, _ = configured(settings.as_recorded(), profile, self._known_layout)
            self.base.configure(recorded, ts_ns)

    def close(self) -> None:
        """The signals of the present round were all read."""
        settings = self.bench.settings
        self.rounds.close(settings.once(transition_period_ns) or _TRANSITION_NS)
        if self.loose:
            recorded = settings.once(Settings.as_recorded)
            self.base.close(recorded.once(transition_period_ns) or _TRANSITION_NS)

    def unknown(self) -> list[str]:
        """What is missing before anything can be judged."""
        if self.bench.profile is None:
            return [self.bench.missing_profile]
        self._configure(self.rounds.last.ts_ns if self.rounds.last is not None else 0)
        return list(self._missing)

    def reclaims(self, threshold: Threshold) -> bool:
        """Whether anything is reclaimed for it before pods are evicted."""
        profile = self.bench.profile
        return profile is not None and bool(
            reclaim_functions(threshold.signal, self.layout, profile.eviction)
        )
