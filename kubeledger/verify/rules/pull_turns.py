"""Which pulls had their turn, and when: how many at once, and how many a second."""

from __future__ import annotations

from collections import deque
from typing import Any, Final, NamedTuple

from kubeledger.model.bodies.imagepull import PullEnded
from kubeledger.model.record import Record
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.belief import Judgement, all_of, lacks, open_to, same
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.settings import UNKNOWN

_MS: Final = 1_000_000
_WAIT_NS: Final = 10 * NS_PER_S
"""Nothing but another pull keeps one waiting for so long."""
_KEPT: Final = 256


class _Turn(NamedTuple):
    """A pull that was recorded: when the runtime had it."""

    begin_ns: int
    end_ns: int
    seq: int


class PullTurns:
    """The pulls of one process that the runtime had."""

    def __init__(self, context: VerifyContext) -> None:
        self._context = context
        self._turns: deque[_Turn] = deque(maxlen=_KEPT)

    def forget(self) -> None:
        """Another process runs."""
        self._turns.clear()

    def judge(self, record: Record, body: PullEnded, slack_ns: int) -> Judgement:
        """Judge when a pull ran, or that it was refused.

        Args:
            record: the end of the pull.
            body: its body.
            slack_ns: by how much times may be off.

        Source: v1.36.2 pkg/kubelet/images/puller.go, helpers.go throttledImageService
        """
        if body.outcome == "refused":
            return self._refused(record, slack_ns)
        if body.pull_ms is None or body.whole_ms is None:
            return same(True, _ENDS[body.outcome])
        if body.pull_ms > body.whole_ms:
            why = f"the runtime cannot have had it for {body.pull_ms} ms of {body.whole_ms} ms"
            return same(False, why, certain=True)
        turn = _Turn(record.ts_ns - body.pull_ms * _MS, record.ts_ns, record.seq)
        waited_ns = (body.whole_ms - body.pull_ms) * _MS
        judgements = [
            same(True, f"the runtime had it for {body.pull_ms / 1000:.1f} s"),
            self._at_once(turn, waited_ns, slack_ns),
            self._in_time(turn, slack_ns),
        ]
        self._turns.append(turn)
        return all_of(judgements)

    def _at_once(self, turn: _Turn, waited_ns: int, slack_ns: int) -> Judgement:
        """Whether so many pulls may run together, or one may wait."""
        beside = [
            other
            for other in self._turns
            if min(other.end_ns, turn.end_ns) - max(other.begin_ns, turn.begin_ns) > 2 * slack_ns
        ]
        waits = waited_ns > (_WAIT_NS + slack_ns if self._context.coverage.is_of_log else 0)
        if not beside and not waits:
            return same(True, "")
        limit = self._limit()
        if isinstance(limit, str):
            return lacks([limit])
        if limit is None:
            why = f"it waited for {waited_ns / NS_PER_S:.1f} s, and cannot have waited, as any "
            why += "number of pulls may run together"
            expected = {"whole_ms": (turn.end_ns - turn.begin_ns) // _MS}
            return same(not waits, why if waits else "", expected=expected if waits else None)
        if _together(turn, beside, slack_ns) <= limit:
            return same(True, "")
        ends = sorted((other.end_ns for other in beside), reverse=True)
        later_ns = max(0, ends[limit - 1] - turn.begin_ns)
        others = f"{len(beside)} others" if len(beside) > 1 else "another one"
        why = f"it cannot have run beside {others}, where {limit} may run at a time"
        whole_ms = (waited_ns + later_ns + turn.end_ns - turn.begin_ns) // _MS
        seqs = [other.seq for other in beside]
        return same(False, why, expected={"whole_ms": whole_ms}, inputs=seqs)

    def _limit(self) -> int | str | None:
        """How many pulls may run together; None: any number; or the setting that is missing."""
        settings = self._context.settings
        serialize = settings.get("serializeImagePulls")
        if serialize is UNKNOWN:
            return "serializeImagePulls"
        if serialize:
            return 1
        if self._context.profile is None:
            return self._context.missing_profile
        if not self._context.profile.imagepull.parallel_pulls_limited:
            return None
        limit = settings.get("maxParallelImagePulls")  # has no default: left out, it is no limit
        return limit if isinstance(limit, int) and limit > 0 else None

    # -- the rate --------------------------------------------------------------------------

    def _rate(self) -> tuple[float, int] | str | None:
        """Tokens a second, and the most; None: no limit; or the setting that is missing."""
        qps: Any = self._context.settings.get("registryPullQPS")
        burst: Any = self._context.settings.get("registryBurst")
        if qps is UNKNOWN:
            return "registryPullQPS"
        if not qps:
            return None
        return "registryBurst" if burst is UNKNOWN else (qps, burst)

    def _in_time(self, turn: _Turn, slack_ns: int) -> Judgement:
        """Whether a token was left for a pull, whatever else took some."""
        before = [other for other in self._turns if other.begin_ns <= turn.begin_ns]
        rate = self._rate() if before else None
        if rate is None or isinstance(rate, str):
            return same(True, "")  # of most nodes nobody would ever notice
        qps, burst = rate
        before.sort(key=lambda other: -other.begin_ns)
        for taken, first in enumerate(before, start=1):
            window_ns = turn.begin_ns - first.begin_ns + slack_ns
            if (taken + 1 - burst) * NS_PER_S > qps * window_ns:
                why = f"{taken} pulls had begun within {window_ns / NS_PER_S:.1f} s, and "
                why += f"registryPullQPS {qps} "
                why += f"with registryBurst {burst} cannot have let another one pass"
                seqs = [other.seq for other in before[:taken]]
                return same(False, why, expected={"outcome": "refused"}, inputs=seqs)
        return same(True, "")

    def _refused(self, record: Record, slack_ns: int) -> Judgement:
        """Whether there can have been no token for a pull."""
        rate = self._rate()
        if isinstance(rate, str):
            return lacks([rate])
        if rate is None:
            return same(False, "it cannot have been refused: registryPullQPS is 0", certain=True)
        qps, burst = rate
        if burst < 1:
            return same(True, f"registryBurst {burst} lets no pull pass")
        seen = sorted((t for t in self._turns if t.begin_ns <= record.ts_ns + slack_ns),
                      key=lambda turn: -turn.begin_ns)  # fmt: skip
        for taken, first in enumerate(seen, start=1):
            window_s = max(0, record.ts_ns - first.begin_ns - slack_ns) / NS_PER_S
            if taken > burst - 1 + qps * window_s:
                why = f"{taken} pulls had begun within {window_s:.1f} s: more than registryPullQPS "
                return same(True, f"{why}{qps} lets pass", inputs=[t.seq for t in seen[:taken]])
        why = f"registryPullQPS {qps} with registryBurst {burst} cannot have refused it: "
        why += f"{len(seen)} other pulls are recorded"
        return open_to("all pulls of that time", denied=why)


_ENDS: Final = {"pulled": "it was pulled", "failed": "its pull failed"}


def _together(turn: _Turn, beside: list[_Turn], slack_ns: int) -> int:
    """The most pulls that ran at one instant of a turn."""
    spans = [(t.begin_ns + slack_ns, t.end_ns - slack_ns) for t in (turn, *beside)]
    return max(sum(begin <= at < end for begin, end in spans) for at, _ in spans)
