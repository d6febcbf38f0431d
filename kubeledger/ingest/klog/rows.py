"""A table of messages: their words, the versions that log them, and what is read of them.

Structured lines are told apart by their whole message, free text by the caller's file and how it
begins. A message stands at the begin of a line, and below it all other words that say the same: so
free text of an old kubelet becomes the structured line that newer ones log in its place, and what
reads lines knows one form of each::

    1.21- listAndWatch ended unexpectedly for device plugin | resourceName err?
      1.25- ListAndWatch ended unexpectedly for device plugin | resourceName=resource
      endpoint.go listAndWatch ended unexpectedly for device plugin {resourceName:word} with {err}
    - Pod is stopped | pod/podUID because gracePeriod?
      1.22- Pod is being evicted by the kubelet, begin teardown | because:=killed
    ignored
      - Add device
      manager.go created deprecation file

* ``1.21-``, ``1.21-1.24``, ``1.21``, ``any``: the minor versions that log it, as far as is known;
  ``-``: no kubelet does, it is a name for what stands below;
* ``| resourceName err?``: the keys of its lines. A line without a key that it needs is counted as
  not understood: what it says would be lost. ``imageKey/imageID``: it needs one of these;
  ``err?``: read where it is there. A message without keys is heard for its words alone;
* ``| resourceName=resource``: what the line has under ``resource`` is read as ``resourceName``;
  ``| because:=killed``: what the words themselves imply, where ``{key}`` stands for a field;
* ``endpoint.go``, or ``a.go,b.go``: free text of that caller's file. It begins so, with values as
  ``{key}`` or ``{key:kind}``; what is not read is ``{:kind}``. It is of versions up to 1.20, if
  nothing else is said (``a.go@-1.32``). ``a.go~``: the words are a regular expression, in which
  ``.`` is any letter, newlines too, and ``<<POD>>``, ``<<TIME>>`` stand for those below;
* ``ignored``: what stands below is understood, and nothing of it is recorded; free text are regular
  expressions;
* of a file's free text the first that fits has the line: words that others begin with come later;
* words that begin or end with a blank, or do both with ``"``, stand between ``"``.

Structured rows get a line in ``tests/ingest/messages/lines.txt``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import msgspec

from kubeledger.ingest.klog.values import without_masks
from kubeledger.ingest.sources.items import LogLine

FORMATTED_POD = r'[^_\s",()]+_[^_\s",()]+\([^\s")]*\)'
"""Regular expression of ``name_namespace(uid)``, without groups."""

TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? [+-]\d{4}"
"""Regular expression of a time as Go prints it, without groups."""

_FIELD = re.compile(r"\{(?P<key>\w*)(?::(?P<kind>\w+))?\}")
_KINDS = {
    "field": r"[^\s,)]+",
    "int": r"-?\d+",
    "list": r"\[[^\]]*\]",
    "pod": FORMATTED_POD,
    "rest": r".*",
    "some": r".*?",
    "struct": r'\{"[^"]*" "[^"]+"\}',
    "time": TIME,
    "word": r"\S+",
}
"""What a field of free text may hold; without a kind it ends before the letter after it."""


class Row(msgspec.Struct, frozen=True):
    """A message.

    Attributes:
        words: the whole message of a structured line, or of free text what it begins with.
        to: the structured message that it says; None: nothing is recorded of it.
        files: callers of free text; a structured message may come from any.
        keys: key of ``to`` -> key of the line, where they differ.
        constants: key of ``to`` -> value that the words themselves imply; in free text, and only
            there, ``{key}`` stands for a field.
        since, until: the first and the last minor version that logs it, as far as is known.
        pattern: regular expression of free text; None for a structured message. It is compiled when
            a line may fit it: in a log of one version most are never needed.
        integers: fields that are whole numbers.
    """

    words: str
    to: str | None
    files: tuple[str, ...] = ()
    keys: Mapping[str, str] = {}
    constants: Mapping[str, str] = {}
    since: str | None = None
    until: str | None = None
    pattern: str | None = None
    integers: frozenset[str] = frozenset()

    @property
    def is_error(self) -> bool:
        """The whole text is an error's (``HandleError``), so none of severity I is it."""
        return self.pattern is not None and self.pattern.startswith("(?P<err>")

    def read(self, line: LogLine, match: re.Match[str] | None) -> None:
        """Give a line the values of ``to``.

        Args:
            line: changed in place.
            match: of the pattern of free text.
        """
        if match is not None:
            found = {key: value for key, value in match.groupdict().items() if value is not None}
            line.values = without_masks(
                {
                    **{key: text.format(**found) for key, text in self.constants.items()},
                    **{k: int(v) if k in self.integers else v for k, v in found.items()},
                }
            )
        elif line.values is not None:
            for key, other in self.keys.items():
                if other in line.values:
                    line.values.setdefault(key, line.values[other])
            line.values.update(self.constants)


class Keys(msgspec.Struct, frozen=True):
    """Keys of a message's lines.

    Attributes:
        needed: of each, one of the alternatives must be there.
        read: all that anybody asks for.
    """

    needed: tuple[tuple[str, ...], ...]
    read: frozenset[str]

    @classmethod
    def of(cls, text: str) -> Keys:
        """As a table has them."""
        words = text.split()
        return cls(
            needed=tuple(tuple(word.split("/")) for word in words if not word.endswith("?")),
            read=frozenset(key for word in words for key in word.removesuffix("?").split("/")),
        )


class Table(NamedTuple):
    """The messages of one subsystem, and message -> keys of its lines."""

    rows: tuple[Row, ...]
    keys: dict[str, Keys]


_NAME, _IGNORED, _MORE = "-", "ignored", " | "
_VERSIONS = re.compile(r"(?P<since>\d+\.\d+)?(?P<open>-)?(?P<until>(?<=-)\d+\.\d+)?")


def read_table(text: str, name: str = "table") -> Table:
    """A table as it is written.

    Args:
        text: of the file.
        name: of the file, for messages.

    Raises:
        ValueError: a line that is written in another way, with its file, its number and what to do.
    """
    rows: list[Row] = []
    keys: dict[str, Keys] = {}
    to: str | None = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line == _IGNORED:
            to = None
            continue
        head, *more = line.split(_MORE)
        source, _, words = head.lstrip(" ").partition(" ")
        if words[:1] == words[-1:] == '"':
            words = words[1:-1]
        if is_message := not line.startswith(" "):
            to = words
            if more and "=" not in more[0]:
                keys[words] = Keys.of(more.pop(0))
        try:
            if to == "" or not words or line.startswith("   "):
                raise ValueError(
                    "write versions, a blank and a message, or, behind two blanks, versions or "
                    "a file and other words for the message above"
                )
            if not (is_message and source == _NAME):
                rows.append(_row(source, words, to, more))
        except ValueError as wrong:
            raise ValueError(f"{name}, line {number}: {line!r}: {wrong}") from None
    return Table(tuple(rows), keys)


def _row(source: str, words: str, to: str | None, more: list[str]) -> Row:
    place, _, versions = source.removesuffix("~").partition("@")
    files: tuple[str, ...] = ()
    pattern: str | None = None
    if ".go" not in place:
        versions = place
    else:
        files = tuple(place.split(","))
        if to is None:
            pattern = words
        elif source.endswith("~"):
            pattern = words = words.replace("<<POD>>", FORMATTED_POD).replace("<<TIME>>", TIME)
        else:
            pattern = _regex(words)
        versions = versions or ("any" if to is None else "-1.20")
    if (span := _span(versions)) is None:
        raise ValueError(
            f"{source!r} is neither versions (1.21-, 1.21-1.24, 1.21, any, or - for none) nor a "
            "file (a.go, a.go,b.go, a.go@1.21-)"
        )
    said = [part.partition("=") for part in more]
    if more and (unsaid := [key for key, equals, _ in said if not equals]):
        raise ValueError(
            f"{unsaid[0]!r} is neither key=key of the line nor key:=value: what a line must have "
            "stands behind the message alone, and once"
        )
    return Row(
        words,
        to,
        files,
        keys={key: value for key, _, value in said if not key.endswith(":")},
        constants={key[:-1]: value for key, _, value in said if key.endswith(":")},
        since=span[0],
        until=span[1],
        pattern=pattern,
        integers=frozenset(
            field["key"] for field in _FIELD.finditer(words) if field["kind"] == "int"
        ),
    )


@cache
def _span(versions: str) -> tuple[str | None, str | None] | None:
    """The first and the last of versions as they are written; None if they are not."""
    if versions == "any":
        return None, None
    match = _VERSIONS.fullmatch(versions)
    return match and (match["since"], match["until"] if match["open"] else match["since"])


def _regex(words: str) -> str:
    """The pattern of a template's matches."""
    parts, at = [], 0
    for field in _FIELD.finditer(words):
        parts.append(re.escape(words[at : field.start()]))
        at = field.end()
        following = words[at : at + 1]
        if kind := field["kind"]:
            if kind not in _KINDS:
                raise ValueError(f"no kind {kind!r} of field: there are {', '.join(_KINDS)}")
            value = _KINDS[kind]
        elif following:
            value = r"\S*" if following == " " else f"[^{re.escape(following)}]*"
        else:
            value = _KINDS["rest"]
        parts.append(f"(?P<{field['key']}>{value})" if field["key"] else f"(?:{value})")
    parts.append(re.escape(words[at:]))
    return "".join(parts)
