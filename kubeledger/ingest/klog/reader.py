"""The reader of kubelet logs: bytes to log lines that an assembler asked for.

Theory of operation. Nearly all lines of a log are noise, so the loop over a chunk looks
at three slices of a line and no more: the bytes from the pid to ``] `` (the caller, whose
verdict was learned from an earlier line), for structured lines those to the end of the
quoted message, and the stamp, to see that time does not go back. Only lines that some
assembler handles, that nobody knows, or of severity W, E or F are decoded (``entries``);
values are parsed for these only. A line that was read before (``reorder``) counts once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from kubeledger.ingest.klog.account import Account, LogOutput
from kubeledger.ingest.klog.cut_lines import NOT_CUT, LineEnds
from kubeledger.ingest.klog.entries import NEVER, EntryReader
from kubeledger.ingest.klog.forms import Place, json_stamp
from kubeledger.ingest.klog.lines import (
    OTHER_PROGRAM,
    Batch,
    LineCutter,
    are_carried,
    is_bare_log,
    opens_block,
)
from kubeledger.ingest.klog.reorder import Repeats
from kubeledger.ingest.klog.router import (
    ERRORS,
    LOOK,
    NOISE,
    PREFIX_LENGTH,
    READ,
    UNDERSTOOD,
    Router,
    Skim,
    Verdict,
)
from kubeledger.ingest.klog.stamps import Clock
from kubeledger.ingest.sources.items import LogLine
from kubeledger.ingest.sources.node_lines import OTHER_NODE
from kubeledger.ingest.sources.prefix import HEADER, JSON_START
from kubeledger.ingest.sources.several import OTHER_SECTION

_STEP = 512
"""Lines that are skimmed at once: what was learned of them serves the next ones."""

_RUN = re.compile(b"[%c%c]*" % (NOISE, UNDERSTOOD))

# To look up a member of an enumeration takes as long as three slices.
_NOISE, _UNDERSTOOD, _MIXED = Verdict.NOISE, Verdict.UNDERSTOOD, Verdict.MIXED


class KlogReader(EntryReader):
    """Reads one log; the clock is shared by the logs of a node, in their order.

    Attributes:
        cutter: its ``stats`` say what was odd about the bytes.
    """

    def __init__(
        self,
        account: Account,
        router: Router,
        clock: Clock,
        place: Callable[[int, int], tuple[int, int]] | None = None,
        ends: LineEnds = NOT_CUT,
        *,
        goes_back: bool = False,
        begin_ns: int = 0,
    ) -> None:
        """Nothing is read yet.

        Args:
            clock: shared by the logs of a node.
            place: that of the source, where its lines are reordered.
            ends: how its lines end.
            goes_back: some stamps are earlier than those above.
            begin_ns: time of the log's first entry, which what stands above it gets.
        """
        super().__init__(account, router, clock, ends)
        self._ts_ns = self._ts_ns or begin_ns
        self._place = place
        self.cutter = LineCutter()
        self._repeats = Repeats(all_above=goes_back)
        self._skim = Skim()
        self._in_repeat = False
        self._others = self._number = self._offset = 0

    def read(self, chunks: Iterable[bytes]) -> Iterator[LogOutput]:
        """What a whole log holds, in its own order."""
        for chunk in chunks:
            yield from self.feed(chunk)
        yield from self.end()

    def feed(self, chunk: bytes) -> Iterator[LogOutput]:
        """What is known after the next bytes of the log; an entry is, once the next one begins."""
        if chunk:
            yield from self._cut_lines(self.cutter.cut(chunk))

    def settle(self) -> Iterator[LogOutput]:
        """The entry that was begun, taken as whole: nothing was written after it for a while."""
        self._flush()
        yield from self._take()

    def end(self) -> Iterator[LogOutput]:
        """The log has no more: its last entry, and the account of its lines."""
        last = self.cutter.end()
        if last is not None:
            yield from self._cut_lines(last)
        self._flush()
        self._count_split()
        self._clock.finish()
        yield from self._take()
        self.account.lines = self._number - self._others
        yield from self.account.drain(self._ts_ns)

    def _cut_lines(self, batch: Batch) -> Iterator[LogOutput]:
        lines, lengths = batch
        if not lines:
            return
        if self._wrapped is None:
            self._wrapped = not is_bare_log(lines)
        elif not self._wrapped:  # two forms of a log may stand in one file
            self._wrapped = are_carried(lines)
        lengths = lengths or list(map(len, lines))
        yield from self._batch(lines, lengths, self._number, self._offset)
        self._number += len(lines)
        self._offset += sum(lengths) + len(lines)

    def _cut(self, line: LogLine) -> None:
        """As above; where the log ends inside its last line nothing is lost before its end."""
        if self.cutter.stats.ends_with_newline:
            super()._cut(line)

    def _batch(
        self, lines: list[bytes], lengths: list[int], number: int, offset: int
    ) -> Iterator[LogOutput]:
        bodies = self._bodies.of(lines) if self._wrapped else lines
        self._repeats.begin(bodies)
        seen = 0
        for index in self._to_read(bodies):
            offset += sum(lengths[seen:index]) + index - seen
            seen = index
            body = bodies[index]
            if body.startswith(OTHER_NODE):
                if body is OTHER_PROGRAM or body.startswith(OTHER_SECTION):
                    self.account.noise += 1
                else:
                    self._others += 1
                continue
            line, begin = number + index, offset
            if self._place is not None:
                line, begin = self._place(line, begin)
            place = Place(lines[index], body, line + 1, begin)
            is_new = body[1:21] > self._latest and not self._in_repeat
            if is_new or not self._is_repeat(index, place):
                self._line(place)
            if self._out:
                yield from self._take()

    def _to_read(self, bodies: list[bytes]) -> Iterator[int]:
        """Indices of the lines that must be read; those between are counted and passed over.

        This decides how fast an import is: what runs for each line runs in C (``Skim``), and
        steps of this loop are for runs of lines, or for the first line of its kind.
        """
        tail: bytes | None = None
        latest = self._latest
        end_of_run = _RUN.match
        for begin in range(0, len(bodies), _STEP):
            piece = bodies[begin : begin + _STEP]
            stamps = [body[1:21] for body in piece]
            codes = self._skim.codes(piece, stamps)
            at = 0
            while at < len(piece):
                stamp, code, stop = stamps[at], codes[at], at + 1
                if code > READ and stamp > latest:
                    stop = end_of_run(codes, at).end()  # type: ignore[union-attr]  # it may be empty
                else:
                    if code == LOOK:
                        code = codes[at] = self._code(piece[at])
                    if (
                        code <= READ
                        or stamp < latest
                        or (stamp == latest and self._repeats.near(begin + at, stamp))
                    ):
                        if tail is not None:
                            self._passed(tail, latest)
                            tail = None
                        self._is_known = code == READ
                        yield begin + at
                        latest = self._latest
                        at = stop
                        continue
                noise = codes.count(NOISE, at, stop)
                self.account.noise += noise
                self.account.understood += stop - at - noise
                tail, latest = piece[stop - 1], stamps[stop - 1]
                if self._pending is not None:
                    self._flush()
                at = stop
        if tail is not None:
            self._passed(tail, latest)

    def _code(self, body: bytes) -> int:
        """What is to be done with a line, by its caller, or by caller and message."""
        bracket = body.find(b"] ", 22, 200)
        verdict = self._verdicts.get(body[21:bracket])
        last, end = bracket, bracket + 2
        if verdict is _MIXED:
            if body[end : end + 1] == b'"':
                last = body.find(b'"', end + 1)
                verdict = self._verdicts.get(body[21:last])
                end = last + 1
            else:
                end += PREFIX_LENGTH
                verdict = self._verdicts.get(body[21:end])
        if verdict is None or verdict is _MIXED:
            return LOOK
        code = NOISE if verdict is _NOISE else UNDERSTOOD if verdict is _UNDERSTOOD else READ
        if last >= 0:
            self._skim.learn(body, end, code)
        return min(code, READ) if body.startswith(ERRORS) else code

    def _passed(self, tail: bytes, latest: bytes) -> None:
        """The loop went over lines that need no look: take down the last of them."""
        self._in_repeat = False
        self._tail, self._tail_kind, self._in_block = tail, _NOISE, opens_block(tail)
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
