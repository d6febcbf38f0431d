"""The values of klog lines: ``key="value"``, ``key={json}``, blocks, Go's own notation.

klog writes one and the same call in two forms, as text and as JSON; the functions here
bring both to the same Python values, so that no later stage needs to know the form:

* strings are unquoted, and lose one trailing newline (klog's block form cannot show
  whether the last line of a value ended with one);
* an object reference is ``namespace/name`` (JSON has an object with these two keys);
* a block whose lines are lost (a log that went through ``grep``) is None;
* what klog wrote as JSON (numbers, true, null, objects, lists) is decoded;
* any other bare text stays text (Go's ``%v`` of structs, maps and times);
* times that the JSON form writes as a number become Go's text form, as in text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from typing import Any

from kubeledger.ingest.klog.cut_lines import CutValues
from kubeledger.ingest.sources.plain import normal_message, plain
from kubeledger.model.patterns import regex
from kubeledger.model.units import NS_PER_S, format_go_duration, format_ts

# Go's own notation for values (``%#v``), as the 1.20 kubelet dumps its configuration in.
#
# Read into plain JSON values: structs and maps become dicts, slices lists, nil None, and a
# ``v1.Duration`` its text (``1m0s``). Struct fields keep Go's names; a caller that wants
# the API's names passes a function that gives them.

_TYPE = regex(r"(?:\[\d*\]|\*|map\[[\w.{} ]*\]|interface \{\}|[A-Za-z_][\w./]*)+")
_SCALAR = regex(r"-?0x[0-9a-f]+|[-+]?[0-9][0-9.eE+-]*|true|false|nil")
_STRING = regex(r'"(?:[^"\\]|\\.)*"|`[^`]*`')
_NAME = regex(r"([A-Za-z_]\w*):")
_GO_ESCAPE = regex(r"\\(x[0-9a-f]{2}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPES = {"a": "\a", "v": "\v", "'": "'", "n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b"}


def parse_go_literal(text: str, rename: Callable[[str], str] = str) -> Any:  # noqa: ANN401  (any JSON value)
    """Value of a Go literal; ``rename`` maps the names of struct fields.

    Raises:
        ValueError: the text is no such literal, or only the beginning of one.
    """
    reader = _Reader(text, rename)
    value = reader.value()
    if reader.position != len(text.rstrip()):
        raise ValueError(f"unexpected text at {reader.position}: {text[reader.position :][:40]!r}")
    return value


def unquote_go(quoted: str) -> str:
    """Text of a Go string literal (``%q``); half a character, which Go never writes, is replaced.

    Raises:
        ValueError: it is none.
    """
    if _STRING.fullmatch(quoted) is None:
        raise ValueError(f"not a Go string: {quoted[:40]!r}")
    if quoted.startswith("`"):
        return quoted[1:-1]
    try:
        text: str = json.loads(quoted, strict=False)
    except json.JSONDecodeError:
        text = _GO_ESCAPE.sub(_unescape_go, quoted[1:-1])
    return text if text.isascii() else str(plain(text, []))


def _unescape_go(match: re.Match[str]) -> str:
    escape = match[1]
    if len(escape) > 1:
        return chr(int(escape[1:], 16))
    return _ESCAPES.get(escape, escape)


class _Reader:
    """Recursive descent over one literal."""

    def __init__(self, text: str, rename: Callable[[str], str]) -> None:
        self.text = text
        self.position = 0
        self._rename = rename

    def value(self) -> Any:  # noqa: ANN401  (any JSON value)
        if (string := self._take(_STRING)) is not None:
            return unquote_go(string)
        if (scalar := self._take(_SCALAR)) is not None:
            return _scalar(scalar)
        self._skip("&")
        if self._skip("("):
            self._pointer()
            return None
        kind = self._take(_TYPE) or ""
        if self._skip("("):
            return self._conversion()
        self._expect("{")
        if kind.startswith("map["):
            return self._members(lambda: str(self.value()))
        if kind.startswith("["):
            return self._elements()
        fields = self._members(self._field_name)
        return _simplify(kind, fields)

    def _pointer(self) -> None:
        """``(*T)(nil)``, or ``(*T)(0xc000123)``: an address, whose target is not shown."""
        self._until(")(")
        self._until(")")

    def _conversion(self) -> Any:  # noqa: ANN401  (any JSON value)
        value = self.value()
        self._expect(")")
        return value

    def _elements(self) -> list[Any]:
        elements: list[Any] = []
        while not self._skip("}"):
            elements.append(self.value())
            self._skip(", ")
        return elements

    def _members(self, key: Callable[[], str]) -> dict[str, Any]:
        members: dict[str, Any] = {}
        while not self._skip("}"):
            name = key()
            self._skip(":")
            members[name] = self.value()
            self._skip(", ")
        return members

    def _field_name(self) -> str:
        match = _NAME.match(self.text, self.position)
        if match is None:
            raise ValueError(f"no field name at {self.position}")
        self.position = match.end() - 1
        return self._rename(match[1])

    def _take(self, pattern: re.Pattern[str]) -> str | None:
        match = pattern.match(self.text, self.position)
        if match is None:
            return None
        self.position = match.end()
        return match[0]

    def _skip(self, text: str) -> bool:
        if not self.text.startswith(text, self.position):
            return False
        self.position += len(text)
        return True

    def _expect(self, text: str) -> None:
        if not self._skip(text):
            raise ValueError(f"no {text!r} at {self.position}")

    def _until(self, text: str) -> None:
        end = self.text.find(text, self.position)
        if end < 0:
            raise ValueError(f"no {text!r} after {self.position}")
        self.position = end + len(text)


def _scalar(text: str) -> Any:  # noqa: ANN401  (any JSON value)
    if text in {"true", "false", "nil"}:
        return {"true": True, "false": False, "nil": None}[text]
    # Unsigned integers are hexadecimal in this notation.
    if "0x" in text:
        return int(text, 16)
    return float(text) if any(mark in text for mark in ".eE") else int(text)


def _simplify(kind: str, fields: dict[str, Any]) -> Any:  # noqa: ANN401  (any JSON value)
    """``v1.Duration{Duration:60000000000}`` is a text in the API."""
    if kind.endswith(".Duration") and len(fields) == 1:
        return format_go_duration(next(iter(fields.values())))
    return fields


# Runs of plain letters are taken at once: written as (plain|escape)* it takes three times longer.
_QUOTED_TEXT = r'"([^"\\]*(?:\\.[^"\\]*)*)"'
_QUOTED = regex(_QUOTED_TEXT, re.DOTALL)
_PAIR = regex(rf" ([\w./-]+)=(?:{_QUOTED_TEXT}|([\w.+-]+)(?= [\w./-]+=|\Z))", re.DOTALL | re.ASCII)
"""A key and a value that is quoted, or one plain word: nearly all are, and one match takes them."""
_KEY = regex(r'\s*([^\s="]+)=')
_KEY_AHEAD = regex(r'\s+[^\s="]+=')
_ESCAPE = regex(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.))", re.DOTALL
)
_SIMPLE_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_TAB_WIDTH = 8
_CLOSING = regex(r" {0,7}>(?:\s*\Z|(?:\s+[^\s=\"]+=))")
"""The line that ends a block; what has more spaces is a line of it whose tab was expanded."""
_BRACKETS = {"{": "}", "[": "]", "(": ")"}
_JSON_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
_NUMBER = regex(r"-?(?:0|[1-9]\d{0,99})(\.\d+)?([eE][+-]?\d+)?")
"""Of a length that Python reads; what is longer stays a text."""
_DECODER = json.JSONDecoder()

_TIME_KEYS = frozenset(
    {
        *("detectTime", "firstDetected", "freeTime", "lastUsed", "startTime", "time"),
        *("firstStartedPulling", "lastFinishedPulling", "observedRunningTime"),
        *("pod.CreationTimestamp", "podCreationTimestamp", "watchObservedRunningTime"),
    }
)
_HEADER_KEYS = frozenset({"ts", "caller", "msg", "v"})
_ZERO_TIME = "0001-01-01 00:00:00 +0000 UTC"
_MS_OF_YEAR_2000 = 946_684_800_000


def unquote(text: str) -> str:
    """The string between the quotes of Go's ``strconv.Quote``, escapes undone."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_unescape, text)


def _unescape(match: re.Match[str]) -> str:
    byte, short, long, octal, simple = match.groups()
    if byte is not None:
        value = int(byte, 16)
        # Quote writes \x only for bytes that are no UTF-8, and for control characters.
        return chr(value) if value < 0x80 else "\ufffd"
    if octal is not None:
        return chr(int(octal, 8))
    code = short or long
    if code is not None:
        point = int(code, 16)
        return chr(point) if point <= 0x10FFFF else "\ufffd"
    return _SIMPLE_ESCAPES.get(simple, simple)


def split_structured(text: str) -> tuple[str, str] | None:
    """Message (unquoted) and the rest of a structured line; None for free text.

    Free text may begin with a quoted word too: a structured line ends after its message,
    or continues with a key.
    """
    match = _QUOTED.match(text)
    if match is None:
        return None
    rest = text[match.end() :]
    if rest and not _KEY_AHEAD.match(rest):
        return None
    return normal_message(unquote(match[1])), rest


def text_values(rest: str, *, cut: bool = False, torn: bool = False) -> dict[str, Any]:
    """Key -> value of what follows the message of a structured text line.

    Args:
        rest: of the line, and the lines that continue with it.
        cut: it was cut, so that a bare value at its end may be half of it.
        torn: it may have been cut.

    Returns:
        The values; ``CutValues`` without those that are not whole where the line was cut, as
        one shows by itself that ends in a quoted text, a list, an object or a key.
    """
    values: dict[str, Any] = {}
    last, open_end, doubtful = "", False, set[str]()
    position = 0
    next_pair = _PAIR.match
    while True:
        if pair := next_pair(rest, position):
            last, quoted, bare = pair.groups()
            open_end = quoted is None
            if quoted is None:
                quoted = _bare(bare)
            elif "\\" in quoted or quoted[-1:] == "\n":
                quoted = normal_message(unquote(quoted))
            values[last] = quoted
            position = pair.end()
        elif head := _KEY.match(rest, position):
            last = head[1]
            value = _value(rest, head.end())
            # What begins as JSON and is none has its end elsewhere than it seems.
            is_json = rest.startswith('{"', head.end())
            if value is None or ((cut or torn) and is_json and isinstance(value[0], str)):
                found = _cut_values(values)
                if rest.startswith('"', head.end()):
                    found.begun = last, unquote(rest[head.end() + 1 :])
                return found
            values[last], position, open_end = value
            if rest[head.end() : head.end() + 1] == "<":
                doubtful.add(last)
        else:
            break
    if rest[position:].strip():
        return _cut_values(values)
    if cut and open_end:
        values.pop(last, None)
    if cut:
        return _cut_values(values)
    if torn and open_end:
        doubtful.add(last)
    return _cut_values(values, doubtful) if torn and doubtful else values


def _cut_values(values: dict[str, Any], missing_keys: Collection[str] | None = None) -> CutValues:
    found = CutValues(
        {key: value for key, value in values.items() if key not in (missing_keys or ())}
    )
    found.missing_keys = frozenset(missing_keys) if missing_keys is not None else None
    return found


def _value(text: str, start: int) -> tuple[Any, int, bool] | None:
    """A value, its end, and whether it may continue there; None: its end is not in the text."""
    first = text[start : start + 1]
    if first == '"':
        quoted = _QUOTED.match(text, start)
        return quoted and (normal_message(unquote(quoted[1])), quoted.end(), False)
    if first == "<" and text[start + 1 : start + 2] in ("", "\n"):
        value, end = _block(text, start + 2)
        return value, end, text[end - 1 : end] != ">"
    if first in ("{", "["):
        return _bracketed(text, start)
    end = _bare_end(text, start)
    return None if end == start == len(text) else (_bare(text[start:end]), end, True)


def closes_block(line: str) -> bool:
    """The line ends a value over several lines; more keys may follow its ``>``."""
    return _CLOSING.match(line) is not None


def _block(text: str, start: int) -> tuple[str | None, int]:
    """A value over several lines: each after a tab, up to a line that is `` >``.

    Terminals and journal readers expand the tabs. None: no line of the value is left, for
    klog writes at least one.
    """
    lines: list[str] = []
    indent = ""
    position = start
    while position < len(text):
        end = text.find("\n", position)
        line = text[position:] if end < 0 else text[position:end]
        if closes_block(line):
            return _joined(lines), position + line.index(">") + 1
        indent = indent or _indent(line)
        lines.append(line[1:] if line.startswith("\t") else line.removeprefix(indent))
        if end < 0:
            break
        position = end + 1
    return _joined(lines), len(text)


def _indent(line: str) -> str:
    """The spaces that a line's tab became; nothing where it is still a tab."""
    return line[: min(_TAB_WIDTH, len(line) - len(line.lstrip(" ")))]


def _joined(lines: list[str]) -> str | None:
    return "\n".join(lines) if lines else None


def _bracketed(text: str, start: int) -> tuple[Any, int, bool] | None:
    try:
        value, end = _DECODER.raw_decode(text, start)
        if end == len(text) or text[end] in " \n":
            return _normal(value), end, False
    except (ValueError, RecursionError):
        pass
    balanced = _balanced_end(text, start)
    end = balanced or _bare_end(text, start)
    if balanced is None and end == len(text):
        return None
    return text[start:end], end, True


def _balanced_end(text: str, start: int) -> int | None:
    """End of Go's ``%v`` of a struct, map or list; None if unbalanced."""
    closers: list[str] = []
    for position in range(start, len(text)):
        letter = text[position]
        if letter in _BRACKETS:
            closers.append(_BRACKETS[letter])
        elif closers and letter == closers[-1]:
            closers.pop()
            if not closers:
                return _bare_end(text, position + 1)
    return None


def _bare_end(text: str, start: int) -> int:
    ahead = _KEY_AHEAD.search(text, start)
    return ahead.start() if ahead else len(text)


def _bare(text: str) -> Any:  # noqa: ANN401 - a JSON scalar or text
    if text in _JSON_WORDS:
        return _JSON_WORDS[text]
    number = _NUMBER.fullmatch(text)
    if number is None:
        return text
    return float(text) if number[1] or number[2] else int(text)


_MASK = regex(r"(.)(?:\1|-){3,}|[<\[(*].*|(?i:redacted|masked|hidden).*")


def is_mask(uid: str) -> bool:
    """Whether a UID was hidden, and stands for every pod: it tells none from another."""
    return _MASK.fullmatch(uid) is not None


_TORN = regex(r"""(?!<[^>]*>\Z|\[[^\]]*\]\Z)[\w./-]*(?:[\s=<>\[\]"\\]+[\w./-]*)+""")
"""No name: something stands in its middle that is not of it, as where a line was wrapped."""


def without_masks(values: dict[str, Any]) -> dict[str, Any]:
    """The same without the UID of a pod that somebody has hidden, and names that are torn."""
    for key in ("containerName", "pod", "podUID"):
        name = dict.get(values, key)
        if isinstance(name, str) and (
            _TORN.fullmatch(name) is not None or (key == "podUID" and is_mask(name))
        ):
            del values[key]
    return values


def json_values(entry: dict[str, Any]) -> dict[str, Any]:
    """Key -> value of one klog JSON entry, as its text form would have given them."""
    values: dict[str, Any] = {}
    for key, value in entry.items():
        if key not in _HEADER_KEYS:
            values[key] = _go_time(value) if key in _TIME_KEYS else _normal(value)
    return without_masks(values)


def _normal(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    match value:
        case str():
            return normal_message(value)
        case dict() if value and value.keys() <= {"name", "namespace"} and "name" in value:
            namespace = value.get("namespace")
            return f"{namespace}/{value['name']}" if namespace else value["name"]
        case list():
            return [_normal(item) for item in value]
        case _:
            return value


def _go_time(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """A time in milliseconds since the epoch as Go's ``Time.String`` in UTC."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _normal(value)
    if value < 0:
        return _ZERO_TIME
    if value < _MS_OF_YEAR_2000:
        return value
    ts_ns = round(value * 1000) * (NS_PER_S // 1_000_000)
    return format_ts(ts_ns).replace("T", " ").replace("Z", " +0000 UTC")
