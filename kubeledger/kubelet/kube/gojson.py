"""What Go's encoding/json says of a text that it does not take."""

from __future__ import annotations

import json
from typing import Any, Final

from kubeledger.kubelet.kube.gotexts import quoted

_SPACE: Final = " \t\r\n"
_DIGITS: Final = frozenset("0123456789")
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_LITERALS: Final = {"t": "true", "f": "false", "n": "null"}
_DEPTH_MAX: Final = 10_000
_KINDS: Final = {dict: "object", list: "array", str: "string", bool: "bool"}


class GoJSONError(ValueError):
    """Go's text of what is wrong."""


def loads(content: bytes) -> Any:  # noqa: ANN401  # any JSON value
    """The value of a JSON text; bytes that are no UTF-8 are replaced, as Go does.

    Raises:
        GoJSONError: the text is no JSON.
    """
    text = content.decode(errors="replace")
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        _Scanner(text).scan()
        raise GoJSONError("unexpected end of JSON input") from None


def _refuse(name: str) -> None:
    raise ValueError(name)


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)


def kind_of(value: object) -> str:
    """What ``UnmarshalTypeError`` calls a value."""
    return _KINDS.get(type(value), "number")


class _Scanner:
    """Goes to the first character that cannot stand where it stands.

    Source: go1.26 src/encoding/json/scanner.go
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def scan(self) -> None:
        """Read one value, and nothing after it.

        Raises:
            GoJSONError: naming the character.
        """
        open_with: list[str] = []
        while True:
            opened = self._value(open_with)
            while not opened:
                character = self._next_solid(bool(open_with))
                if not open_with:
                    if character:
                        raise self._wrong(character, "after top-level value")
                    return
                within = open_with[-1]
                if character == ",":
                    if within == "{":
                        self._key(self._next_solid())
                    break
                if character != ("}" if within == "{" else "]"):
                    where = "object key:value pair" if within == "{" else "array element"
                    raise self._wrong(character, f"after {where}")
                open_with.pop()

    def _value(self, open_with: list[str]) -> bool:
        """Read a value, or the beginning of one that is not empty (then True)."""
        character = self._next_solid()
        if character in "{[":
            if len(open_with) >= _DEPTH_MAX:
                raise GoJSONError("exceeded max depth")
            first = self._next_solid()
            if first == ("}" if character == "{" else "]"):
                return False
            open_with.append(character)
            if character == "{":
                self._key(first)
            else:
                self._at -= 1
            return True
        if character == '"':
            self._string()
        elif character in _LITERALS:
            for expected in _LITERALS[character][1:]:
                if (got := self._next()) != expected:
                    literal = _LITERALS[character]
                    raise self._wrong(got, f"in literal {literal} (expecting '{expected}')")
        elif character == "-" or character in _DIGITS:
            self._number(character)
        else:
            raise self._wrong(character, "looking for beginning of value")
        return False

    def _key(self, character: str) -> None:
        if character != '"':
            raise self._wrong(character, "looking for beginning of object key string")
        self._string()
        if (after := self._next_solid()) != ":":
            raise self._wrong(after, "after object key")

    def _string(self) -> None:
        while (character := self._next()) != '"':
            if character < " ":
                raise self._wrong(character, "in string literal")
            if character != "\\":
                continue
            escaped = self._next()
            if escaped == "u":
                for _ in range(4):
                    if (digit := self._next()) not in _HEX:
                        raise self._wrong(digit, "in \\u hexadecimal character escape")
            elif escaped not in 'bfnrt\\/"':
                raise self._wrong(escaped, "in string escape code")

    def _number(self, character: str) -> None:
        if character == "-" and (character := self._next()) not in _DIGITS:
            raise self._wrong(character, "in numeric literal")
        if character != "0":
            self._digits()
        if self._peek() == ".":
            self._at += 1
            self._some_digits(self._next(), "after decimal point in numeric literal")
        if self._peek() in ("e", "E"):
            self._at += 1
            sign = self._next()
            first = self._next() if sign in "+-" else sign
            self._some_digits(first, "in exponent of numeric literal")

    def _some_digits(self, first: str, where: str) -> None:
        if first not in _DIGITS:
            raise self._wrong(first, where)
        self._digits()

    def _digits(self) -> None:
        while self._peek() in _DIGITS:
            self._at += 1

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        character = self._peek()
        if not character:
            raise GoJSONError("unexpected end of JSON input")
        self._at += 1
        return character

    def _next_solid(self, needed: bool = True) -> str:
        """The next character that is no space; empty at the end, where none is needed."""
        while (character := self._peek()) and character in _SPACE:
            self._at += 1
        return self._next() if character or needed else ""

    def _wrong(self, character: str, where: str) -> GoJSONError:
        # Go looks at bytes: of a character of several, at the first.
        byte = character.encode(errors="surrogateescape")[:1].decode("latin-1")
        shown = {"'": r"'\''", '"': "'\"'"}.get(byte) or f"'{quoted(byte)[1:-1]}'"
        return GoJSONError(f"invalid character {shown} {where}")
