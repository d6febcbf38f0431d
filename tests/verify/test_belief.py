"""The one judgement: worlds that allow a decision against those that do not."""

from __future__ import annotations

import pytest

from kubeledger.verify.belief import Belief, Ruling, World, judge

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
