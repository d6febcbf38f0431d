"""Which decisions became events of the API server, and why others did not."""

import msgspec
import pytest

from kubeledger.analyze.completeness.events import EVENT_REASONS, NO_EVENT
from kubeledger.model.bodies.images import GarbageCollected
from kubeledger.model.bodies.lifecycle import ContainerKilled, PodRejected
from kubeledger.model.record import Record
from kubeledger.model.wire.catalogue import BODY_TYPES
from tests.analyze.completeness.worlds import (
    FLAG_LINE,
    POD,
    event,
    imported,
    report,
    settings,
    started,
    with_text,
)
from tests.verify.histories import scene

KILL = ContainerKilled(
    **POD, container="app", container_id="c1", reason=None, message=None, grace_period_s=30
)
LISTED = imported(("kubelet.log", "klog-text"), ("events.json", "events"))


def joined(records: list[Record], decision: int, reported: int) -> list[Record]:
    """The decision rests on the line of the report, too; both by their place in the list."""
    records = list(records)
    evidence = (*records[decision].evidence, records[reported].evidence[0])
    records[decision] = msgspec.structs.replace(records[decision], evidence=evidence)
    return records


def kill_after(events: int, *, api: int | None, flags: bool = True) -> list[Record]:
    """A kill whose report comes after so many events about the same pod."""
    others = [(1.0, event("Pulled", api=1))] * events
    records = scene((0, LISTED), (0, started()), *others, (2, KILL), (2, event(api=api)))
    if flags:
        records[1] = with_text(records[1], FLAG_LINE)
    return joined(records, -2, -1)


def test_every_kind_of_decision_is_an_event_or_not() -> None:
    decisions = {body.kind for body in BODY_TYPES.values() if body.role == "decision"}
    named = EVENT_REASONS.keys() | NO_EVENT.keys()
    assert decisions == named, (
        "in analyze/completeness/events.py, a decision that the kubelet sends an event about "
        "stands in EVENT_REASONS, any other in NO_EVENT with what the kubelet does instead; "
        f"not there: {sorted(decisions - named)}; no decisions: {sorted(named - decisions)}"
    )
    assert not EVENT_REASONS.keys() & NO_EVENT.keys()


def test_a_decision_becomes_an_event() -> None:
    events = report(kill_after(0, api=1)).events
    assert [(k.kind, k.event, k.never) for k in events.kinds] == [(KILL.kind, 1, 0)]
    assert events.decisions == []


def test_a_decision_that_the_spam_filter_dropped() -> None:
    (delivery,) = report(kill_after(25, api=None)).events.decisions
    assert (delivery.delivery, delivery.reason, delivery.subject) == (
        "never",
        "Killing",
        "container/shop/web/app",
    )
    assert "event 26 about pod shop/web, of which 25 had passed" in delivery.why


def test_a_dropped_report_that_a_later_one_counts() -> None:
    (delivery,) = report(kill_after(25, api=3)).events.decisions
    assert delivery.delivery == "counted"


def test_a_report_later_than_the_list() -> None:
    (delivery,) = report(kill_after(3, api=None)).events.decisions
    assert "later than the newest event of the list" in delivery.why


@pytest.mark.parametrize(
    ("flags", "words"), [(True, "passed the kubelet's spam filter"), (False, "log begins while")]
)
def test_a_report_that_nothing_explains(flags: bool, words: str) -> None:
    records = kill_after(3, api=None, flags=flags)
    later = scene((0, event("Pulled", api=1)), start_s=1_010)[0]
    records.append(msgspec.structs.replace(later, seq=99))
    (delivery,) = report(records).events.decisions
    assert words in delivery.why


def test_a_report_that_was_too_old_for_the_list() -> None:
    records = kill_after(3, api=None)
    later = scene((0, event("Pulled", api=1)), start_s=10_000)[0]
    records.append(msgspec.structs.replace(later, seq=99))
    (delivery,) = report(records).events.decisions
    assert "older than an hour" in delivery.why


def test_without_a_list_nothing_is_known() -> None:
    records = joined(scene((0, started()), (1, KILL), (1, event())), 1, 2)
    events = report(records).events
    assert not events.event_list
    assert [(f.delivery, f.why) for f in events.decisions] == [
        ("no list", "no list of the API server's events was imported")
    ]


def test_a_kubelet_without_an_api_server() -> None:
    steps = scene((0, started()), (0, settings(kubeconfig="")), (1, KILL), (1, event()))
    events = report(joined(steps, 2, 3)).events
    assert events.standalone is True
    assert "no API server" in events.decisions[0].why


def test_a_decision_that_no_line_reports() -> None:
    """Below verbosity 3 the log has no events."""
    (delivery,) = report(scene((0, LISTED), (0, started()), (1, KILL))).events.decisions
    assert (delivery.delivery, delivery.report_seq) == ("no report", None)


def test_a_rejection_is_reported_by_its_own_reason() -> None:
    rejected = PodRejected(**POD, reason="OutOfcpu", message="m")
    records = scene((0, LISTED), (0, started()), (1, rejected), (1, event("OutOfcpu", api=1)))
    assert report(joined(records, 2, 3)).events.decisions == []
    records = scene((0, LISTED), (0, started()), (1, rejected), (1, event("Killing", api=1)))
    assert report(joined(records, 2, 3)).events.decisions[0].delivery == "no report"


def test_a_collection_that_did_not_fail_is_never_sent() -> None:
    (kind,) = report(scene((0, GarbageCollected(outcome="freed")))).events.kinds
    assert (kind.never_sent, kind.not_reported) == (1, 0)


def test_what_only_the_list_shows_is_counted_apart() -> None:
    (record,) = scene((0, event(api=4, count=4)))
    (alone,) = scene((0, event(api=4, count=4)))
    alone = msgspec.structs.replace(
        record, evidence=(msgspec.structs.replace(record.evidence[0], line=None),)
    )
    (reason,) = report([alone]).events.reasons
    assert (reason.only_api, reason.reported) == (4, 0)


def test_the_rate_limit_only_delays() -> None:
    """Thirty events of thirty pods at once, 5 a second, 10 at once: the last waits 4 s."""
    many = [(1.0, event(pod_uid=f"u{n}")) for n in range(30)]
    limits = settings(eventRecordQPS=5, eventBurst=10)
    events = report(scene((0, started()), (0, limits), *many)).events
    assert events.longest_wait_s == 4.0
