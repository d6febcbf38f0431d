"""What Go's library makes of texts: formats without arguments, durations, numbers; its errors."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from typing import Final

from kubeledger.model.units import parse_go_duration

DURATION_MAX_NS: Final = 2**63 - 1
_LENGTH_MAX: Final = 256
_DIRECTIVE = re.compile(r"%([-+# 0]*)(?:\*|\d+)?(?:\.(?:\*|\d+)?)?(.?)", re.DOTALL)
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9_]+\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9_]+)?")
_HEX: Final = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F_]+\.?[0-9a-fA-F_]*|\.[0-9a-fA-F_]+)[pP][+-]?[0-9]+"
)
_LOOSE_UNDERSCORE: Final = re.compile(r"__|_\Z|(?<![0-9a-fA-FxX])_|_(?![0-9a-fA-F])")
_SPECIAL: Final = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE)
_UNIT: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)([^0-9.]*)")
_ESCAPES: Final = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r",
    "\t": "\\t", "\v": "\\v",
}  # fmt: skip
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
