"""The one judgement: worlds that allow a decision against those that do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.model.bodies.lifecycle import PodAdmitted
from kubeledger.model.record import Record
from kubeledger.verify import Contradiction, Finding, Outcome
from kubeledger.verify.belief import Belief, Ruling, World, judge
from kubeledger.verify.finding import PendingFindings, Row, Witnesses
from tests.verify.histories import scene

YES, OTHER = Ruling(allowed=True, why="it is first"), Ruling(allowed=True, chosen=False, why="tie")
NO = Ruling(allowed=False, why="another is first", expected={"pod": "b"}, inputs=(3,))
USED_MORE = Ruling(
    allowed=True, why="it is first", assumes=("what a used", "the disk"), inputs=(4,)
)
USED_LESS = Ruling(allowed=False, why="b is first", assumes=("the disk",), inputs=(3,))


@pytest.mark.parametrize(
    ("rulings", "verdict", "missing"),
    [
        ([YES], "match", ()),
        ([YES, OTHER], "admissible", ()),
        ([NO], "impossible", ()),
        ([USED_MORE, USED_LESS], "unverifiable", ("what a used",)),
        ([USED_MORE, USED_MORE], "match", ()),
    ],
)
def test_verdicts(rulings: list[Ruling], verdict: str, missing: tuple[str, ...]) -> None:
    """What all worlds agree on is decided; else what they differ in is missing."""
    found = judge(rulings)
    assert (found.verdict, found.missing) == (verdict, missing)
    assert found.inputs == tuple(dict.fromkeys(s for r in rulings for s in r.inputs))


def test_nothing_is_impossible_where_worlds_were_left_out() -> None:
    assert judge([NO], cut="some lines").missing == ("some lines",)
    assert judge([YES], cut="some lines").verdict == "match"


def test_a_belief_keeps_the_cheapest_world_of_a_state_and_says_when_it_is_cut() -> None:
    """Worlds of one state are one; a bound makes the belief cut, never wrong."""
    belief = Belief([World(0)], most=3)
    belief.widen(lambda state: (state, state + 1), "a lost line")
    assert belief.worlds == (World(0), World(1, ("a lost line",)))
    assert belief.step(lambda state: (state * 2, state * 2 + 10) if state else ())
    assert [world.state for world in belief.worlds] == [2, 12]
    assert (belief.cut, len(belief.worlds)) == (False, 2)
    belief.widen(lambda state: range(state, state + 4), "another line")
    assert (belief.cut, len(belief.worlds)) == (True, 3)


def test_a_record_that_no_world_explains_leaves_the_belief() -> None:
    """What contradicts everything before it is not evidence against all of it."""
    belief = Belief([World(1), World(2)])
    assert not belief.step(lambda _: ())
    belief.keep(lambda _: False)
    assert [world.state for world in belief.worlds] == [1, 2]
    belief.keep(lambda state: state == 2)
    assert belief.worlds == (World(2),)


# Two sources of one fact: what disagrees, and what may be of another time.

SECOND = 10**9


def row(value: str | None, at_s: int) -> Row[str]:
    return Row("colour", "x", value, at_s, at_s * SECOND, f"{value}")


@pytest.mark.parametrize(
    ("change", "reading", "disputes"),
    [
        ([("red", 0)], ("red", 60), []),
        ([("red", 0)], ("blue", 60), [("red", "blue")]),
        ([("red", 0), ("blue", 66)], ("blue", 60), []),  # it may be of then
        ([("red", 0), ("blue", 90)], ("blue", 60), [("red", "blue")]),
        ([("blue", 0), ("red", 56)], ("blue", 60), []),
        ([("red", 0), (None, 30)], ("blue", 60), []),  # open from then on
        ([("red", 58)], ("blue", 60), []),  # before it was open
        ([], ("blue", 60), []),
    ],
)
def test_within_its_reach(
    change: list[tuple[str | None, int]], reading: tuple[str, int], disputes: list[tuple[str, str]]
) -> None:
    """A reading is right if the fact had its value at some time within the reach."""
    facts: Witnesses[str] = Witnesses(10 * SECOND)
    found: list[tuple[Row[str], Row[str]]] = []
    steps = [(at_s, False, value) for value, at_s in change] + [(reading[1], True, reading[0])]
    for at_s, is_reading, value in sorted(steps, key=lambda step: step[0]):
        found += list(facts.passed(at_s * SECOND))
        (facts.note_reading if is_reading else facts.note_change)(row(value, at_s))
    found += list(facts.passed(None))
    assert [(change.value, reading.value) for change, reading in found] == disputes


def test_each_pair_once() -> None:
    facts: Witnesses[str] = Witnesses(10 * SECOND)
    facts.note_change(row("red", 0))
    for at_s in (60, 70, 80):
        facts.note_reading(row("blue", at_s))
    assert len(list(facts.passed(None))) == 1


# Every decision gets one finding, in the order of replay, however late it comes.

BODY = PodAdmitted(namespace="default", pod="web", pod_uid=None)


def records(count: int) -> list[Record]:
    """Decisions 1 to ``count``."""
    return scene(*((float(n), BODY) for n in range(count)))


def finding(seq: int) -> Finding:
    return Finding(seq=seq, ts_ns=0, kind="k", subject="node", verdict="match", why="so")


@given(st.permutations(range(1, 9)), st.lists(st.integers(0, 8), max_size=5))
def test_any_order_of_finding(order: list[int], extras: list[int]) -> None:
    """Out they come as they were met; what was added keeps its place among them."""
    pending, out, expected = PendingFindings(), list[Outcome](), list[Outcome]()
    for record in records(8):
        pending.enter(record)
        expected.append(finding(record.seq))
        for _ in range(extras.count(record.seq)):
            extra = Contradiction(ts_ns=record.seq, subject="node", why="two", sides=())
            pending.add(extra)
            expected.append(extra)
    for seq in order:
        pending.find(finding(seq))
        out += pending.ready()
    assert out == expected
    assert list(pending.close()) == []


def test_what_never_got_one_is_unverifiable() -> None:
    pending = PendingFindings()
    for record in records(2):
        pending.enter(record)
    pending.find(finding(2))
    assert list(pending.ready()) == []
    first, second = pending.close()
    assert isinstance(first, Finding)
    assert (first.seq, first.verdict, second) == (1, "unverifiable", finding(2))
    assert first.missing
    assert first.recorded is not None
    assert first.recorded["pod"] == "web"
    assert list(pending.close()) == []


def test_one_each() -> None:
    pending = PendingFindings()
    pending.enter(records(1)[0])
    pending.find(finding(1))
    with pytest.raises(ValueError, match="record 1 does not wait"):
        pending.find(finding(1))
    with pytest.raises(ValueError, match="record 2 does not wait"):
        pending.find(finding(2))


def test_nothing_is_kept() -> None:
    pending = PendingFindings()
    for record in records(3):
        pending.enter(record)
        pending.find(finding(record.seq))
        assert list(pending.ready()) == [finding(record.seq)]
        assert list(pending.ready()) == []
