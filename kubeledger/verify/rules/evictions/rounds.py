"""The rounds of the eviction manager, as far as the records show them."""

from __future__ import annotations

from typing import Final

from kubeledger.kubelet.eviction.signals import DiskLayout, reclaim_functions
from kubeledger.kubelet.eviction.thresholds import Threshold
from kubeledger.model.bodies.images import EvictionSignalObserved
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.verify.context import NodePressure, Pressure, VerifyContext
from kubeledger.verify.evidence.coverage import EVICTING_NS, SILENCE_NS
from kubeledger.verify.rules.evictions.thresholds import (
    ALWAYS_READ,
    CLOCK_NS,
    Reading,
    Round,
    Thresholds,
    configured,
    transition_period_ns,
)
from kubeledger.verify.variant import UNKNOWN, Settings

ROUNDS: Final = "rounds"
_BEFORE_LOG: Final = "what the eviction manager saw before the log begins"
_ROUND_NS: Final = NS_PER_S
"""The signals of one round are logged at once."""
_GRID_NS: Final = 16 * NS_PER_S
"""A round follows the last one after ten seconds, and as long as it takes to read the signals."""
_RECENT_NS: Final = 2 * NS_PER_S
"""A round acts at once on what it read."""
_AFTER_NS: Final = 5 * NS_PER_S
"""The signals are read again so soon after a reclaim of what is unused."""
_TRANSITION_NS: Final = 300 * NS_PER_S
"""The default, for what does not depend on it."""


class Rounds(NodePressure):
    """Follows the rounds of the kubelet process that runs.

    Attributes:
        last: the round that is being read, or the last one; None before the first.
        before: the one before it.
        current: the thresholds under the settings in force.
        recorded: under the recorded settings; the same object without a variant.
        acted: something was reclaimed or evicted since the last round began.
        loose: under a variant only what would be decided counts, not what was said of it.
    """

    def __init__(self, context: VerifyContext) -> None:
        self._context = context
        self.loose = bool(context.variant.settings)
        self._known_layout: DiskLayout | None = None
        self._after: dict[str, EvictionSignalObserved] = {}
        self.restart(from_start=False)

    def restart(self, *, from_start: bool) -> None:
        """Another process begins; the log holds its first lines if ``from_start``."""
        unseen = None if from_start else _BEFORE_LOG
        self.last: Round | None = None
        self.before: Round | None = None
        self.current = Thresholds(unseen)
        self.recorded = Thresholds(unseen) if self.loose else self.current
        self.acted = False
        self.reported = None
        self._stepped = True
        self._observed: set[str] = set()
        self._missing: tuple[str, ...] = ()
        self._key: object = None
        self._reclaim: Record | None = None

    @property
    def layout(self) -> DiskLayout:
        """Where images and containers are; ``shared`` until the disks say."""
        return self._known_layout or "shared"

    @property
    def _accounts(self) -> list[Thresholds]:
        return [self.current, self.recorded] if self.loose else [self.current]

    def widen(self, phrase: str) -> None:
        """Rounds may have been held that no record shows."""
        for each in self._accounts:
            each.widen(0 if self.last is None else self.last.ts_ns, phrase)

    # -- readings ---------------------------------------------------------------------------

    def read(self, record: Record, body: EvictionSignalObserved) -> bool:
        """Take in a reading; True when another round begins with it: the last one is judged then.

        The reading itself is taken in by :meth:`begin` in that case.
        """
        if self._is_after_reclaim(record, body):
            return False
        if self._begins(record, body):
            self.close()
            return True
        self._take(record, body)
        return False

    def begin(self, record: Record, body: EvictionSignalObserved) -> None:
        self._configure(record.ts_ns)
        if self.last is not None:
            self.last.next_ns = record.ts_ns
        self.before, self.last = self.last, Round(record)
        self._stepped = False
        self._widen_by_gap(record.ts_ns)
        self._take(record, body)
        self.acted = False

    def _widen_by_gap(self, ts_ns: int) -> None:
        """Rounds that no record shows may have been held since the last one.

        Where single lines are lost one that is missing leaves a gap of two intervals.
        """
        loss, before = self._context.coverage.at(ts_ns), self.before
        longest_ns = EVICTING_NS if self.acted else SILENCE_NS
        if before is not None and ts_ns - before.ts_ns > longest_ns:
            self.widen(f"the eviction manager's rounds since {format_ts(before.ts_ns)}")
        elif loss is not None and (before is None or ts_ns - before.ts_ns > _GRID_NS):
            self.widen(loss.phrase)

    def close(self) -> None:
        """The signals of the present round were all read: step the thresholds, once."""
        if self._stepped or self.last is None:
            return
        self._stepped = True
        settings, observed = self._context.settings, self._observed | ALWAYS_READ
        for each in self._accounts:
            own = settings if each is self.current else settings.once(Settings.as_recorded)
            stays_ns = own.once(transition_period_ns)
            period_ns = _TRANSITION_NS if stays_ns is None else stays_ns
            known = own.get("enforceNodeAllocatable") is not UNKNOWN
            each.step(self.last, observed, period_ns, levels_known=known)

    def act(self, cause: int | None = None) -> None:
        """The present round decides: its signals were all read, those after ``cause`` as well."""
        self.close()
        self.acted = True
        self._context.debts.void(ROUNDS)  # it may wait for the pod's end longer than a debt does
        if self._reclaim is not None and cause == self._reclaim.seq:
            self._reclaim = None

    def expect_readings(self, record: Record) -> dict[str, EvictionSignalObserved]:
        """After this reclaim the signals are read again: where they will stand."""
        self._reclaim, self._after, self._after_ns = record, {}, record.ts_ns
        return self._after

    def latest(self, signal: str, ts_ns: int, shown: int | None = None) -> Reading | None:
        """What the round read that led to a decision; None when no record says.

        ``shown``: the amount that the decision names. Of two rounds so near it is the one that
        read this: stamps are coarse, or the line is lost after which the signals were read again.
        """
        if self.last is None or not self.is_recent(ts_ns):
            return None
        reading, before = self.last.readings.get(signal), self.before
        if before is not None and 0 <= self.last.ts_ns - before.ts_ns <= _AFTER_NS:
            other = before.readings.get(signal)
            if other is not None and shown == other.available:
                return other
        return reading

    def is_recent(self, ts_ns: int) -> bool:
        """Whether the round that led to a decision of that time was read."""
        return self.last is not None and 0 <= ts_ns - self.last.ts_ns + CLOCK_NS <= _RECENT_NS

    def _begins(self, record: Record, body: EvictionSignalObserved) -> bool:
        """Whether a reading is the first one of another round; one that is logged twice is not."""
        last = self.last
        if last is None or not 0 <= record.ts_ns - last.ts_ns <= _ROUND_NS:
            return True
        seen = last.readings.get(body.signal)
        return seen is not None and seen[:3] != (body.available, body.capacity, record.ts_ns)

    def _take(self, record: Record, body: EvictionSignalObserved) -> None:
        assert self.last is not None
        reading = Reading(body.available, body.capacity, record.ts_ns, record.seq)
        self.last.readings[body.signal] = reading
        self._observed.add(body.signal)

    def _is_after_reclaim(self, record: Record, body: EvictionSignalObserved) -> bool:
        """Signals are read again once what is unused was deleted; that is no round."""
        if self._reclaim is None:
            return False
        if body.signal in self._after or record.ts_ns - self._after_ns > _AFTER_NS:
            self._reclaim = None
        else:
            self._after_ns, self._after[body.signal] = record.ts_ns, body
        return self._reclaim is not None

    def pressure(self, condition: str, since_ns: int, until_ns: int) -> Pressure:
        if self.last is None or self.last.ts_ns > since_ns:
            return Pressure()  # what was before the last round is not kept
        period_ns = self._context.settings.once(transition_period_ns)
        if period_ns is None or self.unknown():
            return Pressure()
        if since_ns - self.last.ts_ns >= _ROUND_NS:
            self.close()
        fresh = until_ns - self.last.ts_ns <= (EVICTING_NS if self.acted else _GRID_NS)
        settled = self._stepped and fresh
        return self.current.conditions.at(condition, until_ns, period_ns, settled=settled)

    # -- settings ---------------------------------------------------------------------------

    def _configure(self, ts_ns: int) -> None:
        """Take over the settings for a round, and what the disks show of them."""
        self._known_layout = _layout_of(self.last) or self._known_layout
        profile, settings = self._context.profile, self._context.settings
        # Asked each time, so that what is judged by them rests on these settings, too.
        thresholds, self._missing = settings.once(configured, profile, self._known_layout)
        key = (settings.seq, self._known_layout, profile)
        if key == self._key:
            return
        self._key = key
        last_ns = None if self.last is None else self.last.ts_ns
        self.current.configure(thresholds, last_ns, ts_ns)
        if self.loose:
            recorded, _ = configured(settings.as_recorded(), profile, self._known_layout)
            self.recorded.configure(recorded, last_ns, ts_ns)

    def unknown(self) -> list[str]:
        if self._context.profile is None:
            return [self._context.missing_profile]
        self._configure(self.last.ts_ns if self.last is not None else 0)
        return list(self._missing)

    def reclaims(self, threshold: Threshold) -> bool:
        """Whether anything is reclaimed for it before pods are evicted."""
        profile, signal = self._context.profile, threshold.signal
        return bool(profile and reclaim_functions(signal, self.layout, profile.eviction))


def _layout_of(found: Round | None) -> DiskLayout | None:
    """Where images and containers are, by the sizes of the disks; None when not known.

    A line that is lost hides one of a disk's two sizes; so those count that two disks both say.
    """
    one_disk = None if found is None else _are_one(found, "nodefs", "imagefs")
    if found is None or one_disk is None:
        return None
    if _are_one(found, "containerfs", "imagefs") in (True, None):
        return "shared" if one_disk else "dedicated"
    return "containers" if one_disk else "split"


def _are_one(found: Round, disk: str, other: str) -> bool | None:
    """Whether two disks have the same sizes; None where not both sizes are known."""
    read = found.readings.get
    amounts = ("available", "inodesFree")
    pairs = [(read(f"{disk}.{amount}"), read(f"{other}.{amount}")) for amount in amounts]
    given = [one.capacity == two.capacity for one, two in pairs if one and two]
    return all(given) if given else None
