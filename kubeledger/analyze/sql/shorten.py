"""Texts cut to a length, between words: half a word or name could not be searched for."""

from __future__ import annotations

import re

_CLAUSE_ENDS = ("; ", ": ", ", ", " (")
_LONGEST_WORD_PART = 2
"""A word that takes more than half of the room is cut itself: there is little else."""
_LONG_WORD = re.compile(r"[^\s\"'(),\[\]]{60,}")
"""A path, an ID: nobody reads it to the end, and it hides what stands around it."""
_WORD_SHOWN = 24
_RPC = re.compile(r"rpc error: code = \S+ desc = ")
_NO_CAUSE = re.compile(r"(?:, path)?: (?:unknown|&\w+\{[^{}]*\})[\"'\\)]*$")
"""What ends a chain and says nothing: of a file's path the Go value that was read from it."""
_ENDS_ALONE = re.compile(r": (?=exit status \d+[\"'\\).]*$)")
"""A command's status says nothing without what stands before it."""
_JOINED = ":\N{NO-BREAK SPACE}"


def cut(text: str, length: int) -> str:
    """At most ``length`` characters: the words that fit, and an ellipsis where some do not."""
    if len(text) <= length:
        return text
    left = max(length - 1, 0)
    end = text.rfind(" ", 0, left + 1)
    if left - end > length // _LONGEST_WORD_PART:
        end = left
    kept = text[:end]
    opened = kept.rfind(" (")
    if opened > length * 2 // 3 and ")" not in kept[opened:]:
        kept = kept[:opened]
    return kept.rstrip(" ,;:(\"'") + "…"


def cut_clause(text: str, length: int) -> str:
    """As ``cut``, but where a clause ends, if one ends late enough."""
    if len(text) <= length:
        return text
    end = max(text.rfind(mark, length * 3 // 5, length) for mark in _CLAUSE_ENDS)
    kept = text[:end] if end > 0 else cut(text, length)
    opened = kept.rfind(" (")
    return kept[:opened] if opened > length // 2 and ")" not in kept[opened:] else kept


def short_words(text: str, length: int) -> str:
    """A text that is too long with its longest words shortened: of a path the end is kept."""
    if len(text) <= length or " " not in text:
        return text
    return _LONG_WORD.sub(lambda word: _short_word(word[0]), text)


def _short_word(word: str) -> str:
    last = word.rstrip("/").rpartition("/")[2]
    is_path = word.startswith("/") and len(last) <= _WORD_SHOWN
    return f"…/{last}" if is_path else f"{word[:_WORD_SHOWN]}…"


def cut_chain(text: str, length: int) -> str:
    """As ``cut``, but of a chain of errors the beginning and the end, where the cause stands."""
    text = short_words(text, length)
    if len(text) > length:
        text = _NO_CAUSE.sub("", _RPC.sub("", text))
    head, *layers = _ENDS_ALONE.sub(_JOINED, text).split(": ")
    is_short = len(head) <= length * 2 // 3
    if len(text) <= length or len(layers) <= is_short:
        return cut(text, length)
    begin = f"{head}: … " if is_short else f"{cut(head, length // 3)} "
    room = length - len(begin)
    while len(layers) > 1 and len(": ".join(layers)) > room:
        layers = layers[1:]
    kept = cut(": ".join(layers), room)
    return f"{begin}{kept}".replace(_JOINED, ": ") if kept.rstrip("…") else cut(text, length)
