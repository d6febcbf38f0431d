"""The kernel's choice among processes."""

from hypothesis import given
from hypothesis import strategies as st

from kubeledger.kubelet.oom import NEVER_KILLED, chosen, points
from kubeledger.model.bodies.eviction import Task

PAGE = 4096
_tasks = st.lists(
    st.builds(Task, pid=st.integers(1, 99), process=st.just("app"), rss_pages=st.integers(0, 5000),
              swap_pages=st.integers(0, 50),
              page_table_bytes=st.integers(0, 40).map(lambda pages: pages * PAGE),
              oom_score_adj=st.sampled_from([NEVER_KILLED, -998, -997, 0, 3, 700, 968, 1000])),
    min_size=1,
    max_size=6,
)  # fmt: skip


def test_points() -> None:
    """Linux mm/oom_kill.c oom_badness: pages of all kinds, and thousandths of all there are."""
    task = Task(
        pid=1, process="a", rss_pages=300, swap_pages=20, page_table_bytes=2 * PAGE + 1,
        oom_score_adj=-5,
    )  # fmt: skip
    assert points(task, total_pages=16384, page_bytes=PAGE) == 300 + 20 + 2 - 5 * 16


@given(tasks=_tasks, total=st.integers(0, 400_000))
def test_nobody_has_more_points_than_the_one_that_is_chosen(tasks: list[Task], total: int) -> None:
    """And of equals it is the last; nobody is when all are kept from it."""
    found = chosen(tasks, total_pages=total, page_bytes=PAGE)
    reported = [points(task, total_pages=total, page_bytes=PAGE) for task in tasks]
    scores = [score for score in reported if score is not None]
    assert (found is None) == (not scores)
    if found is not None:
        last = max(place for place, score in enumerate(reported) if score == max(scores))
        assert found is tasks[last]
