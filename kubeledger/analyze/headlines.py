"""What went wrong on a node: the timeline's headlines, and an import's summary.

An incident is one thing that went wrong; a headline is several that belong together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from kubeledger.analyze.logged_errors import UNTOLD, ErrorShape, untold
from kubeledger.analyze.sql.shorten import cut
from kubeledger.kubelet.cgroups.paths import is_of_pods
from kubeledger.kubelet.lifecycle.exits import how_it_ended

__all__ = [
    "HEADLINES_MAX",
    "Headline",
    "Incident",
    "bytes_text",
    "counts_on",
    "happened",
    "headlines",
    "in_a_sentence",
    "incidents",
    "missing_text",
    "names_text",
    "shortened",
]

_UNITS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
_NAMES_MAX = 3
_NAMES_SHOWN = 2
_TEXT_MAX = 80
_CAUSE_MIN = 30
"""Less (``no such file or directory``) says nothing without what stands before it."""


def bytes_text(count: int) -> str:
    """Three digits: ``184 GB``, ``9.0 MB``."""
    for size, unit in _UNITS:
        if count >= size:
            value = count / size
            return f"{value:.0f} {unit}" if value >= 99.95 else f"{value:.1f} {unit}"
    return f"{count} B"


def missing_text(insufficient: str) -> str:
    """``cpu=450, memory=1000`` (the views' form) as ``450m cpu, 1.0 kB memory``."""
    return ", ".join(_missing(*each.partition("=")[::2]) for each in insufficient.split(", "))


def _missing(resource: str, amount: str) -> str:
    if not amount.isdecimal():
        return f"{amount} {resource}".strip()
    if resource == "cpu":
        return f"{amount}m cpu"
    if resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-"):
        return f"{bytes_text(int(amount))} {resource}"
    return f"{amount} {resource}"


def names_text(names: Sequence[str]) -> str:
    """Up to three names, of more the first two and how many more; each once."""
    once = list(dict.fromkeys(names))
    if len(once) <= _NAMES_MAX:
        return ", ".join(once)
    return f"{', '.join(once[:_NAMES_SHOWN])} and {len(once) - _NAMES_SHOWN} more"


def shortened(message: str) -> str:
    """The end of a chain of errors, which is their cause, cut where it is long."""
    cause = message.strip().splitlines()[0] if message.strip() else "no message"
    while len(cause) > _TEXT_MAX and len(rest := cause.partition(": ")[2]) >= _CAUSE_MIN:
        cause = rest
    return cut(cause, _TEXT_MAX)


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that went wrong, or several of a kind about one subject.

    Attributes:
        kind: what happened: ``preempted``, ``evicted``, ``oom``, ``killed``, ``refused``,
            ``sandbox_failed``, ``crashed``, ``held_back``, ``unready``, ``gc_failed``, ``deleted``,
            ``kubelet_died``, ``kubelet_restarted``, ``pressure``, ``impossible``, or, of the
            evidence, ``log_lost``, ``clock_step`` and ``finding``; at last ``error``: lines of
            severity W, E or F of one shape, which no other record tells.
        severity: 5 (the worst) to 1; 0: it happened, and is no headline.
        subject: whom it hit, as in ``default/web/app``; what headlines are put together by.
        text: the sentence.
        count: how many records it stands for.
        ts_ns: of the first of them.
        seq: the record that shows it best.
        target: what ``kubeledger why`` would be asked; None: nothing of it.
        late: of the pods that were evicted, those that took longer than the kubelet waited.
    """

    kind: str
    severity: int
    subject: str
    target: str | None
    text: str
    count: int
    ts_ns: int
    seq: int
    late: int = 0


class Headline(msgspec.Struct, frozen=True, kw_only=True):
    """A button of the page: an incident, or several of one kind.

    Attributes:
        kind, severity, text, ts_ns, seq: as of an incident; of several, those of the first one.
    """

    kind: str
    severity: int
    text: str
    ts_ns: int
    seq: int


Row = Mapping[str, Any]


Answers = Callable[[str, Mapping[str, object]], Sequence[Row]]
"""Answers SQL and its parameters with rows by column name."""


def incidents(answer: Answers, node: str, *, verdicts: bool) -> list[Incident]:
    """What went wrong on a node, worst first.

    Args:
        answer: runs a query over the views.
        node: whose.
        verdicts: whether to verify, and report decisions that the kubelet could not have taken.
    """
    found = [
        _incident(kind, severity, text_of, row)
        for kind, severity, query, text_of in _QUERIES
        if verdicts or kind != "impossible"
        for row in answer(query, {"node": node})
    ]
    found.sort(key=lambda each: (-each.severity, -each.count, each.ts_ns, each.seq))
    return [*found, *map(_logged, untold(answer(UNTOLD, {"node": node})))]


def _logged(error: ErrorShape) -> Incident:
    """Lines of one shape; of those about pods the first is what ``why`` would be asked."""
    about = f" ({_pods(error.pods)})" if error.pods else ""
    shape = cut(error.shape, _TEXT_MAX)
    return Incident(
        kind="error",
        severity=1,
        subject=error.source,
        target=f"pod/{error.pods[0]}" if error.pods else None,
        text=f"{error.count} × {error.severity} {error.source} {shape}{about}",
        count=error.count,
        ts_ns=error.ts_ns,
        seq=error.seq,
    )


def _incident(kind: str, severity: int, text_of: Callable[[Row], str], row: Row) -> Incident:
    return Incident(
        kind=kind,
        severity=severity,
        subject=row["subject"],
        target=_target(kind, row),
        text=text_of(row),
        count=row["count"],
        ts_ns=row["ts_ns"],
        seq=row["seq"],
        late=row.get("late", 0),
    )


def _target(kind: str, row: Row) -> str | None:
    """What ``kubeledger why`` would be asked about it."""
    form = _TARGETS.get(kind)
    about = row.get("about") or row["subject"]
    if form is None or not about or (form == "container/{}" and about.count("/") != _CONTAINERS):
        return None
    return form.format(about)


def _times(row: Row) -> str:
    return f" {row['count']}×" if row["count"] > 1 else ""


def _limit_of(row: Row) -> str:
    if is_of_pods(row["shared"]):
        return ": all pods together had reached their limit"
    words = {"pod_limit": " at its pod's limit", "node": ": the node was out of memory"}
    return words.get(row["reason"], "")


def _back_off(row: Row) -> str:
    return f", back-off {row['back_off_s']} s" if row["back_off_s"] else ""


def _preempted(row: Row) -> str:
    missing = missing_text(", ".join(row["missing"])) if row["missing"] else ""
    short = f" ({missing} missing)" if missing else ""
    return f"{row['subject'] or 'an unknown pod'} preempted {names_text(row['victims'])}{short}"


def _evicted(row: Row) -> str:
    cause = "its storage limit" if row["kind"] == "local_storage" else row["subject"]
    kind = f" ({row['kind']})" if row["kind"] in {"hard", "soft", "allocatable"} else ""
    known = cause != "signal not recorded"
    return f"{_pods(row['pods'])} evicted{' for' if known else ','} {cause}{kind}"


def _pods(names: Sequence[str]) -> str:
    """The pod's whole name, or how many and the first ones' bare names."""
    once = list(dict.fromkeys(names))
    if len(once) == 1:
        return once[0]
    bare = names_text([name.rpartition("/")[2] for name in once])
    return bare if len(once) == 2 else f"{len(once)} pods ({bare})"


def _gc_failed(row: Row) -> str:
    if row["wanted_bytes"]:
        freed = f", freed {bytes_text(row['freed_bytes'])}" if row["freed_bytes"] else ""
        amounts = f": wanted {bytes_text(row['wanted_bytes'])}{freed}"
        return f"image GC failed{_times(row)}{amounts}"
    return f"image GC failed{_times(row)}: {shortened(row['error'] or '')}"


def _kubelet_died(row: Row) -> str:
    pid = f" (pid {row['pid']})" if row["pid"] else ""
    return f"kubelet{pid} died: {shortened(row['exit_message'] or '')}"


def _finding(row: Row) -> str:
    words = row["subject"].replace("_", " ")
    return f"{words}{_times(row)}: {shortened(row['message'])}"


_TARGETS = {
    "kubelet_died": "node",
    "preempted": "pod/{}",
    "evicted": "pod/{}",
    "oom": "container/{}",
    "killed": "container/{}",
    "refused": "pod/{}",
    "sandbox_failed": "pod/{}",
    "crashed": "container/{}",
    "held_back": "container/{}",
    "unready": "container/{}",
    "kubelet_restarted": "node",
}
"""Kind -> what ``kubeledger why`` is asked, of the subject or of what the row says it is about."""

_CONTAINERS = 2
"""Slashes in a container's whole name; the kernel's report of a kill may show its process alone."""

_WORDS = {
    "liveness_probe": "liveness probe",
    "startup_probe": "startup probe",
    "post_start_hook": "post-start hook's failure",
}

_BACK_OFFS = """
LEFT JOIN (
    SELECT pod_uid, container, max(back_off_s) AS back_off_s
    FROM restart_backoffs WHERE node = $node GROUP BY ALL
) USING (pod_uid, container)"""

_QUERIES: tuple[tuple[str, int, str, Callable[[Row], str]], ...] = (
    # First the question that needs most: what is loaded for it answers the others, too.
    (
        "log_lost",
        1,
        """SELECT 'log' AS subject, count(*) AS count, min(ts_ns) AS ts_ns, min(seq) AS seq
        FROM events WHERE node = $node AND kind = 'node.LogThinned' HAVING count(*) > 0""",
        lambda _: "lines of the log are missing or cut",
    ),
    (
        "clock_step",
        1,
        """SELECT 'clock' AS subject, count(*) AS count, min(ts_ns) AS ts_ns, min(seq) AS seq
        FROM events WHERE node = $node AND kind = 'node.ClockStepped' HAVING count(*) > 0""",
        lambda row: f"the clock was set back{_times(row)}",
    ),
    (
        "kubelet_died",
        5,
        """SELECT 'kubelet' AS subject, 1 AS count, exit_message, pid, seq,
            epoch_ns(coalesce(exited_ts, ts)) AS ts_ns
        FROM kubelet_starts
        WHERE node = $node AND exit_reason IS NOT NULL AND exit_reason <> 'stopped'""",
        _kubelet_died,
    ),
    (
        "impossible",
        5,
        """SELECT kind AS subject, count(*) AS count, min(epoch_ns(ts)) AS ts_ns,
            min(seq) AS seq
        FROM verdicts WHERE node = $node AND verdict = 'impossible' GROUP BY kind""",
        lambda row: (
            f"{row['subject']}: {row['count']} decisions that this kubelet could not have taken"
            if row["count"] > 1
            else f"{row['subject']}: a decision that this kubelet could not have taken"
        ),
    ),
    (
        "preempted",
        4,
        """SELECT preemptor_namespace || '/' || preemptor_pod AS subject, count(*) AS count,
            list(victim_pod ORDER BY seq) AS victims,
            arg_min(victim_namespace || '/' || victim_pod, seq) AS about,
            min(epoch_ns(ts)) AS ts_ns, min(seq) AS seq,
            list_sort(list_distinct(list(insufficient))) AS missing
        FROM preemptions WHERE node = $node GROUP BY preemptor_uid, subject""",
        _preempted,
    ),
    (
        "evicted",
        4,
        # A pod counts once, and also if the manager did not wait for its end: it had failed then.
        """SELECT coalesce(signal, resource, 'signal not recorded') AS subject, kind,
            count(*) AS count, count(*) FILTER (late) AS late,
            list(name ORDER BY seq) AS pods, arg_min(name, seq) AS about,
            min(epoch_ns(ts)) AS ts_ns, min(seq) AS seq
        FROM (
            SELECT *, namespace || '/' || pod AS name,
                bool_and(NOT coalesce(evicted, true)) OVER its AS late,
                row_number() OVER (its ORDER BY seq) AS attempt
            FROM evictions WHERE node = $node
            WINDOW its AS (PARTITION BY coalesce(pod_uid, namespace || '/' || pod))
        ) WHERE attempt = 1 GROUP BY ALL""",
        _evicted,
    ),
    (
        "oom",
        4,
        """SELECT coalesce(nullif(concat_ws('/', namespace, pod, container), ''), process, cgroup)
                AS subject,
            reason, if(reason IS NULL, cgroup, NULL) AS shared,
            count(*) AS count, min(epoch_ns(ts)) AS ts_ns, min(seq) AS seq
        FROM oom_kills WHERE node = $node GROUP BY ALL""",
        lambda row: f"{row['subject']} OOM-killed{_times(row)}" + _limit_of(row),
    ),
    (
        "killed",
        3,
        f"""SELECT concat_ws('/', namespace, pod, container) AS subject, reason,
            count(*) AS count, any_value(back_off_s) AS back_off_s,
            min(epoch_ns(ts)) AS ts_ns, min(seq) AS seq
        FROM container_kills {_BACK_OFFS}
        WHERE node = $node AND reason IN ('liveness_probe', 'startup_probe', 'post_start_hook')
        GROUP BY ALL""",
        lambda row: (
            f"{row['subject']} killed{_times(row)} by its {_WORDS[row['reason']]}{_back_off(row)}"
        ),
    ),
    (
        "refused",
        3,
        """SELECT coalesce(reason, 'reason not recorded') AS subject, count(*) AS count,
            list(concat_ws('/', namespace, pod) ORDER BY seq) AS pods,
            arg_min(concat_ws('/', namespace, pod), seq) AS about,
            min(epoch_ns(ts)) AS ts_ns, min(seq) AS seq
        FROM admissions WHERE node = $node AND NOT admitted GROUP BY ALL""",
        lambda row: f"{_pods(row['pods'])} rejected: {row['subject']}",
    ),
    (
        "gc_failed",
        2,
        """SELECT 'image GC' AS subject, count(*) AS count, max(bytes_to_free) AS wanted_bytes,
            sum(bytes_freed) AS freed_bytes, any_value(error) AS error,
            min(epoch_ns(ts)) AS ts_ns, arg_max(seq, coalesce(bytes_to_free, 0)) AS seq
        FROM image_gc_runs WHERE node = $node AND outcome = 'failed' HAVING count(*) > 0""",
        _gc_failed,
    ),
    (
        "sandbox_failed",
        2,
        """SELECT 'sandboxes' AS subject, sum(count)::BIGINT AS count,
            arg_min(message, seq) AS message,
            list(concat_ws('/', namespace, name) ORDER BY seq) AS pods,
            arg_min(concat_ws('/', namespace, name), seq) AS about,
            min(epoch_ns(ts)) AS ts_ns, min(seq) AS seq
        FROM kubernetes_events WHERE node = $node AND reason = 'FailedCreatePodSandBox'
        HAVING count(*) > 0""",
        lambda row: (
            f"{_pods(row['pods'])} got no sandbox{_times(row)}: {shortened(row['message'] or '')}"
        ),
    ),
    (
        "crashed",
        2,
        f"""SELECT concat_ws('/', namespace, pod, container) AS subject, exit_code,
            count(*) AS count, any_value(back_off_s) AS back_off_s,
            min(epoch_ns(ts)) AS ts_ns, min(seq) AS seq
        FROM container_states {_BACK_OFFS}
        WHERE node = $node AND state = 'died' AND exit_code <> 0 AND cause_seq IS NULL
            AND NOT coalesce(sandbox, false) AND container IS NOT NULL
        GROUP BY ALL""",
        lambda row: (
            f"{row['subject']} {how_it_ended(row['exit_code'], _times(row))}{_back_off(row)}"
        ),
    ),
    (
        "held_back",
        2,
        """SELECT concat_ws('/', b.namespace, b.pod, b.container) AS subject, count(*) AS count,
            max(back_off_s) AS back_off_s, min(epoch_ns(b.ts)) AS ts_ns, min(b.seq) AS seq
        FROM restart_backoffs b
        WHERE b.node = $node AND NOT EXISTS (
            FROM container_states s WHERE s.node = b.node AND s.state = 'died'
                AND s.pod_uid = b.pod_uid AND s.container = b.container)
        GROUP BY ALL""",
        lambda row: (
            f"{row['subject']} kept failing: its restart was put off{_times(row)}"
            + (f", at last for {row['back_off_s']} s" if row["back_off_s"] else "")
        ),
    ),
    (
        "unready",
        2,
        """SELECT concat_ws('/', namespace, pod, container) AS subject, count(*) AS count,
            min(epoch_ns(ts)) AS ts_ns, min(seq) AS seq
        FROM probe_transitions
        WHERE node = $node AND probe_type = 'readiness' AND to_result = 'failure'
            AND from_result = 'success'
        GROUP BY ALL""",
        lambda row: f"{row['subject']} went unready{_times(row)}",
    ),
    (
        "kubelet_restarted",
        1,
        """SELECT 'kubelet' AS subject, 1 AS count, pid, epoch_ns(ts) AS ts_ns, seq
        FROM kubelet_starts WHERE node = $node AND restart""",
        lambda row: "kubelet restarted" + (f" (pid {row['pid']})" if row["pid"] else ""),
    ),
    (
        "pressure",
        2,
        """SELECT subject, count(*) AS count, min(epoch_ns(ts)) AS ts_ns, min(seq) AS seq
        FROM (
            SELECT ts, seq, unnest(list_filter(conditions, lambda condition:
                NOT list_contains(coalesce(before, []), condition))) AS subject
            FROM (
                SELECT ts, seq, conditions, lag(conditions) OVER (ORDER BY seq) AS before
                FROM pressure_conditions WHERE node = $node
            )
        ) GROUP BY subject""",
        lambda row: f"the node reported {row['subject']}{_times(row)}",
    ),
    (
        "finding",
        1,
        """SELECT finding AS subject, count(*) AS count, arg_min(message, seq) AS message,
            min(epoch_ns(ts)) AS ts_ns, min(seq) AS seq
        FROM findings WHERE node = $node AND NOT starts_with(finding, 'clock_') GROUP BY ALL""",
        _finding,
    ),
    (
        "deleted",
        0,
        """SELECT 'images' AS subject, count(*) AS count,
            min(epoch_ns(ts)) AS ts_ns, min(seq) AS seq
        FROM image_gc_deletions WHERE node = $node HAVING count(*) > 0""",
        lambda row: f"{row['count']} image{'s' if row['count'] > 1 else ''} deleted",
    ),
)


HEADLINES_MAX = 8
_SINGLE_MAX = 2
"""Of a kind with more incidents than this, all but the first are summed up."""
_ERRORS_MAX = 3
"""Shapes of errors that are headlines."""

_COUNTED = {
    "kubelet_died": ("kubelet death", "kubelet deaths"),
    "impossible": ("impossible decision", "impossible decisions"),
    "preempted": ("preempted", "preempted"),
    "evicted": ("evicted", "evicted"),
    "oom": ("OOM kill", "OOM kills"),
    "killed": ("killed by probes or hooks", "killed by probes or hooks"),
    "refused": ("refused", "refused"),
    "gc_failed": ("image GC run failed", "image GC runs failed"),
    "sandbox_failed": ("sandbox failed", "sandboxes failed"),
    "crashed": ("crash", "crashes"),
    "held_back": ("restart put off", "restarts put off"),
    "unready": ("change to unready", "changes to unready"),
    "kubelet_restarted": ("kubelet restart", "kubelet restarts"),
    "deleted": ("image deleted", "images deleted"),
}
"""Kinds that a summary counts, in its order."""
_OTHERS = {
    "pressure": ("condition of pressure", "conditions of pressure"),
    "log_lost": ("log with lines missing", "logs with lines missing"),
    "clock_step": ("step of the clock", "steps of the clock"),
    "finding": ("finding about the sources", "findings about the sources"),
}
"""What an import reports elsewhere."""
_ERROR_LINES = ("line of warnings and errors", "lines of warnings and errors")


def happened(found: Iterable[Incident]) -> str:
    """``1 preempted, 3 refused, 5 images deleted``; empty when nothing went wrong."""
    counts: Counter[str] = Counter()
    late = 0
    for each in found:
        counts[each.kind] += each.count
        late += each.late
    aside = {"evicted": f" ({late:,} took longer than the kubelet waited)" if late else ""}
    return ", ".join(
        f"{counts[kind]:,} {one if counts[kind] == 1 else many}{aside.get(kind, '')}"
        for kind, (one, many) in _COUNTED.items()
        if counts[kind]
    )


def in_a_sentence(found: Iterable[Incident]) -> str:
    """What ``happened``, and the errors that no record tells; or that nothing went wrong."""
    return _told(found) or "nothing that went wrong was recorded"


def _told(found: Iterable[Incident]) -> str:
    found = list(found)
    decided, errors = happened(found), [each for each in found if each.kind == "error"]
    if not errors:
        return decided
    lines = sum(each.count for each in errors)
    logged = f"{lines:,} {_ERROR_LINES[lines > 1]} of {_shapes(len(errors))}"
    if decided:
        return f"{decided}; besides, {logged}"
    examples = ", ".join(each.text for each in errors[:_ERRORS_MAX])
    return f"no decision that went wrong was recorded, but {logged}: {examples}"


def _shapes(count: int) -> str:
    return f"{count:,} shape{'s' if count > 1 else ''}"


def counts_on(answer: Answers, node: str) -> str:
    """What an import says of a node of a ledger; empty when nothing went wrong.

    Args:
        answer: runs a query over the views.
        node: whose.
    """
    return _told(incidents(answer, node, verdicts=False))


def headlines(found: Sequence[Incident]) -> list[Headline]:
    """At most ``HEADLINES_MAX`` headlines, worst first.

    Args:
        found: incidents, worst first.
    """
    made = [
        headline
        for _, group in groupby(sorted(filter(_severity, found), key=_kind), _kind)
        for headline in _of_kind(list(group))
    ]
    made.sort(key=lambda each: -each.severity)
    return made[:HEADLINES_MAX]


def _severity(incident: Incident) -> int:
    return incident.severity


def _kind(incident: Incident) -> tuple[int, str]:
    return (-incident.severity, incident.kind)


def _of_kind(group: list[Incident]) -> list[Headline]:
    if group[0].kind == "error":
        return _of_errors(group)
    if len(group) <= _SINGLE_MAX:
        return [_headline(each, each.text) for each in group]
    one, many = {**_COUNTED, **_OTHERS}[group[0].kind]
    first, rest = group[0], group[1:]
    count = sum(each.count for each in rest)
    names = list(dict.fromkeys(each.subject for each in rest))
    others = f" and {len(names) - 2} more" if len(names) > 2 else ""
    about = "" if names == one.split()[:1] else f": {', '.join(names[:2])}{others}"
    text = f"{count:,} more {one if count == 1 else many}{about}"
    return [_headline(first, first.text), _headline(rest[0], text)]


def _of_errors(group: list[Incident]) -> list[Headline]:
    shown, rest = group[:_ERRORS_MAX], group[_ERRORS_MAX:]
    made = [_headline(each, each.text) for each in shown]
    if rest:
        lines = sum(each.count for each in rest)
        text = f"{lines:,} more {_ERROR_LINES[lines > 1]} of {_shapes(len(rest))}"
        made.append(_headline(rest[0], text))
    return made


def _headline(incident: Incident, text: str) -> Headline:
    return Headline(
        kind=incident.kind,
        severity=incident.severity,
        text=text,
        ts_ns=incident.ts_ns,
        seq=incident.seq,
    )
