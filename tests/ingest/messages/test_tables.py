"""The tables of messages: every row is heard, and its keys are those that are asked for."""

import ast
import re
from collections import Counter
from pathlib import Path
from string import Formatter

import pytest

import kubeledger.ingest
from kubeledger.ingest.assemblers import IN_ORDER
from kubeledger.ingest.klog.log_signs import FATAL
from kubeledger.ingest.klog.rows import Row, read_table
from kubeledger.ingest.messages.catalogue import KEYS, MESSAGES, NEEDED
from kubeledger.ingest.messages.noise import NOISE
from kubeledger.kubelet.profile.facts import NEWEST, OLDEST
from tests.generated import stale
from tests.generated.messages_page import render

TABLES = Path(kubeledger.ingest.__file__).parent / "messages" / "tables"
ROWS = [row for rows in MESSAGES.values() for row in rows]
HEARD = {each.what for kind in IN_ORDER for each in kind.declared("reads")}
TO = {row.to for row in ROWS if row.to is not None}


def place(words: str) -> str:
    """A row's words, and where they stand: ``devices.txt, line 12: Device plugin connected``."""
    found = (
        f"{file.name}, line {number}: "
        for file in sorted(TABLES.iterdir())
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if f" {words}" in line
    )
    return next(found, "") + words


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("Failed to do it", "'Failed' is neither versions"),
        ("1.2x- It happened", "'1.2x-' is neither versions"),
        ("  x.go@any- It happened", "'x.go@any-' is neither versions"),
        ("1.21-", "write versions, a blank and a message"),
        ("", "write versions, a blank and a message"),
        ("   1.21- It happened", "write versions, a blank and a message"),
        ("1.21- It happened | pod | err?", "'err?' is neither key=key"),
        ("  1.21- It happened | pod", "'pod' is neither key=key"),
        ("  x.go It happened to {pod:thing}", "no kind 'thing' of field"),
    ],
)
def test_a_wrong_line_is_named(line: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"tables/x.txt, line 2: {line!r}: {wrong}")):
        read_table(f"1.20- Something happened\n{line}\n", "tables/x.txt")


def test_other_words_stand_below_a_message() -> None:
    with pytest.raises(ValueError, match=r"line 1: .* other words for the message above"):
        read_table("  1.21- It happened")


def test_every_row_that_is_read_is_heard() -> None:
    """Else its lines would be understood and lost."""
    unheard = [place(to) for to in sorted(TO - HEARD)]
    assert unheard == [], (
        f"no handler reads {unheard}. If a known message says the same, put the line below it. If "
        'none does, write a handler: a method under @reads("…") in ingest/correlate/, and the keys '
        "behind the message. If nothing of it is to be recorded, put the line below `ignored`"
    )


def test_what_is_asked_for_is_in_the_tables() -> None:
    """Else no line could come, or the page would not show it."""
    assert sorted(HEARD - TO - {FATAL}) == []


def given(row: Row) -> set[str]:
    """Keys of ``to`` that a row itself gives: renamed, implied, or fields of its words."""
    fields = set(re.compile(row.pattern).groupindex) if row.pattern else set()
    texts = [text for text in row.constants.values() if isinstance(text, str)]
    joined = (
        {key for text in texts for _, key, _, _ in Formatter().parse(text)} if fields else set()
    )
    return set(row.keys) | set(row.constants) | fields - joined


def test_what_rows_give_is_read() -> None:
    """Else a key is misspelled, and the record of its lines is lost."""
    unread = {
        row.words: sorted(given(row) - KEYS[row.to].read if row.to in KEYS else given(row))
        for row in ROWS
        if row.to is not None
    }
    wrong = {place(words): keys for words, keys in unread.items() if keys}
    assert wrong == {}, (
        f"rows give keys that the message that they are read as does not have: {wrong}. "
        "Spell the key as it stands there, or add it there if the handler asks for it"
    )


def test_constants_of_structured_rows_have_no_fields() -> None:
    """A ``{key}`` in them would be recorded as it stands: structured lines have no fields."""
    wrong = {
        place(row.words): dict(row.constants)
        for row in ROWS
        if row.pattern is None and any("{" in str(value) for value in row.constants.values())
    }
    assert wrong == {}, f"{{key}} stands for a field in rows of free text only: {wrong}"


def test_free_text_gives_what_is_needed() -> None:
    """Else all its lines would count as not understood."""
    missing = {
        row.words: [keys for keys in NEEDED.get(row.to or "", ()) if not given(row) & {*keys}]
        for row in ROWS
        if row.pattern is not None
    }
    lost = {place(words): keys for words, keys in missing.items() if keys}
    assert lost == {}, f"rows lack fields or constants that their message needs: {lost}"


def test_keys_are_those_of_messages_that_are_heard() -> None:
    """Else a message is misspelled, and nothing is asked of its lines."""
    unheard = [place(message) for message in sorted(KEYS.keys() - HEARD)]
    assert unheard == [], f"the tables name messages that no handler reads: {unheard}"


def test_keys_are_asked_for() -> None:
    """Each is written somewhere in the code that reads lines."""
    package = Path(kubeledger.ingest.__file__).parent
    readers = [*package.glob("*.py"), *package.glob("correlate/*.py"), *package.glob("derive/*.py")]
    readers += [package / "messages" / name for name in ("podref.py", "containers.py")]
    written = {
        node.value
        for file in readers
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
    }
    unread = {message: sorted(keys.read - written) for message, keys in KEYS.items()}
    wrong = {place(message): keys for message, keys in unread.items() if keys}
    assert wrong == {}, f"the tables name keys that no code asks for: {wrong}"


def test_each_message_has_one_row() -> None:
    """Structured messages are not noise besides, nor are they twice in the tables."""
    messages = Counter(row.words for row in ROWS if row.pattern is None)
    assert [place(message) for message, count in messages.items() if count > 1] == []
    assert [place(message) for message in messages.keys() & NOISE.messages] == []


def test_versions() -> None:
    known = [f"1.{minor}" for minor in range(OLDEST, NEWEST + 1)]
    for row in ROWS:
        versions = [each for each in (row.since, row.until) if each is not None]
        about = f"{place(row.words)}: since={row.since!r}, until={row.until!r}"
        assert {*versions} <= {*known}, (
            f'{about}: a version is written as "{known[-1]}", from {known[0]} to {known[-1]}; '
            "for a newer one raise NEWEST in kubelet/profile/facts.py first"
        )
        assert versions == sorted(versions, key=known.index), f"{about}: until is before since"


def test_the_page_is_current() -> None:
    """Make it again with ``just docs``."""
    assert not stale("docs/internals/messages.md", render())
