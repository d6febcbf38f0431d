"""The SQL reference says what the files say."""

from __future__ import annotations

from kubeledger.analyze.sql.views import parse_header
from tests.generated import stale
from tests.generated.sql_page import render


def test_page_is_current() -> None:
    """Make it again with ``just docs``."""
    assert not stale("docs/sql.md", render())


def test_header_fields_and_prose() -> None:
    header = parse_header(
        "-- What a row is,\n-- in two lines.\n-- kinds: a.B c.D\n"
        "-- column x VARCHAR[]: an x: with a colon\n-- param p BIGINT default 3: a p\n"
        "SELECT 1; -- column y INTEGER: no field\n"
    )
    assert header.prose == "What a row is, in two lines."
    assert header.text("kinds") == "a.B c.D"
    assert [(f.name, f.type, f.text) for f in header.of("column")] == [
        ("x", "VARCHAR[]", "an x: with a colon")
    ]
    assert [(f.name, f.type) for f in header.of("param")] == [("p", "BIGINT default 3")]
    assert header.sql == "SELECT 1; -- column y INTEGER: no field"
