"""The reader of kubelet logs: bytes to log lines that an assembler asked for.

Theory of operation. Nearly all lines of a log are noise, so the loop over a chunk looks
at three slices of a line and no more: the bytes from the pid to ``] `` (the caller, whose
verdict was learned from an earlier line), for structured lines those to the end of the
quoted message, and the stamp, to see that time does not go back. Only lines that some
assembler handles, or nobody knows, are decoded (``klog_entries``); values are parsed for
handled lines only. A line that was read before (``repeats``) counts once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubeledger.importers.account import Account
from kubeledger.importers.klog_entries import NEVER, EntryReader
from kubeledger.importers.klog_forms import Place, json_stamp
from kubeledger.importers.klog_lines import LineCutter, is_bare_log
from kubeledger.importers.klog_outputs import LogOutput
from kubeledger.importers.klog_prefix import HEADER, JSON_START
from kubeledger.importers.klog_time import Clock
from kubeledger.importers.multiline import opens_block
from kubeledger.importers.repeats import Repeats
from kubeledger.importers.router import PREFIX_LENGTH, Router, Verdict

__all__ = ["KlogReader"]


class KlogReader(EntryReader):
    """Reads one log; the clock is shared by the logs of a node, in their order.

    Attributes:
        cutter: its ``stats`` say what was odd about the bytes.
    """

    def __init__(self, account: Account, router: Router, clock: Clock) -> None:
        super().__init__(account, router, clock)
        self.cutter = LineCutter()
        self._repeats = Repeats()
        self._in_repeat = False

    def read(self, chunks: Iterable[bytes]) -> Iterator[LogOutput]:
        """What the log holds, in its own order."""
        number = offset = 0
        for lines, lengths in self.cutter.batches(chunks):
            if not lines:
                continue
            if self._wrapped is None:
                self._wrapped = not is_bare_log(lines)
            lengths = lengths or list(map(len, lines))
            yield from self._batch(lines, lengths, number, offset)
            number += len(lines)
            offset += sum(lengths) + len(lines)
        self._flush()
        self._count_split()
        self._clock.finish()
        yield from self._take()
        self.account.lines = number
        yield from self.account.drain(self._ts_ns)

    def _batch(
        self, lines: list[bytes], lengths: list[int], number: int, offset: int
    ) -> Iterator[LogOutput]:
        """The loop that decides how fast an import is: slices and look-ups only."""
        bodies = self._bodies.of(lines) if self._wrapped else lines
        verdict_of = self._verdicts.get
        noise_verdict, known_verdict, mixed = Verdict.NOISE, Verdict.UNDERSTOOD, Verdict.MIXED
        noise = known = seen = 0
        latest = self._latest
        tail: bytes | None = None
        self._repeats.begin(bodies)
        repeats = self._repeats.near
        for index, body in enumerate(bodies):
            end = body.find(b"] ", 22, 200)
            verdict = verdict_of(body[21:end])
            if verdict is mixed:
                if body[end + 2 : end + 3] == b'"':
                    verdict = verdict_of(body[21 : body.find(b'"', end + 3)])
                else:
                    verdict = verdict_of(body[21 : end + 2 + PREFIX_LENGTH])
            if verdict is noise_verdict or verdict is known_verdict:
                stamp = body[1:21]
                if stamp > latest or (stamp == latest and not repeats(index, stamp)):
                    latest = stamp
                    tail = body
                    if verdict is noise_verdict:
                        noise += 1
                    else:
                        known += 1
                    if self._pending is not None:
                        self._flush()
                        yield from self._take()
                    continue
            if tail is not None:
                self._passed(tail, latest)
                tail = None
            offset += sum(lengths[seen:index]) + index - seen
            seen = index
            place = Place(lines[index], body, number + index + 1, offset)
            is_new = body[1:21] > latest and not self._in_repeat
            if is_new or not self._is_repeat(index, place):
                self._line(place)
            latest = self._latest
            if self._out:
                yield from self._take()
        if tail is not None:
            self._passed(tail, latest)
        self.account.noise += noise
        self.account.understood += known

    def _passed(self, tail: bytes, latest: bytes) -> None:
        """The loop went over lines that need no look: take down the last of them."""
        self._in_repeat = False
        self._tail, self._tail_kind, self._in_block = tail, Verdict.NOISE, opens_block(tail)
        try:
            self._ts_ns = self._clock.read(latest)
        except ValueError:  # a damaged stamp that only looked late enough
            self._latest = NEVER
        else:
            self._latest = latest

    def _is_repeat(self, index: int, place: Place) -> bool:
        """The line was read before, or belongs to an entry that was; then it is counted."""
        json = place.body.startswith(JSON_START)
        stamp = json_stamp(place.body) if json else place.body[1:21]
        if stamp > self._latest and not self._in_repeat:
            return False
        if json or HEADER.match(place.body):
            self._in_repeat = False
            seen = self._repeats.near if stamp == self._latest else self._repeats.far
            if stamp > self._latest or not seen(index, stamp):
                return False
            # Right below its twin it is alone: what follows belongs to the twin.
            self._in_repeat = not self._repeats.is_just_above(index)
        elif not self._in_repeat:
            return False
        self._repeated(place)
        return True
