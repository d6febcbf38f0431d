"""The comment block at the head of a shipped ``.sql`` file, as data.

Lines ``-- word name TYPE: text`` or ``-- word: text`` are fields; every other comment
line is prose. The files stay plain SQL that any client can run.
"""

from __future__ import annotations

import re

import msgspec

_FIELD = re.compile(
    r"-- (?P<word>column|param|title|kinds)(?: (?P<name>\w+)(?: (?P<type>[^:]+))?)?: (?P<text>.+)"
)


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a header.

    Attributes:
        word: what the field is: ``column``, ``param``, ``title`` or ``kinds``.
        name: name of the column or parameter; empty for the other words.
        type: type as written before the colon; empty without one.
        text: what stands after the colon.
    """

    word: str
    name: str
    type: str
    text: str


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The head of one file.

    Attributes:
        prose: the comment lines that are no field, joined by spaces.
        fields: (n,) in the order of the file.
        sql: the rest of the file, from its first line that is no comment.
    """

    prose: str
    fields: tuple[Field, ...]
    sql: str

    def of(self, word: str) -> tuple[Field, ...]:
        """The fields of one word, in order."""
        return tuple(field for field in self.fields if field.word == word)

    def text(self, word: str) -> str:
        """Text of the first field of a word; empty without one."""
        return next((field.text for field in self.fields if field.word == word), "")


def parse_header(source: str) -> Header:
    """Split a file into header and SQL."""
    prose: list[str] = []
    fields: list[Field] = []
    lines = source.splitlines()
    count = 0
    for line in lines:
        if not line.startswith("--"):
            break
        count += 1
        match = _FIELD.fullmatch(line)
        if match is None:
            prose.append(line.removeprefix("--").strip())
            continue
        parts = {key: value or "" for key, value in match.groupdict().items()}
        fields.append(Field(**parts))
    return Header(prose=" ".join(prose), fields=tuple(fields), sql="\n".join(lines[count:]).strip())
