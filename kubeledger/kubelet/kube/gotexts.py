"""What Go's library makes of texts: JSON's errors, formats, durations, numbers, instants."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

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
_SPACE: Final = regex(rb"[ \t\r\n]*")
_STRING: Final = regex(
    rb'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*(?P<escape>\\(?P<hex>u[0-9a-fA-F]{0,3})?)?'
)
_NUMBER: Final = regex(rb"-?(?P<whole>0|[1-9][0-9]*)?(\.[0-9]*)?([eE][+-]?[0-9]*)?")
_LITERALS: Final = {ord(word[:1]): word for word in (b"true", b"false", b"null")}


class _NotJSONError(Exception):
    """With the text of Go's error."""


def syntax_error(text: str | bytes) -> str:
    """Why Go takes the text for no JSON; empty if it is."""
    try:
        _check(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    except _NotJSONError as error:
        return str(error)
    return ""


def _check(data: bytes) -> None:
    """Read a value, and raise at the first byte that cannot stand where it stands."""
    at, closers, want, may_close = 0, bytearray(), "value", False
    while True:
        match = _SPACE.match(data, at)
        at = at if match is None else match.end()
        if want == "next" and not closers:
            if at < len(data):
                raise _wrong(data, at, "after top-level value")
            return
        byte = data[at : at + 1]
        if (may_close or want == "next") and byte == closers[-1:]:
            del closers[-1]
            at, want, may_close = at + 1, "next", False
            continue
        may_close = False
        in_object = closers[-1:] == b"}"
        if want == "next":
            if byte != b",":
                what = "object key:value pair" if in_object else "array element"
                raise _wrong(data, at, f"after {what}")
            at, want = at + 1, "key" if in_object else "value"
        elif want == "key":
            if byte != b'"':
                raise _wrong(data, at, "looking for beginning of object key string")
            at, want = _string_end(data, at), "colon"
        elif want == "colon":
            if byte != b":":
                raise _wrong(data, at, "after object key")
            at, want = at + 1, "value"
        elif byte in (b"{", b"["):
            closers.append(byte[0] + 2)
            if len(closers) > DEPTH_MAX:
                raise _wrong(data, at, "exceeded max depth")
            at, want, may_close = at + 1, "key" if byte == b"{" else "value", True
        else:
            at, want = _scalar_end(data, at), "next"


def _scalar_end(data: bytes, at: int) -> int:
    byte = data[at] if at < len(data) else -1
    if byte == ord('"'):
        return _string_end(data, at)
    if (word := _LITERALS.get(byte)) is not None:
        for index, expected in enumerate(word):
            if data[at + index : at + index + 1] != word[index : index + 1]:
                where = f"in literal {word.decode()} (expecting '{chr(expected)}')"
                raise _wrong(data, at + index, where)
        return at + len(word)
    match = _NUMBER.match(data, at)
    if match is None or not match[0][:1] or match[0][:1] in b".eE":
        raise _wrong(data, at, "looking for beginning of value")
    if match["whole"] is None:
        raise _wrong(data, at + 1, "in numeric literal")
    if match[2] == b".":
        raise _wrong(data, match.end(2), "after decimal point in numeric literal")
    if match[3] is not None and not match[3][-1:].isdigit():
        raise _wrong(data, match.end(), "in exponent of numeric literal")
    return match.end()


def _string_end(data: bytes, at: int) -> int:
    match = _STRING.match(data, at)
    assert match is not None
    if match["escape"] is not None:
        is_hexadecimal = match["hex"] is not None
        what = "\\u hexadecimal character escape" if is_hexadecimal else "string escape code"
        raise _wrong(data, match.end(), f"in {what}")
    if data[match.end() : match.end() + 1] != b'"':
        raise _wrong(data, match.end(), "in string literal")
    return match.end() + 1


def _wrong(data: bytes, at: int, where: str) -> _NotJSONError:
    if at >= len(data):
        return _NotJSONError("unexpected end of JSON input")
    # Go takes the byte for a character of its own.
    character = chr(data[at])
    shown = {"'": "\\'", '"': '"'}.get(character) or quoted(character)[1:-1]
    return _NotJSONError(f"invalid character '{shown}' {where}")


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
