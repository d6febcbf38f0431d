"""How the truth is degraded, record by record: what a log and the files beside it may lack.

A record of a simulated node stands for a line of the kubelet's log, or for what a file beside
it tells (``truths.source_of``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

import msgspec

from kubeledger.model.bodies.ledger import ImportCompleted
from kubeledger.model.bodies.lifecycle import ContainerRestarted, PodListed
from kubeledger.model.bodies.node import KubeletStarted, SettingsObserved
from kubeledger.model.record import Record
from tests.verify.properties.lost_lines import thinned
from tests.verify.properties.reimported import numbered, reimported
from tests.verify.properties.truths import Source, Truth, source_of

Degrade = Callable[[Truth, Random], list[Record]]
_WITHOUT_LINE = (ContainerRestarted, KubeletStarted)
_LINES: tuple[Source, ...] = ("log", "events")


def _is_line(record: Record) -> bool:
    """A restart has no line: it is told by the start of a container (``reimported``)."""
    return source_of(record) in _LINES and not isinstance(record.body, _WITHOUT_LINE)


def _finish(truth: Truth, left: Iterable[Record]) -> list[Record]:
    return numbered(reimported(truth.records, left))


def drop(percent: float) -> Degrade:
    """Single lines are lost all over the log."""

    def change(truth: Truth, random: Random) -> list[Record]:
        left = [
            record
            for record in truth.records
            if not _is_line(record) or random.random() * 100 >= percent
        ]
        reported = reimported(truth.records, left)
        return numbered(
            thinned(truth.records, reported, lambda _: random.random() * 100 >= percent)
        )

    return change


def one_line(truth: Truth, random: Random) -> list[Record]:
    """A single line is lost, and nothing shows it."""
    gone = random.choice([record for record in truth.records if _is_line(record)])
    return _finish(truth, (record for record in truth.records if record is not gone))


def no_statuses(truth: Truth, random: Random) -> list[Record]:
    """Lists show no more of a status than its phase."""
    return [
        msgspec.structs.replace(record, body=msgspec.structs.replace(record.body, status=phase))
        if isinstance(record.body, PodListed)
        and (phase := {k: v for k, v in (record.body.status or {}).items() if k == "phase"})
        else record
        for record in truth.records
    ]


def one_pod(truth: Truth, random: Random) -> list[Record]:
    """All lines about one pod are lost."""
    uids = sorted({uid for record in truth.records if (uid := _uid(record))})
    if not uids:
        return list(truth.records)
    gone = random.choice(uids)
    return _finish(truth, (r for r in truth.records if not _is_line(r) or _uid(r) != gone))


def one_container(truth: Truth, random: Random) -> list[Record]:
    """All lines that name one container instance are lost."""
    ids = sorted({i for r in truth.records if (i := getattr(r.body, "container_id", None))})
    if not ids:
        return list(truth.records)
    gone = random.choice(ids)
    return _finish(
        truth,
        (
            r
            for r in truth.records
            if not _is_line(r) or getattr(r.body, "container_id", None) != gone
        ),
    )


def short_ids(truth: Truth, random: Random) -> list[Record]:
    """Lines have the first twelve digits of a container's ID."""
    return [
        msgspec.structs.replace(record, body=msgspec.structs.replace(record.body, **short))
        if source_of(record) in _LINES
        and (
            short := {
                name: found[:12]
                for name in ("container_id", "previous_container_id")
                if (found := getattr(record.body, name, None))
            }
        )
        else record
        for record in truth.records
    ]


def _uid(record: Record) -> str | None:
    uid = getattr(record.body, "pod_uid", None)
    return uid if isinstance(uid, str) else None


def head(truth: Truth, random: Random) -> list[Record]:
    """The log begins in the middle; what lies beside it may be older."""
    first = random.randrange(1, max(2, len(truth.records) * 3 // 4))
    return _after(truth, first, settings=random.random() < 0.5)


def from_a_start(truth: Truth, random: Random) -> list[Record]:
    """The log begins exactly where a kubelet starts."""
    starts = [i for i, r in enumerate(truth.records) if isinstance(r.body, KubeletStarted)]
    return _after(truth, random.choice(starts), settings=True)


def _after(truth: Truth, first: int, *, settings: bool) -> list[Record]:
    records = truth.records
    started = max(i for i in (0, *range(first + 1)) if isinstance(records[i].body, KubeletStarted))
    process = records[started]
    whole = first == started
    left: list[Record] = []
    for i, record in enumerate(records):
        if i == first and not whole:
            body = msgspec.structs.replace(process.body, from_start=False, restart=False)
            left.append(msgspec.structs.replace(process, ts_ns=record.ts_ns, body=body))
            reported = [r for r in records[started:first] if isinstance(r.body, SettingsObserved)]
            left += [msgspec.structs.replace(r, ts_ns=record.ts_ns) for r in reported if settings]
        if i >= first or source_of(record) in ("lists", "node", "statistics", "checkpoints"):
            left.append(record)
    kept = [record for record in left if record.seq != process.seq or record.body is process.body]
    begin = [record for record in left if record.seq == process.seq and record not in kept]
    done = reimported(records, kept)
    if begin:
        at = next((i for i, r in enumerate(done) if r.ts_ns >= begin[0].ts_ns), len(done))
        done[at:at] = begin
    return numbered(done)


def tail(truth: Truth, random: Random) -> list[Record]:
    """The log ends early, and so does all beside it."""
    end = random.randrange(len(truth.records) // 4, len(truth.records)) + 1
    return _finish(truth, truth.records[:end])


def log_ends(truth: Truth, random: Random) -> list[Record]:
    """The log ends early; files beside it are younger."""
    end = random.randrange(len(truth.records) // 4, len(truth.records)) + 1
    younger = (
        record
        for record in truth.records[end:]
        if not _is_line(record) and not isinstance(record.body, KubeletStarted)
    )
    return _finish(truth, (*truth.records[:end], *younger))


def without(*sources: Source) -> Degrade:
    """Nothing of some sources was collected."""

    def change(truth: Truth, random: Random) -> list[Record]:
        return _finish(truth, (r for r in truth.records if source_of(r) not in sources))

    return change


def some_sources(truth: Truth, random: Random) -> list[Record]:
    """Any sources but the log were not collected."""
    sources = sorted({source_of(record) for record in truth.records} - {"log", "ledger"})
    gone = {source for source in sources if random.random() < 0.5}
    return _finish(truth, (r for r in truth.records if source_of(r) not in gone))


def _imported(truth: Truth, left: Iterable[Record]) -> list[Record]:
    """As an import tells it: the log that it read may have been filtered."""
    records = _finish(truth, left)
    read = ImportCompleted(digest="00" * 32, accounts=())
    last = records[-1] if records else truth.records[0]
    done = msgspec.structs.replace(
        last, kind=read.kind, v=read.v, role=read.role, cause=None, evidence=(), body=read
    )
    return numbered([*records, done])


def filtered(most: int, *, rest: bool = False) -> Degrade:
    """Only lines of a few kinds are there, or only the others."""

    def change(truth: Truth, random: Random) -> list[Record]:
        kinds = sorted({record.kind for record in truth.records if _is_line(record)})
        chosen = set(random.sample(kinds, min(len(kinds), random.randint(1, most))))
        return _imported(
            truth, (r for r in truth.records if not _is_line(r) or (r.kind in chosen) is not rest)
        )

    return change


def whole(truth: Truth, random: Random) -> list[Record]:
    """Nothing is lost."""
    return list(truth.records)


LOSSES: dict[str, Degrade] = {
    "whole": whole,
    "drop1": drop(1),
    "drop10": drop(10),
    "drop30": drop(30),
    "line": one_line,
    "pod": one_pod,
    "container": one_container,
    "no-statuses": no_statuses,
    "short-ids": short_ids,
    "head": head,
    "start": from_a_start,
    "tail": tail,
    "log-ends": log_ends,
    "no-lists": without("lists"),
    "no-settings": without("settings"),
    "log-only": without(
        "lists", "settings", "node", "statistics", "metrics", "checkpoints", "cgroups"
    ),
    "sources": some_sources,
    "only-kinds": filtered(6),
    "not-kinds": filtered(4, rest=True),
}
"""Name of a way to lose evidence -> how; the same ``Random`` gives the same records."""
