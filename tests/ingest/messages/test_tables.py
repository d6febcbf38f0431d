"""The tables of messages: every row is heard, every message that is asked for has a row."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from kubeledger.ingest.assemblers import assemblers_of
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.klog.last_words import FATAL
from kubeledger.ingest.messages.catalogue import MESSAGES
from kubeledger.ingest.messages.noise import NOISE
from kubeledger.ingest.messages.page import render
from kubeledger.ingest.planning.identity import KubeletVersion

ROWS = [row for rows in MESSAGES.values() for row in rows]
HEARD = {
    message
    for each in assemblers_of(
        BundleContext(node="n"), lambda _: KubeletVersion(None, None)
    ).in_order
    for message in each.structured()
}
TO = {row.to for row in ROWS if row.to is not None}


def test_every_row_that_is_read_is_heard() -> None:
    """Else its lines would be understood and lost."""
    assert not TO - HEARD


def test_what_is_asked_for_is_in_the_tables() -> None:
    """Else no line could come, or the page would not tell of it."""
    assert not HEARD - TO - {FATAL}


def test_each_message_has_one_row() -> None:
    """Structured messages are not noise besides, nor are they twice in the tables."""
    messages = Counter(row.words for row in ROWS if row.pattern is None)
    assert [message for message, count in messages.items() if count > 1] == []
    assert not messages.keys() & NOISE.messages


def test_versions() -> None:
    """In their order."""
    for row in ROWS:
        minors = [int(each.removeprefix("1.")) for each in (row.since, row.until) if each]
        assert minors == sorted(minors), row.words


def test_the_page_is_current() -> None:
    """Make it again with ``just docs``."""
    page = Path(__file__).parents[3] / "docs" / "messages.md"
    assert page.read_text(encoding="utf-8") == render()
