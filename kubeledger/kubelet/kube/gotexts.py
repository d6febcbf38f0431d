"""What Go's library makes of texts: JSON's errors, formats, durations, numbers, instants."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NoReturn

from kubeledger.model.errors import BadInputError
from kubeledger.model.patterns import regex
from kubeledger.model.units import NS_PER_S, parse_api_ts, parse_go_duration

DURATION_MAX_NS: Final = 2**63 - 1
_LENGTH_MAX: Final = 256
_DIRECTIVE = regex(r"%([-+# 0]*)(?:\*|\d+)?(?:\.(?:\*|\d+)?)?(.?)", re.DOTALL)
_DECIMAL: Final = regex(r"[+-]?(?:[0-9_]+\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9_]+)?")
_HEX: Final = regex(r"[+-]?0[xX](?:[0-9a-fA-F_]+\.?[0-9a-fA-F_]*|\.[0-9a-fA-F_]+)[pP][+-]?[0-9]+")
_LOOSE_UNDERSCORE: Final = regex(r"__|_\Z|(?<![0-9a-fA-FxX])_|_(?![0-9a-fA-F])")
_SPECIAL: Final = regex(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE)
_UNIT: Final = regex(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)([^0-9.]*)")
_ESCAPES: Final = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r",
    "\t": "\\t", "\v": "\\v",
}  # fmt: skip
_INTEGER: Final = regex(r"[+-]?[0-9]+")
_INT64: Final = range(-(2**63), 2**63)
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_UNITS: Final = frozenset({"ns", "us", "µs", "μs", "ms", "s", "m", "h"})


def sprintf_without_arguments(text: str) -> str:
    """What ``fmt.Sprintf(text)`` makes of a text that was not meant as a format.

    Argument numbers (``%[1]d``) and a width or precision of ``*`` are not followed.
    """

    def directive(match: re.Match[str]) -> str:
        verb = match[2]
        if verb == "%":
            return "%"
        return f"%!{verb}(MISSING)" if verb else "%!(NOVERB)"

    return _DIRECTIVE.sub(directive, text)


def aggregate(errors: Iterable[str]) -> str:
    """Several errors as one (``utilerrors.Aggregate``): one alone as it is, none twice."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def parse_float32(text: str) -> float:
    """``float32(strconv.ParseFloat(text, 32))``; infinity and not-a-number are numbers.

    Raises:
        ValueError: with Go's text.
    """
    number = _float_of(text)
    if number is None:
        raise ValueError(f"strconv.ParseFloat: parsing {quoted(text)}: invalid syntax")
    try:
        nearest: float = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        nearest = float("inf")
    if abs(nearest) == float("inf") and not _SPECIAL.fullmatch(text):
        raise ValueError(f"strconv.ParseFloat: parsing {quoted(text)}: value out of range")
    return nearest


def parse_bool(text: str) -> bool:
    """``strconv.ParseBool``.

    Raises:
        ValueError: with Go's text.
    """
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"strconv.ParseBool: parsing {quoted(text)}: invalid syntax")


def atoi(text: str) -> int:
    """``strconv.Atoi``.

    Raises:
        ValueError: with Go's text.
    """
    if not _INTEGER.fullmatch(text):
        fault = "invalid syntax"
    elif len(text.lstrip("+-0")) > 19 or int(text) not in _INT64:
        fault = "value out of range"
    else:
        return int(text)
    raise ValueError(f"strconv.Atoi: parsing {quoted(text)}: {fault}")


def parse_duration(text: str) -> int:
    """``time.ParseDuration``: nanoseconds.

    Raises:
        ValueError: with Go's text.
    """
    try:
        duration_ns = parse_go_duration(text)
    except ValueError:
        raise ValueError(_duration_error(text)) from None
    if not -DURATION_MAX_NS - 1 <= duration_ns <= DURATION_MAX_NS:
        raise ValueError(f"time: invalid duration {quoted(text)}")
    return duration_ns


def _float_of(text: str) -> float | None:
    """The number; None where Go reads none."""
    if len(text) > _LENGTH_MAX or _LOOSE_UNDERSCORE.search(text):
        return None
    try:
        if _SPECIAL.fullmatch(text) or _DECIMAL.fullmatch(text):
            return float(text)
        return float.fromhex(text.replace("_", "")) if _HEX.fullmatch(text) else None
    except ValueError:
        return None
    except OverflowError:
        return float("-inf" if text.startswith("-") else "inf")


def _duration_error(text: str) -> str:
    """Why a text is not a duration: number by number, as Go reads it."""
    position = 1 if text[:1] in ("-", "+") else 0
    while match := _UNIT.match(text, position):
        if not match[1]:
            return f"time: missing unit in duration {quoted(text)}"
        if match[1] not in _UNITS:
            return f"time: unknown unit {quoted(match[1])} in duration {quoted(text)}"
        position = match.end()
    return f"time: invalid duration {quoted(text)}"


def quoted(text: str) -> str:
    """As Go's ``strconv.Quote``; bytes that are no UTF-8 are lone surrogates in ``text``."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(_escaped(character) for character in text)}"'


def _escaped(character: str) -> str:
    code = ord(character)
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    if code < 0x80:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# What Go's ``encoding/json`` says of a text that is not JSON.
#
# Source: Go 1.26 src/encoding/json/scanner.go checkValid
# Differs: reads a whole string, number or literal at once instead of byte by byte.

DEPTH_MAX: Final = 10_000
_END: Final = "unexpected end of JSON input"
_SPACE: Final = regex(rb"[ \t\r\n]*")
_IN_STRING: Final = regex(rb'(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')
_JSON_HEX: Final = regex(rb"\\u[0-9a-fA-F]{0,3}")
_NUMBER: Final = regex(rb"-?(?:0|[1-9][0-9]*)?(\.[0-9]*)?([eE][+-]?[0-9]*)?")
_LITERALS: Final = {ord(word[:1]): word for word in (b"true", b"false", b"null")}
_VALUE: Final = "looking for beginning of value"
_KEY: Final = "looking for beginning of object key string"


class _NotJSONError(Exception):
    """With the text of Go's error."""


def syntax_error(text: str | bytes) -> str:
    """Why Go takes the text for no JSON; empty if it is."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    scanner = _Scanner(data)
    try:
        scanner.run()
    except _NotJSONError as error:
        return str(error)
    return ""


class _Scanner:
    """Goes through a text, and raises at the first byte that cannot stand where it stands."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def run(self) -> None:
        """Read one value and the blanks around it."""
        closers: list[int] = []
        while True:
            opened = self._begin_value()
            if opened:
                closers.append(opened)
                if len(closers) > DEPTH_MAX:
                    self._at -= 1
                    self._wrong("exceeded max depth")
                if self._closes(opened):
                    closers.pop()
                else:
                    self._begin_member(opened)
                    continue
            while closers and self._ends(closers[-1]):
                closers.pop()
            if not closers:
                break
            self._begin_member(closers[-1])
        self._skip(_SPACE)
        if self._at < len(self._data):
            self._wrong("after top-level value")

    def _begin_value(self) -> int:
        """Read a scalar, or the opening of an object or a list: then what closes it."""
        byte = self._peek()
        if byte in b"{[":
            self._at += 1
            return byte + 2
        if byte == ord('"'):
            self._string()
        elif byte in b"-0123456789":
            self._number()
        elif byte in _LITERALS:
            self._literal(_LITERALS[byte])
        else:
            self._wrong(_VALUE)
        return 0

    def _closes(self, closer: int) -> bool:
        """Whether what was opened is empty."""
        found = self._peek() == closer
        self._at += found
        return found

    def _ends(self, closer: int) -> bool:
        """Whether an object or a list ends after a member; else a comma is read."""
        byte = self._peek()
        if byte not in (closer, ord(",")):
            what = "object key:value pair" if closer == ord("}") else "array element"
            self._wrong(f"after {what}")
        self._at += 1
        return byte == closer

    def _begin_member(self, closer: int) -> None:
        """Read the key of an object's member, and the colon."""
        if closer != ord("}"):
            return
        if self._peek() != ord('"'):
            self._wrong(_KEY)
        self._string()
        if self._peek() != ord(":"):
            self._wrong("after object key")
        self._at += 1

    def _string(self) -> None:
        self._skip(_IN_STRING, 1)
        byte = self._byte()
        if byte == ord('"'):
            self._at += 1
            return
        if byte == ord("\\"):
            hexadecimal = _JSON_HEX.match(self._data, self._at)
            self._at = hexadecimal.end() if hexadecimal else self._at + 1
            self._byte()
            what = "\\u hexadecimal character escape" if hexadecimal else "string escape code"
            self._wrong(f"in {what}")
        self._wrong("in string literal")

    def _number(self) -> None:
        match = self._skip(_NUMBER)
        number, fraction, exponent = match[0], match[1], match[2]
        if number == b"-" or number[:2] in (b"-.", b"-e", b"-E"):
            self._at = match.start() + 1
            self._byte()
            self._wrong("in numeric literal")
        if fraction == b".":
            self._at = match.start(1) + 1
            self._byte()
            self._wrong("after decimal point in numeric literal")
        if exponent is not None and not exponent[-1:].isdigit():
            self._byte()
            self._wrong("in exponent of numeric literal")

    def _literal(self, word: bytes) -> None:
        for index in range(1, len(word)):
            self._at += 1
            if self._byte() != word[index]:
                self._wrong(f"in literal {word.decode()} (expecting '{chr(word[index])}')")
        self._at += 1

    def _skip(self, pattern: re.Pattern[bytes], offset: int = 0) -> re.Match[bytes]:
        match = pattern.match(self._data, self._at + offset)
        assert match is not None
        self._at = match.end()
        return match

    def _peek(self) -> int:
        """The next byte that is no blank."""
        self._skip(_SPACE)
        return self._byte()

    def _byte(self) -> int:
        if self._at >= len(self._data):
            raise _NotJSONError(_END)
        return self._data[self._at]

    def _wrong(self, where: str) -> NoReturn:
        # Go takes the byte for a character of its own.
        character = chr(self._data[self._at])
        shown = {"'": "\\'", '"': '"'}.get(character) or quoted(character)[1:-1]
        raise _NotJSONError(f"invalid character '{shown}' {where}")


# Instants as the API writes them, and Go's zero time.

ZERO_TIME_NS: Final = -62_135_596_800 * NS_PER_S
"""Go's zero time, 0001-01-01T00:00:00Z, which stands for "never"."""
_INT32_MAX: Final = 2**31 - 1
_INT32_MIN: Final = -(2**31)


@lru_cache(maxsize=4096)  # clocks of one case repeat
def instant_ns(text: str) -> int:
    """Nanoseconds since the epoch of an RFC 3339 time.

    Raises:
        BadInputError: the text is no such time.
    """
    try:
        return parse_api_ts(text)
    except ValueError:
        raise BadInputError(f"not an RFC 3339 time: {text[:80]!r}") from None


def whole_seconds_since(start_ns: int, now_ns: int) -> int:
    """Seconds between two instants as the kubelet compares them with a delay.

    Truncated towards zero, so less than a second ahead counts as now. A span that no Go
    duration can hold is cut to 292 years; one beyond an int32 becomes its least value, so
    that a container without a start time never gets past its delay.

    Source: v1.20.2 pkg/kubelet/prober/worker.go doProbe
    Differs: the conversion to int32 is the one of amd64; other machines may differ there.
    """
    elapsed_ns = now_ns - start_ns
    if 0 <= elapsed_ns < _INT32_MAX * NS_PER_S:
        # Through a float as in Go: months after the start, the last nanoseconds round up.
        return int(elapsed_ns // NS_PER_S + elapsed_ns % NS_PER_S / NS_PER_S)
    elapsed_ns = max(-DURATION_MAX_NS - 1, min(DURATION_MAX_NS, elapsed_ns))
    seconds = -(-elapsed_ns // NS_PER_S) if elapsed_ns < 0 else elapsed_ns // NS_PER_S
    return seconds if _INT32_MIN <= seconds <= _INT32_MAX else _INT32_MIN
