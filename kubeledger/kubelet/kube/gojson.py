"""What Go's ``encoding/json`` says of a text that is not JSON.

Source: Go 1.26 src/encoding/json/scanner.go checkValid
Differs: reads a whole string, number or literal at once instead of byte by byte.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from kubeledger.kubelet.kube.gotexts import quoted

DEPTH_MAX: Final = 10_000
_END: Final = "unexpected end of JSON input"
_SPACE: Final = re.compile(rb"[ \t\r\n]*")
_IN_STRING: Final = re.compile(rb'(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')
_HEX: Final = re.compile(rb"\\u[0-9a-fA-F]{0,3}")
_NUMBER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*)?(\.[0-9]*)?([eE][+-]?[0-9]*)?")
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
            hexadecimal = _HEX.match(self._data, self._at)
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
