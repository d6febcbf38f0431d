"""Routes of free text: first letters rule out only patterns that would not match."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeledger.ingest.klog.router import Handled, Router, Verdict
from kubeledger.ingest.klog.rows import read_table
from kubeledger.ingest.messages.catalogue import MESSAGES
from kubeledger.ingest.messages.noise import NOISE
from kubeledger.ingest.sources.items import Facts, LogLine
from tests.ingest.feeding import lines

PATTERNS = sorted(
    {row.pattern for rows in MESSAGES.values() for row in rows if row.pattern is not None}
)


def _handler(line: LogLine) -> Facts:
    return ()


def router(*table: str) -> Router:
    """Routes of a table's lines, with one who listens to a message."""
    rows = read_table("\n".join(table)).rows
    return Router(rows, NOISE, {"It happened": (_handler,)})


def routes_of(*patterns: str) -> Router:
    """Routes with free text of one file."""
    return router("- It happened", *(f"  x.go~ {each}" for each in patterns))


@settings(max_examples=300)
@given(st.data())
def test_whatever_a_pattern_matches_is_routed_by_it(data: st.DataObject) -> None:
    pattern = data.draw(st.sampled_from(PATTERNS))
    message = data.draw(st.from_regex(re.compile(pattern, re.DOTALL), fullmatch=True))
    route = routes_of(pattern).free_text("x.go", message)
    assert isinstance(route, Handled)
    assert route.handlers == (_handler,)
    assert route.match is not None
    assert route.match.string == message


@pytest.mark.parametrize(
    ("pattern", "message", "fits"),
    [
        ("(?:a|bc)d", "bcd", True),
        ("(?:a|bc)d", "b", False),
        ("(a)?bc", "bc", True),
        ("(?:ab)*c", "c", True),
        ("ab?c", "ac", True),
        ("ab{0,1}c", "ac", True),
        (r"\S+ probe", "x probe", True),
        ("[Ff]ailed", "failed", True),
        ("one|two", "two", True),
        (r"a\.b", "axb", False),
        ("(?:)", "anything", True),
    ],
)
def test_first_letters(pattern: str, message: str, fits: bool) -> None:
    """Of groups, classes, alternatives and what may be absent."""
    route = routes_of(pattern).free_text("x.go", message)
    assert (route is not Verdict.UNKNOWN) == fits


@settings(max_examples=100)
@given(st.data())
def test_other_patterns_change_no_route(data: st.DataObject) -> None:
    """With all patterns of one file the first that matches has the message, and none else."""
    pattern = data.draw(st.sampled_from(PATTERNS))
    message = data.draw(st.from_regex(re.compile(pattern, re.DOTALL), fullmatch=True))
    route = routes_of(*PATTERNS).free_text("x.go", message)
    first = next(each for each in PATTERNS if re.compile(each, re.DOTALL).match(message))
    assert isinstance(route, Handled)
    assert route.row is not None
    assert route.row.words == first


def test_what_is_remembered() -> None:
    """Not where a message that begins alike may have a handler."""
    routes = routes_of("Container .* died")
    assert not routes.may_remember("x.go", "Container web of a")
    assert not routes.may_remember("x.go", "Cont")
    assert routes.may_remember("x.go", "Sandbox web of a pod")
    assert routes.may_remember("y.go", "Container web of a")


@pytest.mark.parametrize(
    ("words", "message", "values"),
    [
        ('got {size:int} of "{image}" {}', 'got -5 of "a b" now', {"size": -5, "image": "a b"}),
        ("pods: {pods:list} left", "pods: [a b] left", {"pods": "[a b]"}),
        ("{pod:pod} failed: {error}", "a_b(c) failed: no\nway",
         {"pod": "a_b(c)", "error": "no\nway"}),
        ("at {one} and ({two})", "at 1 and (2)", {"one": "1", "two": "2"}),
    ],
)  # fmt: skip
def test_templates(words: str, message: str, values: dict[str, object]) -> None:
    """A value ends before the letter that stands behind it in the template."""
    routes = router("- It happened", f"  x.go {words} | why:=it")
    route = routes.free_text("x.go", message)
    assert isinstance(route, Handled)
    assert route.row is not None
    (line,) = lines(f"x.go {message}")
    route.row.read(line, route.match)
    assert line.values == {"why": "it", **values}


def test_new_words_for_a_message() -> None:
    """They come to those who listen to it, under its own keys."""
    has_happened = "  any It has happened | pod=podName"
    routes = router("- It happened", has_happened, "ignored", "  - It ended")
    route = routes.structured("x.go", "It has happened")
    assert isinstance(route, Handled)
    assert route.row is not None
    (line,) = lines('x.go "It has happened" podName="a"')
    route.row.read(line, None)
    assert line.values == {"pod": "a", "podName": "a"}
    assert routes.structured("x.go", "It ended") is Verdict.UNDERSTOOD
    assert routes.structured("x.go", "It began") is Verdict.UNKNOWN


def test_what_is_read_goes_before_what_is_ignored() -> None:
    """In whichever order the rows stand."""
    routes = router("ignored", '  x.go "It "', "- It happened", "  x.go It was {}")
    assert isinstance(routes.free_text("x.go", "It was he"), Handled)
    assert routes.free_text("x.go", "It is he") is Verdict.UNDERSTOOD
