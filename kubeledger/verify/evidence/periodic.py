"""What a kubelet does again and again while it runs, and where that is missing."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from kubeledger.model.units import NS_PER_S

_SLACK_NS = 15 * NS_PER_S
"""Work that takes long puts a activity off; what comes later than this does not follow from it."""


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """A time in which occurrences are missing.

    Attributes:
        activity: what should have been there.
        period_ns: its period.
        missing: occurrences that are not there.
    """

    activity: str
    period_ns: int
    from_ts_ns: int
    to_ts_ns: int
    missing: int


class _Run(msgspec.Struct):
    """Occurrences between which none is missing: the first, the last, and how many."""

    first_ns: int
    last_ns: int
    count: int = 1


class PeriodicActivity(msgspec.Struct):
    """One regular act. Memory grows with its gaps, not with its occurrences.

    Attributes:
        name: for people.
        period_ns: how often it comes.
        longest_ns: the longest step between two of which the later follows.
    """

    name: str
    period_ns: int
    longest_ns: int = 0
    _runs: list[_Run] = []

    def note(self, ts_ns: int) -> bool:
        """It was seen, in any order; whether it counts: a second holds one activity."""
        run = self._runs[-1] if self._runs else None
        step_ns = -1 if run is None else ts_ns - run.last_ns
        if 0 <= step_ns < NS_PER_S:
            return False
        if run is not None and 0 <= step_ns <= self._step_max_ns:
            run.last_ns, run.count = ts_ns, run.count + 1
            self.longest_ns = max(self.longest_ns, step_ns)
        else:
            self._runs.append(_Run(ts_ns, ts_ns))
        return True

    @property
    def _step_max_ns(self) -> int:
        return max(self.period_ns * 3 // 2, self.period_ns + _SLACK_NS)

    @property
    def is_regular(self) -> bool:
        """Whether most occurrences follow on another; else nothing can be said of those missing."""
        follow = sum(run.count - 1 for run in self._runs)
        return follow > 0 and follow >= len(self._runs) - 1

    def ends(self) -> tuple[int, int] | None:
        """The first and the last activity; None without any."""
        if not self._runs:
            return None
        return min(r.first_ns for r in self._runs), max(r.last_ns for r in self._runs)

    def gaps(self, begin_ns: int | None = None, end_ns: int | None = None) -> list[Gap]:
        """Times without it, in order.

        Args:
            begin_ns: when it began to be due; None: with the first one.
            end_ns: until when it was due; None: until the last one.
        """
        runs = sorted((run.first_ns, run.last_ns) for run in self._runs)
        if begin_ns is not None:
            runs.insert(0, (begin_ns, begin_ns))
        if end_ns is not None:
            runs.append((end_ns, end_ns))
        found: list[Gap] = []
        last_ns = runs[0][1] if runs else 0
        for _, (first_ns, until_ns) in pairwise(runs):
            if first_ns - last_ns > self._step_max_ns:
                missing = max(1, round((first_ns - last_ns) / self.period_ns) - 1)
                found.append(
                    Gap(
                        activity=self.name,
                        period_ns=self.period_ns,
                        from_ts_ns=last_ns,
                        to_ts_ns=first_ns,
                        missing=missing,
                    )
                )
            last_ns = max(last_ns, until_ns)
        return found
