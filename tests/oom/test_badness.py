"""The kernel's choice among processes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubeledger.oom.badness import NEVER_KILLED, points, totals_for
from kubeledger.oom.records import Task

PAGE = 4096
_tasks = st.lists(
    st.builds(
        Task,
        pid=st.integers(1, 99),
        process=st.just("app"),
        rss_pages=st.integers(0, 5000),
        swap_pages=st.integers(0, 50),
        page_table_bytes=st.integers(0, 40).map(lambda pages: pages * PAGE),
        oom_score_adj=st.sampled_from([NEVER_KILLED, -998, -997, 0, 3, 700, 968, 1000]),
    ),
    min_size=1,
    max_size=6,
)


def test_points() -> None:
    """Linux mm/oom_kill.c oom_badness: pages of all kinds, and thousandths of all there are."""
    task = Task(
        pid=1, process="a", rss_pages=300, swap_pages=20, page_table_bytes=2 * PAGE + 1,
        oom_score_adj=-5,
    )  # fmt: skip
    assert points(task, total_pages=16384, page_bytes=PAGE) == 300 + 20 + 2 - 5 * 16


@given(tasks=_tasks, thousandths=st.integers(0, 400), slack=st.integers(0, 70))
def test_totals_are_those_with_which_no_other_has_more(
    tasks: list[Task], thousandths: int, slack: int
) -> None:
    """As trying out the number of pages says."""
    victim, *others = tasks
    bounds = totals_for(victim, others, page_bytes=PAGE, slack_pages=slack)
    within = bounds is not None and bounds[0] <= thousandths
    within = within and (bounds is None or bounds[1] is None or thousandths <= bounds[1])
    scores = [points(task, total_pages=thousandths * 1000, page_bytes=PAGE) for task in tasks]
    own = scores[0]
    rest = [score for score in scores[1:] if score is not None]
    assert within == (own is not None and all(score <= own + slack for score in rest))
