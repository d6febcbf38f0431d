"""A log file that is rotated: by renaming, or by copying and truncating; packed or not.

What was read is known again by what it holds, not by its name: after a rotation it is one of the
files that are called like it (``kubelet.log.1``, ``kubelet-20261123.log.gz``), or still open. Its
rest is read first, then the files that are new, then the log itself. A file that cannot be read is
a gap as long as that lasts, and is tried again; what it held comes late then, and once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from kubeledger.model.errors import BadInputError, reason_of
from kubeledger.model.units import NS_PER_S
from kubeledger.record.observations import POLL_BYTES, Gap, Lines, Mark, Observation
from kubeledger.record.sources.rotation import HEAD_BYTES, Content, Link, Links
from kubeledger.record.sources.state_files import Every

_GONE_MAX = 8
"""So many files that are gone would be known again: they may have been packed."""
_AGAIN_NS = 5 * NS_PER_S
"""How often what could not be read is tried again."""
_PATIENCE_NS = 60 * NS_PER_S
"""So long a log may be missing before that is a gap: its directory may come late."""
_SETTLE_NS = 3 * NS_PER_S
"""A file that cannot be read may be in the making for so long: gzip takes its time."""


class _Place(msgspec.Struct, frozen=True):
    """How far a file was read.

    Attributes:
        inode: of the file; 0 for no file.
        head_bytes, head: how many of its first bytes were there, and their digest.
        offset: bytes read.
    """

    inode: int = 0
    head_bytes: int = 0
    head: str = ""
    offset: int = 0

    def begins(self, content: Content) -> bool:
        """Whether a file begins as what was read."""
        if not self.head_bytes:
            return content.link.inode == self.inode
        return content.head(self.head_bytes) == (self.head_bytes, self.head)

    def after(self, content: Content, read: int) -> _Place:
        """The place so many bytes further."""
        head_bytes, head, offset = self.head_bytes, self.head, self.offset + read
        if head_bytes < HEAD_BYTES:
            head_bytes, head = content.head(min(HEAD_BYTES, offset - content.begin))
        return _Place(content.link.inode, head_bytes, head, offset)


class _Missing(msgspec.Struct, frozen=True):
    """A file of which the rest could not be read so far.

    Attributes:
        place: how far it was read; without an inode, the log itself is not there.
        size: of the file, when that was noticed.
        reason, since_ns: of its gap.
        is_over: its gap has ended, for it was gone; it may come back, packed.
    """

    place: _Place
    size: int
    reason: str
    since_ns: int | None
    is_over: bool = False

    def may_be(self, link: Link) -> bool:
        """Whether it is that file, by what its directory shows."""
        same = link.inode == self.place.inode and link.size >= self.size
        return same and not self.is_over

    def is_in(self, content: Content) -> bool:
        """Whether it is what that file holds."""
        if self.place.head_bytes:
            return self.place.begins(content)
        return self.may_be(content.link)

    def gap(self, name: str, until_ns: int | None, cursor: str | None) -> Gap:
        """Its gap, or the end of it."""
        return Gap(name, self.reason, self.since_ns, until_ns, cursor)


class _Cursor(msgspec.Struct, frozen=True):
    """Where reading goes on.

    Attributes:
        place: of the file that is read.
        read_ns: when something was read last.
        known: what the files are known by that were read, or were there before: by head, by place.
        missing: what is still to be read of others.
    """

    place: _Place = _Place()
    read_ns: int | None = None
    known: tuple[tuple[str, str], ...] = ()
    missing: tuple[_Missing, ...] = ()

    @property
    def text(self) -> str:
        """As a source gives it."""
        return msgspec.json.encode(self).decode()

    def knows(self, link: Link, by_head: str) -> bool:
        """Whether a file was read; ``by_head`` is empty where it cannot be opened."""
        if by_head:
            return any(by_head == head for head, _ in self.known)
        return any(link.by_place == place for _, place in self.known)


class _Part(NamedTuple):
    """A file to be read, and from where."""

    link: Link
    place: _Place


class LogFile:
    """The lines of one log file, as it grows and is rotated.

    Attributes:
        name: that of its lines in the capture.
    """

    def __init__(
        self, name: str, path: Path, cursor: str | None = None, *, is_whole: bool = False
    ) -> None:
        """Nothing is opened yet.

        Args:
            name: of its lines in the capture.
            path: the log; it need not be there yet.
            is_whole: nothing more will be written: a last line that has no end is one, too.

        Raises:
            BadInputError: the cursor is not one of a log file.
        """
        self.name = name
        self._links = Links(path)
        self._is_whole = is_whole
        self._content: Content | None = None
        self._parts: deque[_Part] = deque()
        self._suspects: dict[str, int] = {}
        self._again = Every(_AGAIN_NS)
        self._absent_since_ns = -1
        self._is_begun = False
        try:
            self._at = msgspec.json.decode(cursor, type=_Cursor) if cursor else _Cursor()
        except msgspec.MsgspecError as error:
            raise BadInputError(f"not the cursor of a log file: {error}") from None
        self._is_new = cursor is None

    def poll(self, now_ns: int) -> Iterator[Observation | Mark]:
        if not self._is_begun:
            self._is_begun = True
            if self._is_new:
                self._take_down()
            if self._is_new or self._at.missing:
                lasting = [each for each in self._at.missing if not each.is_over]
                gaps = tuple(each.gap(self.name, None, None) for each in lasting)
                yield Mark(self._at.text, gaps)
                return
        if self._content is not None and not self._is_in(self._content):
            self.close()  # the same file holds other lines by now
        given = 0
        while given < POLL_BYTES:
            if self._content is None and not (yield from self._next(now_ns)):
                break
            read = yield from self._read(now_ns)
            given += read
            if not read and self._content is not None:
                break
        yield from self._late(now_ns)
        yield from self._absence(now_ns)

    def close(self) -> None:
        if self._content is not None:
            self._content.close()
            self._content = None

    # --- the file that is read -------------------------------------------------------------

    def _read(self, now_ns: int) -> Generator[Observation, None, int]:
        """Read on in the open file, and leave it where it has ended; how much was read."""
        content = self._content
        assert content is not None
        if not self._at.place.offset and (begin := content.begin):
            self._move(content, begin, now_ns)
        data = content.read(self._at.place.offset, POLL_BYTES)
        broken, left = content.broken, self._is_left(content)
        lines = data[: data.rfind(b"\n") + 1]
        if not lines and (len(data) == POLL_BYTES or (self._is_whole and not left)):
            lines = data  # part of a line: one that is longer than any, or the last one
        if lines:
            self._move(content, len(lines), now_ns)
            yield Lines(self.name, lines, self._at.text)
        elif broken is not None:
            if self._is_settled(content.link, now_ns):
                yield self._lose(content.link, self._at.place, broken)
                self.close()
        elif left:
            if data:  # its last line has no end, and never gets one
                self._move(content, len(data), now_ns)
            self._done(content)
            if data:
                yield Lines(self.name, data + b"\n", self._at.text)
            self.close()
        return len(lines)

    def _move(self, content: Content, read: int, now_ns: int) -> None:
        place = self._at.place.after(content, read)
        self._at = msgspec.structs.replace(self._at, place=place, read_ns=now_ns)

    def _done(self, content: Content) -> None:
        """All of a file is read: it is known from now on."""
        known = (*self._at.known, (content.by_head, content.by_place))
        self._at = msgspec.structs.replace(self._at, place=_Place(), known=known)

    def _lose(self, link: Link, place: _Place, why: str) -> Gap:
        """A file cannot be read: that is a gap, until it can."""
        at = self._at
        left = _Place() if place == at.place else at.place
        place = msgspec.structs.replace(place, inode=link.inode)
        reason = f"{link.path.name} cannot be read: {why[:1].lower()}{why[1:]}"
        lost = _Missing(place, link.size, reason, at.read_ns)
        self._at = msgspec.structs.replace(at, place=left, missing=(*at.missing, lost))
        return lost.gap(self.name, None, self._at.text)

    def _is_in(self, content: Content) -> bool:
        """Whether an open file still holds what was read of it."""
        place = self._at.place
        return content.is_packed or (place.begins(content) and content.holds(place.offset))

    def _is_left(self, content: Content) -> bool:
        """Whether the log is another file by now."""
        try:
            log = self._links.log.stat()
        except OSError:
            return bool(self._parts)
        return bool(self._parts) or (log.st_ino != content.link.inode and log.st_size > 0)

    def _is_settled(self, link: Link, now_ns: int) -> bool:
        """Whether a file that cannot be read has been like that for a while."""
        since_ns = self._suspects.setdefault(link.by_place, now_ns)
        is_packed = link.path.suffix == ".gz"  # gzip takes its time
        return self._is_whole or not is_packed or not 0 <= now_ns - since_ns < _SETTLE_NS

    # --- the files that come next -----------------------------------------------------------

    def _take_down(self) -> None:
        """Where it begins: at the log's first line, and not with what was rotated before."""
        known: list[tuple[str, str]] = []
        for link in self._links.found():
            try:
                content = Content(link)
            except OSError:
                known += [("", link.by_place)] if link.path != self._links.log else []
                continue
            with closing(content):
                if link.path == self._links.log:
                    head_bytes, head = content.head(HEAD_BYTES)
                    place = _Place(link.inode, head_bytes, head)
                    self._at = msgspec.structs.replace(self._at, place=place)
                else:
                    known.append((content.by_head, link.by_place))
        self._at = msgspec.structs.replace(self._at, known=tuple(known))

    def _next(self, now_ns: int) -> Generator[Observation, None, bool]:
        """Open the next file; whether there is one."""
        if not self._parts:
            yield from self._find(now_ns)
        while self._parts:
            link, place = self._parts.popleft()
            try:
                self._content = Content(link)
            except FileNotFoundError:  # rotated just now: all are found again
                self._parts.clear()
            except OSError as error:
                yield self._lose(link, place, reason_of(error))
            else:
                place = msgspec.structs.replace(place, inode=link.inode)  # it may be a copy
                self._at = msgspec.structs.replace(self._at, place=place)
                return True
        return False

    def _find(self, now_ns: int) -> Iterator[Gap]:
        """Which files are to be read: what was read last, from there on, and all that are new."""
        links, at = self._links.found(), self._at
        try:
            found = _Found(links, at)
        except FileNotFoundError:  # rotated just now: the next poll looks again
            return
        if at.place.inode and not found.rest:
            if found.cut:
                link, why = found.cut[0]
                if not self._is_settled(link, now_ns):
                    return
                yield self._lose(link, at.place, why)
            elif not links or links[-1].path != self._links.log or not links[-1].size:
                return  # its directory may come late, or what it holds
            elif at.place.head_bytes:
                yield self._is_gone(now_ns)
        rest = [link for *_, link in sorted(found.rest)[:1]]
        self._parts += [_Part(link, at.place) for link in rest]
        yield from self._lose_all(found, now_ns)
        if not any(link.path == self._links.log for link in rest):  # else they came late
            self._parts += [_Part(link, _Place()) for link in found.new]

    def _lose_all(self, found: _Found, now_ns: int) -> Iterator[Gap]:
        for link, why in found.unreadable:
            if self._is_settled(link, now_ns):
                yield self._lose(link, _Place(), why)

    def _is_gone(self, now_ns: int) -> Gap:
        """What was read is nowhere: there may have been more of it."""
        reason = f"what {self._links.log.name} held was rotated away before it was read to its end"
        at = self._at
        gone = _Missing(at.place, 0, reason, at.read_ns, is_over=True)
        self._at = msgspec.structs.replace(at, place=_Place(), missing=(*at.missing, gone))
        return gone.gap(self.name, now_ns, self._at.text)

    # --- what could not be read -------------------------------------------------------------

    def _late(self, now_ns: int) -> Iterator[Observation]:
        """Look at all files again, whatever is followed, and try to read what is missing.

        A gap is over when that is read, or gone for good.
        """
        if not self._again.due(now_ns):
            return
        links = self._links.found()
        with suppress(FileNotFoundError):
            found = _Found(links, self._at)
            yield from self._lose_all(found, now_ns)
            followed = None if self._content is None else self._content.link[:2]
            if links and followed == links[-1][:2]:
                for link in found.new:
                    yield self._lose(link, _Place(), "it came late")
        of_files = [each for each in self._at.missing if each.place.inode]
        for lost in of_files if links else ():
            content = _opened(lost, links)
            if content is None:
                if not lost.is_over and not any(lost.may_be(link) for link in links):
                    yield self._is_over(lost, now_ns, is_gone=True)
                continue
            with closing(content):
                if not lost.place.offset and self._was_read(lost, content):
                    yield self._is_over(lost, now_ns)
                elif content.link.path == self._links.log:
                    yield from self._is_back(lost, content.link, now_ns)
                else:
                    yield from self._read_late(lost, content, now_ns)

    def _was_read(self, lost: _Missing, content: Content) -> bool:
        """Whether what could not be opened shows to be the copy of a file that was read before."""
        others = [each.place for each in self._at.missing if each != lost]
        return self._at.knows(content.link, content.by_head) or any(
            place.head_bytes and place.begins(content) for place in (*others, self._at.place)
        )

    def _read_late(self, lost: _Missing, content: Content, now_ns: int) -> Iterator[Observation]:
        begin = lost.place.offset or content.begin
        data = content.read(begin, POLL_BYTES)
        is_all = content.broken is None and len(data) < POLL_BYTES
        read = len(data) if is_all else data.rfind(b"\n") + 1
        if read:
            self._again = Every(_AGAIN_NS)  # there may be more at once
            place = lost.place.after(content, begin + read - lost.place.offset)
            further = msgspec.structs.replace(lost, place=place)
            missing = tuple(further if each == lost else each for each in self._at.missing)
            self._at = msgspec.structs.replace(self._at, missing=missing)
            lines = data[:read]
            lines = lines if lines.endswith(b"\n") else lines + b"\n"
            yield Lines(self.name, lines, self._at.text)
            lost = further
        if is_all:
            known = (*self._at.known, (content.by_head, content.by_place))
            self._at = msgspec.structs.replace(self._at, known=known)
            over = self._is_over(lost, now_ns)
            if not lost.is_over:
                yield over

    def _is_back(self, lost: _Missing, link: Link, now_ns: int) -> Iterator[Gap]:
        """The log itself can be read again: it is followed from where it was left."""
        if self._content is None and not self._parts:
            yield self._is_over(lost, now_ns)
            self._parts.append(_Part(link, lost.place))

    def _is_over(self, lost: _Missing, now_ns: int, *, is_gone: bool = False) -> Gap:
        missing = tuple(each for each in self._at.missing if each != lost)
        if is_gone and lost.place.head_bytes:
            missing += (msgspec.structs.replace(lost, is_over=True),)
        over = [each for each in missing if each.is_over]
        missing = tuple(each for each in missing if each not in over[:-_GONE_MAX])
        self._at = msgspec.structs.replace(self._at, missing=missing)
        return lost.gap(self.name, now_ns, self._at.text)

    def _absence(self, now_ns: int) -> Iterator[Gap]:
        """Where there is no log for long, that is a gap: it may be called otherwise."""
        absent = next((each for each in self._at.missing if not each.place.inode), None)
        try:
            self._links.log.stat()
        except OSError as error:
            if not 0 <= self._absent_since_ns <= now_ns:
                self._absent_since_ns = now_ns
            if absent is None and now_ns - self._absent_since_ns >= _PATIENCE_NS:
                why = reason_of(error).lower()
                reason = f"{self._links.log} cannot be read: {why}"
                absent = _Missing(_Place(), 0, reason, self._at.read_ns)
                missing = (*self._at.missing, absent)
                self._at = msgspec.structs.replace(self._at, missing=missing)
                yield absent.gap(self.name, None, self._at.text)
        else:
            self._absent_since_ns = -1
            if absent is not None:
                yield self._is_over(absent, now_ns)


class _Found:
    """What the files of a log are, of which some were read.

    Attributes:
        rest: those that hold what was read last, its own inode first, the newest copy next.
        cut: one that holds some of it, or cannot be opened, and why.
        new: those that nothing was read of, the oldest first.
        unreadable: the same, of which nothing can be read, and why.
    """

    def __init__(self, links: list[Link], at: _Cursor) -> None:
        """Look into each file.

        Raises:
            FileNotFoundError: one was renamed or removed meanwhile.
        """
        self.rest: list[tuple[bool, int, Link]] = []
        self.cut: list[tuple[Link, str]] = []
        self.new: list[Link] = []
        self.unreadable: list[tuple[Link, str]] = []
        for number, link in enumerate(links):
            try:
                content = Content(link)
            except FileNotFoundError:
                raise
            except OSError as error:
                self._closed(link, at, reason_of(error))
            else:
                with closing(content):
                    self._take(content, -number, at)

    def _closed(self, link: Link, at: _Cursor, why: str) -> None:
        if at.place.inode == link.inode and link.size >= at.place.offset:
            self.cut.append((link, why))
        elif link.size and not at.knows(link, "") and not any(m.may_be(link) for m in at.missing):
            self.unreadable.append((link, why))

    def _take(self, content: Content, age: int, at: _Cursor) -> None:
        link, place = content.link, at.place
        if place.inode and place.begins(content):
            if content.holds(place.offset):
                self.rest.append((link.inode != place.inode, age, link))
            elif content.broken is not None:
                self.cut.append((link, content.broken))
            return
        by_head = content.by_head
        if at.knows(link, by_head) or any(lost.is_in(content) for lost in at.missing):
            return
        if by_head:
            self.new.append(link)
        elif content.broken is not None:
            self.unreadable.append((link, content.broken))


def _opened(lost: _Missing, links: list[Link]) -> Content | None:
    """The file that holds what is missing, by its inode or by its begin."""
    for link in sorted(links, key=lambda link: link.inode != lost.place.inode):
        try:
            content = Content(link)
        except OSError:
            continue
        if lost.is_in(content):
            return content
        content.close()
    return None
