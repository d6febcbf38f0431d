"""Routes of free text: first letters rule out only patterns that would not match."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeledger.ingest.correlate.assembler import Assembler, FreeTextHandler
from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.klog.router import Router, Verdict
from kubeledger.ingest.registry import ASSEMBLERS
from kubeledger.ingest.sources.facts import Facts
from kubeledger.ingest.sources.items import LogLine

TEXTS = sorted(
    {
        pattern.pattern
        for kind in ASSEMBLERS
        for table in kind(BundleContext(node="n")).free_text().values()
        for pattern, _ in table
    }
)


def _handler(line: LogLine, match: re.Match[str]) -> Facts:
    return ()


class _Listener(Assembler):
    def __init__(self, texts: list[str]) -> None:
        super().__init__(BundleContext(node="n"))
        self._texts = texts

    def free_text(self) -> dict[str, list[tuple[re.Pattern[str], FreeTextHandler]]]:
        """One file, one table."""
        return {"x.go": [(re.compile(text, re.DOTALL), _handler) for text in self._texts]}


@settings(max_examples=300)
@given(st.data())
def test_whatever_a_pattern_matches_is_routed_by_it(data: st.DataObject) -> None:
    """Texts made from the patterns of all assemblers."""
    text = data.draw(st.sampled_from(TEXTS))
    message = data.draw(st.from_regex(re.compile(text, re.DOTALL), fullmatch=True))
    route = Router([_Listener([text])]).free_text("x.go", message)
    assert isinstance(route, tuple)
    ((handler, match),) = route
    assert handler is _handler
    assert match is not None
    assert match.string == message


@pytest.mark.parametrize(
    ("text", "message", "fits"),
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
        ("", "anything", True),
    ],
)
def test_first_letters(text: str, message: str, fits: bool) -> None:
    """Of groups, classes, alternatives and what may be absent."""
    route = Router([_Listener([text])]).free_text("x.go", message)
    assert (route is not Verdict.UNKNOWN) == fits


@settings(max_examples=100)
@given(st.data())
def test_other_patterns_change_no_route(data: st.DataObject) -> None:
    """With all patterns of one file the first that matches has the message, and none else."""
    text = data.draw(st.sampled_from(TEXTS))
    message = data.draw(st.from_regex(re.compile(text, re.DOTALL), fullmatch=True))
    route = Router([_Listener(TEXTS)]).free_text("x.go", message)
    first = next(each for each in TEXTS if re.compile(each, re.DOTALL).match(message))
    assert isinstance(route, tuple)
    ((_, match),) = route
    assert match is not None
    assert match.re.pattern == first


def test_what_is_remembered() -> None:
    """Not where a message that begins alike may have a handler."""
    router = Router([_Listener(["Container .* died"])])
    assert not router.may_remember("x.go", "Container web of a")
    assert not router.may_remember("x.go", "Cont")
    assert router.may_remember("x.go", "Sandbox web of a pod")
    assert router.may_remember("y.go", "Container web of a")
