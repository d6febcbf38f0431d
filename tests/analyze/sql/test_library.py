"""The shipped queries: each runs, and says of the fixture ledger what happened there."""

import re
from pathlib import Path

import pytest

from kubeledger.analyze.sql.api import Queryable, connect
from kubeledger.analyze.sql.views import find_query, load_library, parse_header
from kubeledger.model.bodies.eviction import PodSpared, RankedPod, ReclaimAttempted
from kubeledger.model.errors import BadQuestionError
from tests.analyze.sql.expected_rows import EXPECTED, rows_of_query
from tests.analyze.sql.fixture_ledger import Story, of, write_ledger
from tests.generated import stale
from tests.generated.sql_page import render

LIBRARY = load_library()


def test_there_are_enough_of_them() -> None:
    assert len(LIBRARY) >= 14


@pytest.mark.parametrize("name", LIBRARY)
def test_answer(database: Queryable, name: str) -> None:
    """The rows that the query gives for the fixture ledger: ``just expected`` writes them."""
    got = rows_of_query(database, name)
    assert got == (EXPECTED / f"query_{name}.csv").read_text("utf-8")
    assert got.count("\n") > 1, "the fixture holds no answer to this question"


@pytest.mark.parametrize("name", LIBRARY)
def test_header(name: str) -> None:
    """A question, a description, and exactly the parameters that the SQL uses."""
    query = LIBRARY[name]
    assert query.title.endswith("?")
    assert query.doc
    used = set(re.findall(r"\$(\w+)", query.sql))
    assert used == {parameter.name for parameter in query.parameters}


def test_device_history_of_one_device(database: Queryable) -> None:
    query = find_query("device_history")
    rows = database.sql(query.sql, query.bind({"device": "gpu-1"})).dicts()
    assert [(row["pod"], row["device_id"]) for row in rows] == [("default/train", "gpu-1")]


def test_default_of_a_parameter(database: Queryable) -> None:
    """Three changes are the least that counts as flapping, by default."""
    query = find_query("flapping_probes")
    assert query.bind({}) == {"min_changes": "3"}
    assert len(database.sql(query.sql, query.bind({"min_changes": "3"})).fetchall()) == 1
    assert database.sql(query.sql, query.bind({"min_changes": "4"})).fetchall() == []


def test_a_ranking_of_which_no_eviction_is_recorded(tmp_path: Path) -> None:
    """The log ends after it: it names who was spared, and whose turn is next."""
    story = Story("node-a")
    ranked = tuple(RankedPod(**of(name)) for name in ("vital", "hog"))
    story.add(ReclaimAttempted(resource="memory", outcome="nothing"))
    for outcome in (None, "nothing"):
        attempt = story.add(ReclaimAttempted(resource="memory", ranked=ranked, outcome=outcome))
        story.add(PodSpared(**of("vital")), cause=attempt)
    with connect(write_ledger(tmp_path, story.records)) as opened:
        rows = opened.sql(find_query("eviction_rankings").sql, {}).dicts()
    assert [(row["seq"], row["pod"], row["next_in_rank"], row["spared"]) for row in rows] == [
        (2, None, "default/hog", ["default/vital"]),
        (4, None, None, ["default/vital"]),
    ]


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("pod_timeline", {}, "needs --param pod="),
        ("preemptions", {"pod": "x"}, "has no parameter pod"),
        ("settings", {"seting": "x"}, "has no parameter seting"),
    ],
)
def test_wrong_parameters(name: str, given: dict[str, str], message: str) -> None:
    with pytest.raises(BadQuestionError, match=message):
        find_query(name).bind(given)


def test_unknown_query() -> None:
    with pytest.raises(BadQuestionError, match="--list"):
        find_query("nope")


# The SQL reference says what the files say.


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
