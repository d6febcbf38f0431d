"""The kinds of what goes wrong, in the order of the harm done to the node and its pods.

A kind's ``rows`` are its occurrences: the page steps through them and a fleet counts them. Put
together by what they have in common they are incidents (``headlines``). Severities:

5. the node takes no pods, or its kubelet does not work as any kubelet would;
4. pods were ended, or never began;
3. containers run with interruptions, or the kubelet cannot do a part of its work;
2. pods waited, or the node was low on something and nobody was evicted;
1. what happened to the kubelet in an orderly way, and what the evidence lacks;
0. what is counted and is no problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kubeledger.analyze.problems import rows, sentences
from kubeledger.analyze.problems.rows import Rows
from kubeledger.analyze.problems.told import Row, Told
from kubeledger.analyze.wording import times_text

Aggregate = Callable[[list[Row]], Any]
"""What rows in the order of their time have in common."""


def _first(name: str) -> Aggregate:
    """The first that is known."""
    return lambda group: next((row[name] for row in group if row[name] is not None), None)


def _lowest(name: str) -> Aggregate:
    """As ``_first``, by the number of the record."""
    return lambda group: _first(name)(_by_seq(group))


def _last(name: str) -> Aggregate:
    return lambda group: _first(name)(_by_seq(group)[::-1])


def _listed(name: str) -> Aggregate:
    """All, by the number of the record."""
    return lambda group: [row[name] for row in _by_seq(group)]


def _by_seq(group: list[Row]) -> list[Row]:
    return sorted(group, key=lambda row: row["seq"])


def _known(name: str) -> Aggregate:
    return lambda group: [row[name] for row in group if row[name] is not None]


def _most(name: str) -> Aggregate:
    return lambda group: max(_known(name)(group), default=None)


def _total(name: str) -> Aggregate:
    return lambda group: sum(known) if (known := _known(name)(group)) else None


def _any(name: str) -> Aggregate:
    return lambda group: any(row[name] for row in group)


class Problem(NamedTuple):
    """A kind of things that go wrong.

    Attributes:
        severity: 5 (the worst) to 0, as above.
        one, many: what one and several of them are called.
        rows: gives the occurrences; None: they are verdicts.
        by: what occurrences of one incident share; ``subject`` is whom it hit.
        text: the sentence, of an incident's row; ``{times}`` is how often.
        more: what else is said of an incident.
        target: what ``kubeledger why`` would be asked, of ``about`` or the subject.
        is_counted: a summary of the import counts it; it reports the others elsewhere.
    """

    kind: str
    severity: int
    one: str
    many: str
    rows: Rows | None
    by: tuple[str, ...]
    text: Callable[[Row], str] | str
    more: Mapping[str, Aggregate] = {}
    target: str | None = None
    is_counted: bool = True

    def together(self, found: Iterable[Row]) -> Iterator[Row]:
        """Occurrences put together by what they share, in the order of their first one."""
        groups: dict[tuple[object, ...], list[Row]] = {}
        for row in sorted(found, key=lambda row: (row["ts_ns"], row["seq"])):
            groups.setdefault(tuple(row[name] for name in self.by), []).append(row)
        for shared, group in groups.items():
            yield {
                **dict(zip(self.by, shared, strict=True)),
                **{name: of(group) for name, of in self.more.items()},
                "count": len(group),
                "ts_ns": group[0]["ts_ns"],
                "seq": group[0]["seq"],
            }

    def sentence(self, row: Row) -> str:
        """What is said of an incident."""
        if isinstance(self.text, str):
            return self.text.format_map({**row, "times": times_text(row["count"])})
        return self.text(row)


_PODS = {"pods": _listed("name"), "about": _lowest("name")}
_LOWEST_POD = {"subject": _lowest("name"), **_PODS, "message": _lowest("message")}
_EPISODES = {
    "subject": _first("name"),
    "pods": lambda group: [row["name"] for row in group],
    "attempts": _total("attempts"),
    **{name: _first(name) for name in ("reason", "message", "about_what")},
    "lasted_ns": _most("lasted_ns"),
}
"""What alike stages of several pods have in common."""

PROBLEMS: tuple[Problem, ...] = (
    Problem(
        "not_ready", 5, "time not ready", "times not ready", rows.not_ready,
        ("subject", "cause"), sentences.not_ready,
        {
            "message": _first("message"), "is_open": _any("is_open"),
            "lasted_ns": _total("lasted_ns"),
        },
        "node",
    ),
    Problem(
        "kubelet_died", 5, "kubelet death", "kubelet deaths", rows.kubelet_deaths,
        ("subject", "exit_seq"), sentences.kubelet_died,
        {"message": _first("message"), "pid": _first("pid")}, "node",
    ),
    Problem(
        "violation", 5, "violation of what always holds", "violations of what always holds",
        rows.violations, ("subject", "message", "bugs"), sentences.violation,
    ),
    Problem(
        "impossible", 5, "impossible decision", "impossible decisions", None, ("subject",),
        sentences.impossible,
    ),
    Problem(
        "preempted", 4, "preempted pod", "preempted pods", rows.preempted,
        ("subject", "preemptor_uid"), sentences.preempted,
        {
            "victims": _listed("victim"), "about": _lowest("name"),
            "missing": lambda group: sorted(set(_known("missing")(group))),
        },
        "pod/{}",
    ),
    Problem(
        "evicted", 4, "evicted pod", "evicted pods", rows.evicted, ("subject", "kind"),
        sentences.evicted, {"late": _total("late"), **_PODS}, "pod/{}",
    ),
    Problem(
        "oom", 4, "OOM kill", "OOM kills", rows.oom_kills, ("subject", "reason", "shared"),
        sentences.oom, {"about": _first("about")}, "container/{}",
    ),
    Problem(
        "out_of_memory", 4, "shortage of memory", "shortages of memory", rows.out_of_memory,
        ("subject", "asked"), sentences.out_of_memory,
    ),
    Problem(
        "stuck", 4, "stuck start", "stuck starts", rows.stuck, ("stage", "cause", "is_ended"),
        sentences.stuck,
        {**_EPISODES, "ran_before": lambda group: all(row["ran"] for row in group)}, "pod/{}",
    ),
    Problem(
        "refused", 4, "refused pod", "refused pods", rows.refused, ("subject",),
        sentences.refused, {**_PODS, "message": _lowest("message")}, "pod/{}",
    ),
    Problem(
        "trouble", 3, "trouble of the node", "troubles of the node", rows.troubles, ("subject",),
        sentences.trouble,
        {
            "message": _first("message"), "attempts": _total("attempts"),
            "lasted_ns": _total("lasted_ns"), "is_open": _any("is_open"),
        },
        "node",
    ),
    Problem(
        "killed", 3, "kill by a probe or hook", "kills by probes or hooks", rows.killed,
        ("subject", "reason"), sentences.killed, {"back_off_s": _first("back_off_s")},
        "container/{}",
    ),
    Problem(
        "crashed", 3, "crashing container", "series of crashes", rows.crashed, ("subject",),
        sentences.crashed,
        {
            "back_off_s": _most("back_off_s"), "attempts": _total("attempts"),
            **{name: _first(name) for name in ("deaths", "exit_code", "reason", "message")},
        },
        "container/{}",
    ),
    Problem(
        "failed", 3, "failed pod", "failed pods", rows.failed, ("codes", "reason"),
        sentences.failed, _LOWEST_POD, "pod/{}",
    ),
    Problem(
        "not_ended", 2, "delayed end", "delayed ends", rows.not_ended, ("stage", "cause"),
        sentences.not_ended, _EPISODES, "pod/{}",
    ),
    Problem(
        "waited", 2, "delayed start", "delayed starts", rows.waited, ("stage", "cause"),
        sentences.waited, _EPISODES, "pod/{}",
    ),
    Problem(
        "gc_failed", 2, "failed image GC run", "failed image GC runs", rows.gc_failed,
        ("subject",), sentences.gc_failed,
        {
            "wanted_bytes": _most("wanted_bytes"), "freed_bytes": _total("freed_bytes"),
            "error": _lowest("error"),
        },
    ),
    Problem(
        "unready", 2, "change to unready", "changes to unready", rows.unready,
        ("subject", "form"), sentences.unready,
        target="container/{}",
    ),
    Problem(
        "resize", 2, "resize that does not fit", "resizes that do not fit", rows.resizes,
        ("outcome", "reason"), sentences.resize, _LOWEST_POD, "pod/{}",
    ),
    Problem(
        "reclaim_failed", 2, "shortage without an eviction", "shortages without an eviction",
        rows.reclaim_failed, ("subject", "outcome"), sentences.reclaim_failed,
        {"ranked": _last("ranked"), "spared": _last("spared")}, "node",
    ),
    Problem(
        "pressure", 2, "condition of pressure", "conditions of pressure", rows.pressure,
        ("subject",), "the node reported {subject}{times}",
        is_counted=False,
    ),
    Problem(
        "reclaimed", 2, "shortage ended by deleting unused images",
        "shortages ended by deleting unused images", rows.reclaimed, ("subject",),
        "the node was low on {subject}{times}; deleting unused images and containers was enough",
        target="node",
    ),
    Problem(
        "spared", 1, "spared pod", "spared pods", rows.spared, ("subject",),
        "{subject} was to be evicted{times} and was spared: it is critical",
        target="pod/{}",
    ),
    Problem(
        "shutdown", 1, "shutdown", "shutdowns", rows.shutdowns, ("subject",), sentences.shutdown,
        {"timed_out": _most("timed_out"), "completed": _any("completed")}, "node",
    ),
    Problem(
        "rebooted", 1, "reboot", "reboots", rows.reboots, ("subject",),
        "the node was rebooted{times}",
        target="node",
    ),
    Problem(
        "kubelet_restarted", 1, "kubelet restart", "kubelet restarts", rows.kubelet_restarts,
        ("subject", "pid", "start_seq"),
        lambda row: "kubelet restarted" + (f" (pid {row['pid']})" if row["pid"] else ""),
        target="node",
    ),
    Problem(
        "log_lost", 1, "log with lines missing", "logs with lines missing", rows.LOG_LOST,
        ("subject",), "lines of the log are missing or cut",
        is_counted=False,
    ),
    Problem(
        "clock_step", 1, "step of the clock", "steps of the clock", rows.CLOCK_STEPS,
        ("subject",), "the clock was set back{times}",
        is_counted=False,
    ),
    Problem(
        "finding", 1, "finding about the sources", "findings about the sources", rows.findings,
        ("subject",), sentences.finding, {"message": _lowest("message")},
        is_counted=False,
    ),
    Problem(
        "not_understood", 1, "shape of lines that are not understood",
        "shapes of lines that are not understood", rows.NOT_UNDERSTOOD, ("subject",),
        sentences.not_understood, {"lines": _total("lines")},
        is_counted=False,
    ),
    Problem(
        "deleted", 0, "deleted image", "deleted images", rows.DELETED, ("subject",),
        lambda row: f"{row['count']} image{'s' if row['count'] > 1 else ''} deleted",
    ),
)  # fmt: skip
"""In the order of headlines and summaries; worst first, and those that did more harm first."""


def occurrences(told: Told, impossible: Iterable[Row] = ()) -> Iterator[tuple[Problem, Row]]:
    """All that went wrong.

    Args:
        impossible: decisions that the kubelet could not have taken, of which ``told`` says nothing.
    """
    for problem in PROBLEMS:
        for row in problem.rows(told) if problem.rows else impossible:
            yield problem, row
