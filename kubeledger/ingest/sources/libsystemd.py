"""Reading journald's files by libsystemd: matches, cursors, entries."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from kubeledger.ingest.sources.journal_entries import JournalEntry
from kubeledger.model.errors import BadInputError

Matches = Sequence[Sequence[str]]
"""Groups of ``FIELD=value``. An entry is matched by a group if it has, of each field that stands in
it, one of the values; and matched if any group matches it."""

_LIBRARY = "libsystemd.so.0"
_NO_LIMIT = 0
_FILES_CHANGED = 2
"""``SD_JOURNAL_INVALIDATE``."""


@cache
def _library() -> ctypes.CDLL | None:
    try:
        # Calls take microseconds: to let other threads run in each would take far longer.
        library = ctypes.PyDLL(_LIBRARY)
    except OSError:
        return None
    journal, text, size = c_void_p, c_char_p, c_size_t
    for name, arguments in {
        "open_directory": [POINTER(journal), text, c_int],
        "close": [journal],
        "add_match": [journal, text, size],
        "add_disjunction": [journal],
        "set_data_threshold": [journal, size],
        "seek_head": [journal],
        "seek_cursor": [journal, text],
        "seek_realtime_usec": [journal, c_uint64],
        "next": [journal],
        "test_cursor": [journal, text],
        "get_cursor": [journal, POINTER(c_void_p)],
        "get_realtime_usec": [journal, POINTER(c_uint64)],
        "get_data": [journal, text, POINTER(c_void_p), POINTER(size)],
        "get_fd": [journal],
        "process": [journal],
    }.items():
        function = getattr(library, f"sd_journal_{name}")
        function.argtypes = arguments
        function.restype = None if name == "close" else c_int
    return library


@cache
def _free() -> Any:  # noqa: ANN401 # a function of C
    """Frees what the library has allocated."""
    function = ctypes.CDLL(None).free
    function.argtypes, function.restype = [c_void_p], None
    return function


def is_installed() -> bool:
    """Whether the library can be loaded."""
    return _library() is not None


def place_of_journals(directory: Path) -> Path:
    """Where journald writes: below the root of a system the persistent place, else the volatile.

    The library can search a system's root itself, but then it does not notice a rotation.
    """
    places = [directory / place / "log" / "journal" for place in ("var", "run")]
    written = (place for place in places if any(place.glob("*/*.journal")))
    return next(written, next((place for place in places if place.is_dir()), directory))


class Journal:
    """The journal files below a directory, those that come later included.

    Args:
        directory: of journal files, or of directories of them named by machine IDs; or the root
            of a file system, see ``place_of_journals``.
        matches: which entries; all without any.

    Attributes:
        cursor_is_lost: the entry that was to be gone on after is no longer there.

    Raises:
        BadInputError: there is no such directory, it may not be read, or no library.
    """

    def __init__(self, directory: Path, matches: Matches = ()) -> None:
        library = _library()
        if library is None:
            raise BadInputError(
                f"journals are read by {_LIBRARY}, which is not here",
                file=str(directory),
                advice="install libsystemd0",
            )
        self._library: Any = library
        self._directory = directory
        self._handle = c_void_p()
        self._place, self._size = c_void_p(), c_size_t()
        self._found = (byref(self._place), byref(self._size))
        self.cursor_is_lost = False
        place = os.fsencode(place_of_journals(directory))
        self._do("open_directory", byref(self._handle), place, 0)
        self._do("set_data_threshold", self._handle, _NO_LIMIT)
        for index, group in enumerate(matches):
            if index:
                self._do("add_disjunction", self._handle)
            for match in group:
                data = match.encode()
                self._do("add_match", self._handle, data, len(data))
        self._do("get_fd", self._handle)  # from now on it watches the directory

    def _do(self, function: str, *arguments: object) -> int:
        """Call the library."""
        result: int = getattr(self._library, f"sd_journal_{function}")(*arguments)
        if result < 0:
            raise BadInputError(
                f"the journal is not read: {os.strerror(-result)}", file=str(self._directory)
            )
        return result

    def seek_time(self, ts_ns: int) -> None:
        """Go on with the first entry of this time or later."""
        self._do("seek_realtime_usec", self._handle, max(0, ts_ns) // 1000)

    def seek_after(self, cursor: str) -> None:
        """Go on after the entry of a cursor; if it is gone, with the next one that is there."""
        text = cursor.encode()
        self._do("seek_cursor", self._handle, text)
        found = self._do("next", self._handle) and self._do("test_cursor", self._handle, text)
        self.cursor_is_lost = not found
        if not found:
            self._do("seek_cursor", self._handle, text)

    def has_changed(self) -> bool:
        """Take in files that were added, leave those that were removed; whether there were any.

        A file that is removed later is read to its end all the same, until this is asked again.
        """
        return self._do("process", self._handle) == _FILES_CHANGED

    def entries(self) -> Iterator[JournalEntry]:
        """The next ones, until there are no more for now; it does not wait.

        An entry that cannot be read is left out: it is damaged, or packed in a way that this
        version of the library does not know.
        """
        while self._do("next", self._handle):
            entry = self._entry()
            if entry is not None:
                yield entry

    def cursor(self) -> str:
        """Of the entry that was given last."""
        place = c_void_p()
        self._do("get_cursor", self._handle, byref(place))
        assert place.value is not None
        try:
            return ctypes.string_at(place.value).decode()
        finally:
            _free()(place)

    def close(self) -> None:
        if self._handle:
            self._library.sd_journal_close(self._handle)
            self._handle = c_void_p()

    def _entry(self) -> JournalEntry | None:
        message = self._field(b"MESSAGE")
        if message is None:
            return None
        identifier = self._field(b"SYSLOG_IDENTIFIER") or self._field(b"_COMM") or b""
        entry = JournalEntry(
            realtime_us=self._realtime_us(),
            host=self._field(b"_HOSTNAME") or b"",
            identifier=identifier,
            pid=self._field(b"_PID") or self._field(b"SYSLOG_PID") or b"",
            message=message,
        )
        if identifier == b"systemd-journald":
            entry.message_id = self._field(b"MESSAGE_ID") or b""
            entry.about_unit = self._field(b"OBJECT_SYSTEMD_UNIT") or b""
        return entry

    def _realtime_us(self) -> int:
        told = self._field(b"_SOURCE_REALTIME_TIMESTAMP")
        if told is not None and told.isdigit():
            return int(told)
        realtime_us = c_uint64()
        self._do("get_realtime_usec", self._handle, byref(realtime_us))
        return realtime_us.value

    def _field(self, name: bytes) -> bytes | None:
        """A field of the present entry; None where it has none that can be read."""
        failed: int = self._library.sd_journal_get_data(self._handle, name, *self._found)
        place = self._place.value
        if failed or place is None:
            return None
        skipped = len(name) + 1
        return ctypes.string_at(place + skipped, self._size.value - skipped)
