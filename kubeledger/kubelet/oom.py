"""Which process the kernel's OOM killer takes.

The kernel gives each process points, in pages, and kills the one with the most:

    rss + swap + page tables + oom_score_adj * (thousandths of all pages)

*All pages* are those of the cgroup's limit (and the swap it may use), or of the node's RAM and
swap. Where all processes have the same adjustment they do not matter.

Source: Linux 6.12 mm/oom_kill.c oom_badness, oom_evaluate_task, dump_header.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubeledger.model.bodies.eviction import Task

NEVER_KILLED: Final = -1000
"""The adjustment of a process that is never chosen (OOM_SCORE_ADJ_MIN)."""
_CHARGED: Final = 64
"""Pages that a processor charges to a cgroup beforehand (MEMCG_CHARGE_BATCH)."""
_SHARE: Final = 20


def race_pages(pages: int) -> int:
    """Pages that a process with so many may get or give back while the report is written.

    The table is printed after the choice, the last line after the kill, on a slow console
    seconds later; other threads run on meanwhile, on what is charged already or was freed.
    No rule bounds it: a twentieth is taken, which also covers the 3 % that Linux before 4.17
    took off for privileged processes.
    """
    return max(_CHARGED, pages // _SHARE)


def own_pages(task: Task, page_bytes: int) -> int:
    """Pages that a process would give back."""
    return task.rss_pages + task.swap_pages + task.page_table_bytes // page_bytes


def points(task: Task, *, total_pages: int, page_bytes: int) -> int | None:
    """Points of a process; None for one that is never killed.

    Args:
        total_pages: that the adjustment is a share of.

    Source: Linux 6.12 mm/oom_kill.c oom_badness
    """
    if task.oom_score_adj == NEVER_KILLED:
        return None
    return own_pages(task, page_bytes) + task.oom_score_adj * (total_pages // 1000)


def chosen(tasks: Sequence[Task], *, total_pages: int, page_bytes: int) -> Task | None:
    """What the kernel kills: most points, of equals the last; None when it can kill none.

    Source: Linux 6.12 mm/oom_kill.c oom_evaluate_task
    """
    found, most = None, 0
    for task in tasks:
        score = points(task, total_pages=total_pages, page_bytes=page_bytes)
        if score is not None and (found is None or score >= most):
            found, most = task, score
    return found
