"""A day again on later days, as a node has it that is emptied each evening.

Its pods and containers are others each day, by their IDs; pods keep their names, as those of a
stateful set do. So nothing is recorded that no node does, such as a container that starts twice.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.tail import Draft
from kubeledger.model.bodies.node import KubeletStarted, SettingsObserved
from kubeledger.model.record import Body
from kubeledger.model.units import NS_PER_S

_DAY_NS: Final = 24 * 3600 * NS_PER_S
_IDS: Final = re.compile(
    rb"(sha256:[0-9a-f]{64})|([0-9a-f]{24,}|[-_][0-9a-f]{4}[-_][0-9a-f]{4})([0-9a-f]{8})(?![0-9a-f])"
)
"""An image stays as it is; of a container ID or UID the last eight digits change."""
_SPREAD: Final = 0x9E3779B1
_YEAR: Final = 2026
_HEADERS: Final = re.compile(rb"^([IWEF])(\d{4}) (\S+) +(\d+) ", re.MULTILINE)
_DATES: Final = re.compile(rb"2026-\d\d-\d\d")
_TIMES_NS: Final = re.compile(rb"(?<!\d)1\d{18}(?!\d)")


def records_of(whole: Ledger, day: int, begin_seq: int) -> Iterator[Draft]:
    """A ledger's records of one node, so many days later, to be appended after a record.

    It is the kubelet of the first day that goes on.
    """
    (node,) = whole.nodes()
    for record in whole.records(node):
        if day and isinstance(record.body, KubeletStarted | SettingsObserved):
            begin_seq -= 1
            continue
        cause = None if record.cause is None else record.cause + begin_seq
        later_ns = record.ts_ns + day * _DAY_NS
        yield Draft(later_ns, _body(record.body, day), record.evidence, cause)


def log_of(log: bytes, day: int) -> bytes:
    """A kubelet's log of 2026, so many days later in that year; it is another process each day."""

    def header(found: re.Match[bytes]) -> bytes:
        date = datetime.strptime(f"{_YEAR}{found[2].decode()}", "%Y%m%d").replace(tzinfo=UTC)
        later = (date + timedelta(days=day)).strftime("%m%d").encode()
        return b"%s%s %s %7d " % (found[1], later, found[3], int(found[4]) + day)

    return _dates(_HEADERS.sub(header, _renamed(log, day)), day)


def _body(body: Body, day: int) -> Body:
    """What it says of times, too, is so much later: else its ticks are all of the first day."""
    encoded = msgspec.json.encode(body)
    other = _dates(_renamed(encoded, day), day)
    other = _TIMES_NS.sub(lambda found: b"%d" % (int(found[0]) + day * _DAY_NS), other)
    return body if other == encoded else msgspec.json.decode(other, type=type(body))


def _dates(text: bytes, day: int) -> bytes:
    def later(found: re.Match[bytes]) -> bytes:
        date = datetime.fromisoformat(found[0].decode()) + timedelta(days=day)
        return date.strftime("%Y-%m-%d").encode()

    return _DATES.sub(later, text) if day else text


def _renamed(text: bytes, day: int) -> bytes:
    turned = day * _SPREAD & 0xFFFFFFFF

    def other(found: re.Match[bytes]) -> bytes:
        return found[1] or b"%s%08x" % (found[2], int(found[3], 16) ^ turned)

    return _IDS.sub(other, text) if day else text
