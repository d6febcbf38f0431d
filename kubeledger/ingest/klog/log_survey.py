"""A first look over one log, before it is imported: whose, when, which version.

The whole file is read once anyway for its digest. On the way a few rare byte strings are
searched for in each chunk, and the lines that hold them are taken down; nothing else is
parsed. The head and the tail of the file show its first and last times.

What costs is the searching: a pass over all bytes for each of the strings. One regular
expression for all of them takes twice as long as all passes, cutting the lines as long as four,
and what a caller has not logged in a hundred lines it may log in the next.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

import msgspec

from kubeledger.ingest.klog.cut_lines import NOT_CUT, EndsSurvey, LineEnds
from kubeledger.ingest.klog.log_signs import NAMING, named_container, version_of_callers
from kubeledger.ingest.klog.stamps import EVENT_TIME, YearVotes, exact_json_ns, stamp_ns
from kubeledger.ingest.sources.node_lines import OTHER_NODE, LogWriters
from kubeledger.ingest.sources.prefix import ANY_ENTRY, HEADER, JSON_START, Unwrapper, is_entry
from kubeledger.ingest.sources.streams import Digests, SourceFile, digest_chunks
from kubeledger.ingest.sources.times import CarrierTime, api_time, carrier_time, go_time
from kubeledger.model.patterns import regex
from kubeledger.model.units import NS_PER_S

_HEAD = 1 << 18
_FEW = 64
_LAST = 50
_SAMPLES = 3
_LONGEST = 1 << 16
_RARE = (b"hostname-override=", b"ersion: v", b"kubeletVersion=", b'"kubeletVersion":"')
_SPREAD_MAX = 32
_SAMPLE_EVERY = 4096
_SAMPLE_ALL = 1 << 16
"""Of a part of a log that is no longer, sixteen times as many lines are looked at."""
_ENDS = 1 << 17
_SECOND = regex(
    rb"(?:[^\n]{0,200}? )??(?:[IWEF](\d{4} \d\d:\d\d:\d\d)\.\d{6} +\d{1,18} [^\s:\]]+:\d+\]"
    rb'|\{"ts":(\d{10}))'
)
"""At the beginning of a line."""
OF_KILLS = (b"oom-kill", b"Created an OOM event")
"""The kernel's report of a kill, and the kubelet's."""
_SHARED = b"kubeletVersion"
"""Of two of them: where it is not, one pass over the bytes is saved."""
_ERRORS = (b"\nE", b"\nW")
"""Begin lines that may have come by a stream of their own."""
_OFTEN = (b"m=+", b'kind="Node"', b'"NodeName"', b"egister node", b"config.seen:")
_OLD = (b"HeartbeatTime:", b"durationBeforeRetry")
"""Stand beside the times of kubelets up to 1.8, whose Go knows no monotonic clock (``m=+``)."""

_VERSION = regex(rb'(?:Version: |kubeletVersion="|"kubeletVersion":")(v\d+\.\d+\.\d+[^"\s,\\]*)')
_RELEASE = regex(r"v(\d+\.\d+\.\d+)(?:$|[-+])")
_NODE = regex(
    rb'--hostname-override=\\?"([^"\\]+)|\\?"?NodeName\\?":\s*\\?"([^"\\]+)'
    rb'|object="([^"/]+)"(?: fieldPath="")? kind="Node"'
    rb'|"object":\{"name":"([^"]+)"\},(?:"fieldPath":"",)?"kind":"Node"'
    rb'|Kind:"Node", Namespace:"", Name:"([^"]+)"'
    rb"|(?:Attempting to register|Successfully registered) node"
    rb'(?: |" node="|","v":\d+,"node":")([\w.-]+)'
)
_GO_TIME = regex(rb"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? [+-]\d{4})(?: [A-Z+-]\w*)? m=[+-]")
_OLD_TIME = regex(
    rb"(?:HeartbeatTime:|until )(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4})(?: [A-Z+-]\w*)?"
    rb"(?= LastTransitionTime| \(durationBeforeRetry (?:\d+ms|1?\ds)\))"
)
"""So close to the line's own time that it shows the zone."""
_OBSERVED = regex(rb'time[:=] ?"?(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? [+-]\d{4})')
_WATCHED = regex(rb'watchObservedRunningTime="(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? [+-]\d{4})')
"""When the line itself was written; the times before it may be minutes older."""
_CREATED = regex(rb"Log file created at: (\d{4})[/-](\d\d)[/-](\d\d) (\d\d):(\d\d):(\d\d)")
_JOURNAL = regex(
    rb"-- (?:Logs begin|Journal begins) at .{10,40}, ends? at "
    rb"\w+ (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: (?:[A-Z]{1,5}|[+-]\d{2,4}))?)"
)
"""What ``journalctl`` of systemd before 250 writes first: its end is when it was asked."""
_OF_LOGRUS = regex(rb'(?:[^"]{0,200}\]?: )?time="(\d{4}-\d\d-\d\d[T ][^"]+)" level=')
"""Of k3s and rke2, and of a container runtime in the same journal."""
_LEAP_YEAR = 2000
_QUARTER_NS = 900 * NS_PER_S
_CLOSE_NS = 30 * NS_PER_S
_ZONE_MAX_NS = 14 * 3600 * NS_PER_S


class VersionMark(msgspec.Struct, frozen=True):
    """A line that states the kubelet's version.

    Attributes:
        stamp, ts_ns: its time in klog's text form, and in its JSON form.
        pid: the process that states it; None in JSON.
    """

    offset: int
    text: str
    stamp: bytes | None = None
    ts_ns: int | None = None
    pid: int | None = None

    @property
    def release(self) -> str | None:
        """``1.36.2``; None for a build that has no version."""
        match = _RELEASE.match(self.text)
        return match[1] if match and not match[1].startswith("0.") else None


class LogSurvey(msgspec.Struct):
    """What one log shows about itself.

    Attributes:
        digests: of its content.
        nodes: node name -> how many of the lines looked at name it.
        versions: lines that state the kubelet's version, in order.
        caller_version: version by its ``file.go:line`` pairs; None if not clear.
        first_stamp, last_stamp: ``1121 02:52:41.296376``; None in klog JSON.
        first_ns, last_ns: full times, when the log holds them (klog JSON).
        reference_ns: any full time near the log's beginning.
        samples: entries all over the log, and its last one, without a carrier's prefix.
        offsets_ns: zone's offset -> how many lines agree on it.
        containers: bare container ID -> its pod's UID and its name, by lines about kills.
        goes_back: some entry is of an earlier second than one above it; looked for in a few
            lines of a hundred.
        writers: who wrote its entries.
        ends: how its lines end, as some of each part of it do.
        may_report: it may hold reports of kills; False where these were taken before.
    """

    source: SourceFile
    digests: Digests
    nodes: dict[str, int] = {}
    versions: list[VersionMark] = []
    caller_version: str | None = None
    first_stamp: bytes | None = None
    last_stamp: bytes | None = None
    first_ns: int | None = None
    last_ns: int | None = None
    reference_ns: int | None = None
    offsets_ns: dict[int, int] = {}
    samples: list[bytes] = []
    containers: dict[str, tuple[str, str]] = {}
    goes_back: bool = False
    writers: LogWriters = msgspec.field(default_factory=LogWriters)
    ends: LineEnds = NOT_CUT
    size: int = 0
    may_report: bool = False

    def is_within(self, other: LogSurvey) -> bool:
        """Another log of the bundle holds this one's entries: the journal and its file."""
        missing = deque(self.samples)
        tail = b""
        for chunk in other.source.chunks():
            window = tail + chunk
            while missing and missing[0] in window:  # both are in order
                missing.popleft()
            tail = window[-_LONGEST:]
            if not missing:
                return bool(self.samples)
        return False


def survey_log(source: SourceFile, lengths: list[int], digests: Digests | None = None) -> LogSurvey:
    """Read a log through once.

    Args:
        lengths: beginnings of the log whose digests are wanted too.
        digests: of its content, where they are known.

    Raises:
        BadInputError: it cannot be read.
    """
    look = LogLook(LogSurvey(source, digests or Digests(0, "", {})))
    read = look.over(source.chunks())
    if source.keeps_places:
        look.survey.digests = digest_chunks(read, lengths)
    else:
        deque(read, maxlen=0)
        look.survey.digests = digests or digest_chunks(source.stored_chunks(), lengths)
    look.finish()
    return look.survey


class LogLook:
    """The state of a survey between two chunks."""

    def __init__(self, survey: LogSurvey, begin: int = 0) -> None:
        """Take the survey on from its byte ``begin``."""
        self.survey = survey
        self._unwrapper = Unwrapper()
        self._second = b""
        self._tail = b""
        self._size = begin
        self._seen = dict.fromkeys((*_OFTEN, *_OLD, EVENT_TIME, *_ERRORS), 0)
        self._ends = EndsSurvey()
        self._head = b""
        self._final = b""
        self._spread_out: list[bytes] = []
        self._stride = _SAMPLE_EVERY
        self._votes = YearVotes()

    def over(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Pass the chunks on, looking at each."""
        for chunk in chunks:
            self.feed(chunk)
            yield chunk

    def feed(self, chunk: bytes) -> None:
        """Look at the next bytes; a line that they cut is seen with the next ones."""
        window = self._tail + chunk
        end = window.rfind(b"\n") + 1
        if end:
            lines = window[:end]
            self._take_head(lines)
            self.survey.writers.look(lines)
            self._search(lines, self._size - len(self._tail))
            self._sample(lines)
            self._spread(lines)
            self._ends.look(self._entries(lines))
            self._last(lines)
        self._tail = window[end:][-_HEAD:]
        self._size += len(chunk)

    def _take_head(self, lines: bytes) -> None:
        """Keep the log's first lines around an entry; another node's lines are none of them."""
        missing = _HEAD - len(self._head)
        if missing <= 0:
            return
        if OTHER_NODE in lines:
            lines = b"\n".join(
                line for line in lines.split(b"\n") if not line.startswith(OTHER_NODE)
            )
        if not self._head:
            entry = ANY_ENTRY.search(lines)
            if entry is None:
                return
            if (begin := entry.start() - _HEAD // 2) > 0:
                # A line without its beginning would look like one of another carrier's.
                lines = lines[lines.find(b"\n", begin, entry.start()) + 1 or begin :]
        self._head += lines[:missing]

    def _entries(self, window: bytes) -> list[tuple[bytes, bytes]]:
        """Some entries of a part of the log, raw and without a carrier's prefix.

        What other programs write may end anyhow.
        """
        begin = window.find(b"\n", len(window) // 2) + 1
        lines = window[begin : begin + _ENDS].split(b"\n")[:-1]
        entries = []
        for line in lines:
            body = line
            if is_entry(line) or is_entry(body := self._body(line)):
                entries.append((line, body))
        return entries

    def _sample(self, lines: bytes) -> None:
        """Look at a line now and then: do they go back in time?"""
        step = _SAMPLE_EVERY if len(lines) > _SAMPLE_ALL else _SAMPLE_EVERY >> 4
        for position in range(0, len(lines), step):
            if self.survey.goes_back:
                return
            end = position + _SAMPLE_EVERY
            begin = lines.rfind(b"\n", 0, position) + 1
            found = _SECOND.match(lines, begin, end)
            while found is None and (begin := lines.find(b"\n", begin, end) + 1):
                found = _SECOND.match(lines, begin, end)
            second = found[found.lastindex or 0] if found is not None else self._second
            # Numbers of milliseconds have the same length for centuries.
            self.survey.goes_back = second < self._second
            self._second = second

    def _spread(self, lines: bytes) -> None:
        """Take some entries all over the log: a copy may lack a part of it."""
        for position in range(-self._size % self._stride, len(lines), self._stride):
            body = self._body(_line_at(lines, position)[1]).rstrip()
            if is_entry(body):
                self._spread_out.append(body)
        while len(self._spread_out) > _SPREAD_MAX:
            self._spread_out, self._stride = self._spread_out[::2], self._stride * 2

    def finish(self) -> None:
        """The last line, and what the head shows."""
        if self._tail:
            self._take_head(self._tail)
            self.survey.writers.look(self._tail + b"\n")
            self._search(self._tail + b"\n", self._size - len(self._tail))
            self._last(self._tail)
        self.survey.ends = self._ends.found()
        self.survey.size = self._size
        source = self.survey.source
        if not source.keeps_places:
            self.survey.versions = [
                msgspec.structs.replace(mark, offset=source.place(0, mark.offset)[1])
                for mark in self.survey.versions
            ]
        lines = self._head.split(b"\n")
        self._note_carriers(lines)
        callers = []
        for line in lines:
            body = self._body(line)
            header = HEADER.match(body)
            if header is not None:
                if len(self.survey.samples) < _SAMPLES:
                    self.survey.samples.append(body.rstrip())
                callers.append(header[4].rpartition(b"/")[2] + b":" + header[5])
                if self.survey.first_stamp is None:
                    self.survey.first_stamp = header[2]
            elif body.startswith(JSON_START):
                caller = re.search(rb'"caller":"(?:[^"]*/)?([^"/]+)"', body)
                callers += [caller[1]] if caller else []
                if self.survey.first_ns is None:
                    self.survey.first_ns = _json_ns(body)
            elif created := _CREATED.match(line):
                parts = (part.decode() for part in created.groups())
                with suppress(ValueError):
                    self.survey.reference_ns = api_time("{}-{}-{}T{}:{}:{}Z".format(*parts))
            elif (asked := _JOURNAL.match(line)) and (time := carrier_time(asked[1])):
                # Some hours more or less, where the zone is not known, change no year.
                self.survey.reference_ns = self.survey.reference_ns or time.ts_ns
        if self.survey.first_stamp is None and self.survey.first_ns is None:
            self.survey.first_stamp = self.survey.last_stamp
        self.survey.caller_version = version_of_callers(callers)
        self.survey.samples = self._spread_out or self.survey.samples
        if self._final:
            self.survey.samples.append(self._final)
        if self.survey.reference_ns is None:
            self._find_year(lines)

    def _find_year(self, lines: list[bytes]) -> None:
        stamp, final = self.survey.first_stamp, self.survey.last_stamp
        if stamp is None or final is None:
            return
        for line in lines:
            header = HEADER.match(self._body(line))
            stamp = stamp if header is None else header[2]
            self._votes.take_line(line, (stamp, final))
        self.survey.reference_ns = self._votes.reference_ns()

    def _body(self, line: bytes) -> bytes:
        if is_entry(line):
            return line
        unwrapped = self._unwrapper.unwrap(line)
        if (
            unwrapped.time
            and self.survey.reference_ns is None
            and (found := carrier_time(unwrapped.time)) is not None
        ):
            self.survey.reference_ns = found.ts_ns
        return unwrapped.body

    def _last(self, window: bytes) -> None:
        """The newest time of the window's last lines."""
        end = window[-_HEAD:]
        lines = end.rsplit(b"\n", _LAST)
        if len(lines) > _LAST or len(end) < len(window):
            del lines[0]  # it is not one whole line
        found = any(map(self._is_last, reversed(lines)))
        if not found and OTHER_NODE in window:  # this node's may stand anywhere
            any(map(self._is_last, reversed(window.split(b"\n"))))

    def _is_last(self, line: bytes) -> bool:
        """Take the newest time from the log's last line, if this is an entry."""
        if line.startswith(OTHER_NODE):
            return False
        body = self._body(line)
        header = HEADER.match(body)
        if header is not None:
            self.survey.last_stamp = header[2]
            self._final = body.rstrip()
            return True
        if body.startswith(JSON_START):
            ts_ns = _json_ns(body)
            self.survey.last_ns = ts_ns if ts_ns is not None else self.survey.last_ns
            return True
        return False

    def _search(self, window: bytes, base: int) -> None:
        shared = window.rfind(_SHARED) >= 0
        for needle in _RARE:
            if shared or _SHARED not in needle:
                for position in _places(window, needle):
                    self._take(window, position, base)
        if not self.survey.may_report:
            self.survey.may_report = any(needle in window for needle in OF_KILLS)
        self._search_containers(window)
        self._search_events(window)
        self._search_errors(window)
        for needle in _OFTEN if self._seen[_OFTEN[0]] else (*_OFTEN, *_OLD):
            # What was seen often enough is not looked for any more: that is a pass saved.
            missing = _FEW - self._seen[needle]
            if missing > 0:
                places = _places(window, needle)[:missing]
                self._seen[needle] += len(places)
                for position in places:
                    self._take(window, position, base)

    def _search_events(self, window: bytes) -> None:
        """Events that were not sent report the year, as long as no better source has."""
        missing = _FEW - self._seen[EVENT_TIME]
        if self.survey.reference_ns is not None or missing <= 0:
            return
        places = _places(window, EVENT_TIME)[:missing]
        self._seen[EVENT_TIME] += len(places)
        for position in places:
            begin, line = _line_at(window, position)
            header = HEADER.match(self._body(line))
            if header is not None:
                self._votes.take_event(line[position - begin :], header[2])

    def _search_containers(self, window: bytes) -> None:
        for needle in NAMING:
            for position in _places(window, needle):
                body = self._body(_line_at(window, position)[1])
                if is_entry(body) and (named := named_container(body)) is not None:
                    container_id, uid, name = named
                    self.survey.containers.setdefault(container_id, (uid, name))

    def _search_errors(self, window: bytes) -> None:
        """Errors that stand behind later lines: a stream that is out of step goes back at these."""
        for needle in _ERRORS:
            missing = _FEW - self._seen[needle]
            if self.survey.goes_back or missing <= 0:
                continue
            places = _places(window, needle)[:missing]
            self._seen[needle] += len(places)
            self.survey.goes_back = any(_is_late(window, position) for position in places)

    def _take(self, window: bytes, position: int, base: int) -> None:
        begin, line = _line_at(window, position)
        body = self._body(line)
        header = HEADER.match(body)
        if not is_entry(body):
            return
        version = _VERSION.search(body)
        if version and b"ersion" in line:
            text = version[1].decode("utf-8", "replace")
            stamp, ts_ns = (header[2], None) if header else (None, _json_ns(body))
            pid = int(header[3]) if header else None
            self._note_version(VersionMark(base + begin, text, stamp, ts_ns, pid))
        node = _NODE.search(body)
        if node:
            name = next(group for group in node.groups() if group).decode("utf-8", "replace")
            self.survey.nodes[name] = self.survey.nodes.get(name, 0) + 1
        if header is not None:
            self._note_time(header[2], body)

    def _note_version(self, mark: VersionMark) -> None:
        if mark not in self.survey.versions:
            self.survey.versions.append(mark)
            self.survey.versions.sort(key=lambda known: known.offset)

    def _note_time(self, stamp: bytes, body: bytes) -> None:
        """A Go time in a line shows the year of its stamp, and the zone it is in."""
        patterns = (_WATCHED, _GO_TIME, _OBSERVED, _OLD_TIME)
        match = next(filter(None, (pattern.search(body) for pattern in patterns)), None)
        if match is None:
            return
        with suppress(ValueError):
            self._note_zone(stamp, go_time(match[1].decode()))

    def _note_carriers(self, lines: list[bytes]) -> None:
        """So do carriers' own times of entries that they took at once, if they have a zone.

        The zone of syslog's stamps is that of the header which ``journalctl`` wrote before them.
        Where nothing carries the entries, the line before or after one may have a time: k3s and
        rke2 write the kubelet's entries between lines of their own, which have a zone, and a
        journal may hold those of the container runtime.
        """
        votes: Counter[int | None] = Counter()
        header_zone = b""
        before: CarrierTime | None = None
        above: bytes | None = None
        for line in lines:
            if (asked := _JOURNAL.match(line)) is not None:
                header_zone = asked[1]
            own = _OF_LOGRUS.match(line)
            time = None if is_entry(line) else self._unwrapper.unwrap(line).time
            zoned = time and (carrier_time(time) or _zoned(time, header_zone))
            found = zoned or before
            before = carrier_time(own[1]) if own else None
            header = HEADER.match(self._body(line))
            if before and above and (ahead_ns := self._ahead_of(above, before.ts_ns)) is not None:
                votes[ahead_ns] += before.has_zone
            above = header[2] if header else above
            if found is not None and found.has_zone and header is not None:
                votes[self._ahead_of(header[2], found.ts_ns)] += 1
                if votes.total() == _FEW:
                    break
        for offset_ns, count in votes.items():
            if offset_ns is not None and count * 2 > votes.total():
                known = self.survey.offsets_ns.get(offset_ns, 0)
                self.survey.offsets_ns[offset_ns] = known + count

    def _note_zone(self, stamp: bytes, utc_ns: int) -> None:
        """A stamp is of a moment that is known: what its clock is ahead of UTC."""
        offset_ns = self._ahead_of(stamp, utc_ns)
        if offset_ns is None:
            return
        self.survey.offsets_ns[offset_ns] = self.survey.offsets_ns.get(offset_ns, 0) + 1
        if self.survey.reference_ns is None:
            self.survey.reference_ns = utc_ns

    @staticmethod
    def _ahead_of(stamp: bytes, utc_ns: int) -> int | None:
        """What the clock of a stamp is ahead of UTC; None where the moment is not the stamp's."""
        year = datetime.fromtimestamp(utc_ns // NS_PER_S, UTC).year
        for each in (year, year - 1, year + 1):
            with suppress(ValueError):
                ahead_ns = stamp_ns(stamp, each) - utc_ns
                offset_ns = round(ahead_ns / _QUARTER_NS) * _QUARTER_NS
                if abs(ahead_ns - offset_ns) <= _CLOSE_NS and abs(offset_ns) <= _ZONE_MAX_NS:
                    return offset_ns
        return None


def _zoned(stamp: bytes, asked: bytes) -> CarrierTime | None:
    """Syslog's stamp in the year and the zone of the time at which its journal was asked."""
    date, _, zone = asked.rpartition(b" ")
    year = re.search(rb"\d{4}", date)
    return carrier_time(b"%s %s %s" % (year[0], stamp, zone)) if year else None


def _places(window: bytes, needle: bytes) -> list[int]:
    """Where a byte string stands, in order; from the end, for that search takes half the time."""
    places = []
    position = window.rfind(needle)
    while position >= 0:
        places.append(position)
        position = window.rfind(needle, 0, position)
    places.reverse()
    return places


def _line_at(window: bytes, position: int) -> tuple[int, bytes]:
    """Where the line around a position begins, and the line."""
    begin = window.rfind(b"\n", 0, position) + 1
    end = window.find(b"\n", position)
    return begin, window[begin : end if end >= 0 else len(window)]


def _is_late(window: bytes, end: int) -> bool:
    """Whether the entry below a line's end is more than a second older than the one above."""
    above, below = (HEADER.match(_line_at(window, at)[1]) for at in (end - 1, end + 1))
    if above is None or below is None:
        return False
    try:
        return stamp_ns(below[2], _LEAP_YEAR) < stamp_ns(above[2], _LEAP_YEAR) - NS_PER_S
    except ValueError:
        return False


def _json_ns(body: bytes) -> int | None:
    try:
        return exact_json_ns(body[6 : body.find(b",", 6)])
    except ValueError:
        return None
