"""What section 4 of the report says of decisions and of the events that report them."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = [
    "DecisionDelivery",
    "Delivery",
    "EventReport",
    "KindDeliveries",
    "Lost",
    "ReasonDeliveries",
]

Delivery = Literal["event", "counted", "never", "no list", "no report"]
"""``event``: it became an event. ``counted``: it did not, but a later repetition that did
carries it in its count. ``never``: the API server's list does not hold it. ``no list``: no
list was imported. ``no report``: no line of the log reports it."""


class DecisionDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """One decision and its event.

    Attributes:
        report_seq: record of its report; None when no line reports it.
        why: one sentence where it did not become an event by its own.
    """

    seq: int
    ts_ns: int
    kind: str
    subject: str
    place: str
    reason: str | None
    report_seq: int | None
    delivery: Delivery
    why: str


class KindDeliveries(msgspec.Struct, kw_only=True):
    """Decisions of one kind.

    Attributes:
        event, counted, never: as in ``Delivery``.
        not_reported: no list was imported, or no line reports it.
        never_sent: no kubelet sends an event about it; ``why`` says what it does instead.
    """

    kind: str
    decisions: int = 0
    event: int = 0
    counted: int = 0
    never: int = 0
    not_reported: int = 0
    never_sent: int = 0
    why: str = ""


class ReasonDeliveries(msgspec.Struct, kw_only=True):
    """Reports with one reason.

    Attributes:
        reported: lines of the log.
        only_api: occurrences that only the API server's list has.
        event, counted, never: what became of the reported.
        dropped: reports that the spam filter dropped, by its rules.
        combined: reports that were sent as one of several similar ones, by its rules.
    """

    reason: str
    reported: int = 0
    only_api: int = 0
    event: int = 0
    counted: int = 0
    never: int = 0
    dropped: int = 0
    combined: int = 0


class Lost(msgspec.Struct, kw_only=True):
    """Reports that never became an event, by cause."""

    why: str
    reports: int = 0


class EventReport(msgspec.Struct, kw_only=True):
    """Section 4.

    Attributes:
        event_list: a list of the API server's events was imported.
        standalone: the kubelet had no API server to send events to; None when not known.
        newest_api_ts_ns: time of the newest report that the list holds.
        event_record_qps, event_burst: settings of the client that sends.
        longest_wait_s: how long that client made an event wait, by its rules; None when
            the settings are not known or there is no limit.
        decisions: what did not become an event by its own, in the order of records.
    """

    event_list: bool
    standalone: bool | None
    newest_api_ts_ns: int | None
    event_record_qps: float | None
    event_burst: int | None
    longest_wait_s: float | None
    kinds: list[KindDeliveries]
    reasons: list[ReasonDeliveries]
    lost: list[Lost]
    decisions: list[DecisionDelivery]
