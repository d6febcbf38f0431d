"""The eviction manager of the running kubelet process, as far as the records tell of it."""

from __future__ import annotations

from typing import Final

import msgspec

from kubeledger.eviction.reclaim import reclaim_functions
from kubeledger.eviction.signals import RESOURCE_OF, DiskLayout
from kubeledger.eviction.thresholds import Threshold
from kubeledger.images.records import EvictionSignalObserved
from kubeledger.machine import Record
from kubeledger.units import NS_PER_S
from kubeledger.verify.belief import Judgement, Ruling, judge
from kubeledger.verify.bench import Bench
from kubeledger.verify.evictions.config import configured, transition_period_ns
from kubeledger.verify.evictions.judging import Claim, met_rulings
from kubeledger.verify.evictions.rounds import Rounds, layout_of

__all__ = ["Manager"]

_BEFORE_LOG: Final = "what the eviction manager saw before the log begins"
_AFTER_NS: Final = 5 * NS_PER_S
"""The signals are read again so soon after a reclaim of what is unused."""
_TRANSITION_NS: Final = 300 * NS_PER_S
"""The default, for what does not depend on it."""
_WORST: Final = ("impossible", "unverifiable", "admissible", "match")


class Manager:
    """Follows the rounds, under the settings in force and, with a variant, as recorded.

    Attributes:
        rounds: None before the first.
        base: the rounds under the recorded settings; the same object without a variant.
        acted: something was reclaimed or evicted since the last round began.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.rounds: Rounds | None = None
        self.base: Rounds | None = None
        self.acted = False
        self._known_layout: DiskLayout | None = None
        self._missing: tuple[str, ...] = ()
        self._key: object = None
        self._from_start = False
        self._reclaim: Record | None = None
        self._after: dict[str, EvictionSignalObserved] = {}
        self._after_ns: int | None = None

    @property
    def layout(self) -> DiskLayout:
        """Where images and containers are; ``shared`` until the disks tell."""
        return self._known_layout or "shared"

    @property
    def loose(self) -> bool:
        """Under a variant only what would be decided counts, not what was said of it."""
        return bool(self.bench.variant.settings)

    def restart(self, *, from_start: bool) -> None:
        """Another process begins; the log holds its first lines if ``from_start``."""
        self.rounds = self.base = self._reclaim = self._key = None
        self._from_start, self.acted = from_start, False

    def widen(self, phrase: str) -> None:
        """Rounds may have been held of which no record tells."""
        for each in self._both():
            each.widen(phrase)

    def _both(self) -> list[Rounds]:
        """The rounds under the settings in force, and, under a variant, as recorded."""
        found = [each for each in (self.rounds, self.base) if each is not None]
        return found if self.rounds is not self.base else found[:1]

    def read(self, record: Record, body: EvictionSignalObserved) -> bool:
        """Take in a reading; True when it begins another round: the last one is judged then."""
        if self._is_after_reclaim(record, body):
            return False
        rounds = self.rounds
        if rounds is not None and not rounds.begins(record, body):
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

    def expect_readings(self, record: Record) -> dict[str, EvictionSignalObserved]:
        """After this reclaim the signals are read again: where they will stand."""
        self._reclaim, self._after, self._after_ns = record, {}, None
        return self._after

    def evicts_for(self, cause: int | None) -> None:
        """A pod is evicted, so all signals of its reclaim were read."""
        if self._reclaim is not None and cause == self._reclaim.seq:
            self._reclaim = None

    def _is_after_reclaim(self, record: Record, body: EvictionSignalObserved) -> bool:
        """Signals are read again once what is unused was deleted; that is no round."""
        if self._reclaim is None:
            return False
        began = self._reclaim.ts_ns if self._after_ns is None else self._after_ns
        if body.signal in self._after or record.ts_ns - began > _AFTER_NS:
            self._reclaim = None
            return False
        self._after_ns = record.ts_ns
        self._after[body.signal] = body
        return True

    def _configure(self, ts_ns: int) -> None:
        """Take over the settings, and what the disks tell of them."""
        old = self.rounds
        told = layout_of((old.last, old.before)) if old is not None else None
        self._known_layout = told or self._known_layout
        key = (self.bench.settings.seq, self._known_layout, self.bench.profile)
        if old is not None and key == self._key:
            return
        self._key = key
        if old is None:
            seen_from = None if self._from_start else _BEFORE_LOG
            self.rounds = Rounds(seen_from=seen_from, ts_ns=ts_ns)
            self.base = self.rounds
            if self.bench.variant.settings:
                self.base = Rounds(seen_from=seen_from, ts_ns=ts_ns)
        assert self.rounds is not None
        assert self.base is not None
        profile, settings = self.bench.profile, self.bench.settings
        thresholds, self._missing = configured(settings, profile, self._known_layout)
        self.rounds.configure(thresholds)
        if self.base is not self.rounds:
            recorded, _ = configured(settings.as_recorded(), profile, self._known_layout)
            self.base.configure(recorded)

    def close(self) -> None:
        """The signals of the present round were all read."""
        for each in self._both():
            settings = self.bench.settings
            if each is not self.rounds:
                settings = settings.as_recorded()
            each.close(transition_period_ns(settings) or _TRANSITION_NS)

    def unknown(self, ts_ns: int) -> list[str]:
        """What is missing before anything can be judged."""
        if self.bench.profile is None:
            return [self.bench.missing_profile]
        self._configure(ts_ns)
        return list(self._missing)

    def reclaims(self, threshold: Threshold) -> bool:
        """Whether anything is reclaimed for it before pods are evicted."""
        profile = self.bench.profile
        return profile is not None and bool(
            reclaim_functions(threshold.signal, self.layout, profile.eviction)
        )

    def threshold(self, ts_ns: int, claim: Claim) -> tuple[Judgement, Threshold | None]:
        """Whether some threshold was met that fits what is claimed, and which fits best.

        Args:
            ts_ns: when the round began to act.
            claim: what is said of it.
        """
        rounds = self.rounds
        assert rounds is not None
        meant, is_read = claim, rounds.is_recent(ts_ns)
        if self.loose:
            claim = Claim(claim.resource, None, None, None, None, None)
        best: tuple[Judgement, Threshold | None] | None = None
        for threshold, belief in sorted(
            rounds.thresholds.items(), key=lambda item: not meant.names(item[0])
        ):
            if claim.resource not in (None, RESOURCE_OF[threshold.signal]):
                continue
            reading = rounds.latest(threshold.signal, ts_ns)
            if not claim.fits(threshold, reading):
                continue
            rulings = list(met_rulings(threshold, belief, reading, claim, is_read=is_read))
            found = judge(rulings)
            if best is None or _WORST.index(found.verdict) > _WORST.index(best[0].verdict):
                best = found, threshold
        if best is not None:
            return best
        what = f"{claim.kind or ''} threshold of {claim.signal or claim.resource}".strip()
        value = "" if claim.threshold is None else f" of {claim.threshold}"
        why = f"no {what}{value} is set" + ("" if claim.observed is None else " that fits")
        seqs = () if self.bench.settings.seq is None else (self.bench.settings.seq,)
        # Of which kind it was follows from lines of the rounds before, which may be lost.
        of_any_kind = msgspec.structs.replace(claim, kind=None)
        certain = not any(
            of_any_kind.fits(each, rounds.latest(each.signal, ts_ns)) for each in rounds.thresholds
        )
        return judge([Ruling(allowed=False, why=why, inputs=seqs, certain=certain)]), None
