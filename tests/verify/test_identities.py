"""When nothing that two sources say of a node's pods can be compared."""

from __future__ import annotations

import pytest

from kubeledger.verify.evidence.history_entries import HistoryEntry, Listing
from kubeledger.verify.evidence.identities import are_unjoined

_SHOWN = Listing("kubelet", True, False, (), None, False, None)

Said = tuple[str, str | None, HistoryEntry]


def told(pod: str, uid: str | None, container: str | None, container_id: str | None) -> Said:
    """A line tells that a container was started."""
    return pod, uid, HistoryEntry(1, 1, "started", container=container, container_id=container_id)


def listed(pod: str, uid: str) -> Said:
    """A list shows the pod."""
    return pod, uid, HistoryEntry(2, 2, "listed", listing=_SHOWN)


def added(pod: str, uid: str) -> Said:
    """A config source tells of the pod."""
    return pod, uid, HistoryEntry(1, 1, "add", word="api")


SOUND = [
    *(said for n in range(8) for said in (added(f"p{n}", f"u{n}"), listed(f"p{n}", f"u{n}"))),
    *(told(f"p{n}", f"u{n}", "c", f"id{n}") for n in range(8)),
]


@pytest.mark.parametrize(
    ("more", "unjoined"),
    [
        ([], False),
        # One wrong line, of a container that another line does not name.
        ([told("p0", "u0", None, "id0"), told("p1", "u1", "c", "id0")], False),
        ([told(f"p{n}", f"u{n}", "c", "gone") for n in range(3)], True),
        ([told(f"p{n}", f"u{n}", None, "gone") for n in range(3)], True),
        ([told("p0", "u0", "c", "<hidden>")], True),
        ([told(f"p{n}", "one", "c", f"id{n}") for n in range(3)], True),
        ([added(f"p{n}", f"other{n}") for n in range(1)], False),
        ([said for n in range(20, 26)
          for said in (added(f"p{n}", f"u{n}"), listed(f"p{n}", f"other{n}"))], True),
    ],
)  # fmt: skip
def test_unjoined(more: list[Said], unjoined: bool) -> None:
    """Names, UIDs or IDs that mean several pods or containers, or others in lists than in lines."""
    pods: dict[str, dict[str | None, list[HistoryEntry]]] = {}
    for pod, uid, entry in (*SOUND, *more):
        pods.setdefault(f"ns/{pod}", {}).setdefault(uid, []).append(entry)
    assert are_unjoined(pods) is unjoined
