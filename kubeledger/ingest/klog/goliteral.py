"""Go's own notation for values (``%#v``), as the 1.20 kubelet dumps its configuration in.

Read into plain JSON values: structs and maps become dicts, slices lists, nil None, and a
``v1.Duration`` its text (``1m0s``). Struct fields keep Go's names; a caller that wants
the API's names passes a function that gives them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from kubeledger.ingest.sources.plain import plain
from kubeledger.model.units import format_go_duration

_TYPE = re.compile(r"(?:\[\d*\]|\*|map\[[\w.{} ]*\]|interface \{\}|[A-Za-z_][\w./]*)+")
_SCALAR = re.compile(r"-?0x[0-9a-f]+|[-+]?[0-9][0-9.eE+-]*|true|false|nil")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|`[^`]*`')
_NAME = re.compile(r"([A-Za-z_]\w*):")
_ESCAPE = re.compile(r"\\(x[0-9a-f]{2}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
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
        text = _ESCAPE.sub(_unescape, quoted[1:-1])
    return text if text.isascii() else str(plain(text, []))


def _unescape(match: re.Match[str]) -> str:
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
