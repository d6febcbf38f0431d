"""Every decision gets one finding, in the order of replay, however late it comes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.model.bodies.lifecycle import PodAdmitted
from kubeledger.model.record import Record
from kubeledger.verify import Contradiction, Finding, Outcome
from kubeledger.verify.finding import PendingFindings
from tests.verify.histories import scene

BODY = PodAdmitted(namespace="default", pod="web", pod_uid=None)


def records(count: int) -> list[Record]:
    """Decisions 1 to ``count``."""
    return scene(*((float(n), BODY) for n in range(count)))


def finding(seq: int) -> Finding:
    return Finding(seq=seq, ts_ns=0, kind="k", subject="node", verdict="match", why="so")


@given(st.permutations(range(1, 9)), st.lists(st.integers(0, 8), max_size=5))
def test_any_order_of_finding(order: list[int], extras: list[int]) -> None:
    """Out they come as they were met; what was added keeps its place among them."""
    pending, out, expected = PendingFindings(), list[Outcome](), list[Outcome]()
    for record in records(8):
        pending.enter(record)
        expected.append(finding(record.seq))
        for _ in range(extras.count(record.seq)):
            extra = Contradiction(ts_ns=record.seq, subject="node", why="two", sides=())
            pending.add(extra)
            expected.append(extra)
    for seq in order:
        pending.find(finding(seq))
        out += pending.ready()
    assert out == expected
    assert list(pending.close()) == []


def test_what_never_got_one_is_unverifiable() -> None:
    pending = PendingFindings()
    for record in records(2):
        pending.enter(record)
    pending.find(finding(2))
    assert list(pending.ready()) == []
    first, second = pending.close()
    assert isinstance(first, Finding)
    assert (first.seq, first.verdict, second) == (1, "unverifiable", finding(2))
    assert first.missing
    assert first.recorded is not None
    assert first.recorded["pod"] == "web"
    assert list(pending.close()) == []


def test_one_each() -> None:
    pending = PendingFindings()
    pending.enter(records(1)[0])
    pending.find(finding(1))
    with pytest.raises(ValueError, match="record 1 does not wait"):
        pending.find(finding(1))
    with pytest.raises(ValueError, match="record 2 does not wait"):
        pending.find(finding(2))


def test_nothing_is_kept() -> None:
    pending = PendingFindings()
    for record in records(3):
        pending.enter(record)
        pending.find(finding(record.seq))
        assert list(pending.ready()) == [finding(record.seq)]
        assert list(pending.ready()) == []
