"""The kubelet's event recorder: what it drops, combines and delays."""

import pytest

from kubeledger.analyze.completeness.correlator import Correlator, Sender
from kubeledger.model.units import NS_PER_S
from tests.analyze.completeness.worlds import event


def test_an_object_may_burst_25_events_and_no_more() -> None:
    """The 26th at once is dropped."""
    correlator = Correlator(20)
    passages = [correlator.take(0, event()) for _ in range(30)]
    assert [p.dropped for p in passages] == [False] * 25 + [True] * 5
    assert (passages[-1].number, passages[-1].passed) == (30, 25)


def test_one_more_passes_each_five_minutes() -> None:
    """The budget refills by one in 300 s, and a dropped event costs nothing."""
    correlator = Correlator(20)
    for _ in range(26):
        last = correlator.take(0, event())
    assert last.next_ts_ns == 300 * NS_PER_S
    assert correlator.take(299 * NS_PER_S, event()).dropped
    assert not correlator.take(300 * NS_PER_S, event()).dropped
    assert correlator.take(301 * NS_PER_S, event()).dropped


def test_each_object_has_a_budget_of_its_own() -> None:
    correlator = Correlator(20)
    for _ in range(26):
        correlator.take(0, event())
    assert not correlator.take(0, event(pod_uid="u-other")).dropped


@pytest.mark.parametrize(("minor", "dropped"), [(31, True), (32, False), (36, False)])
def test_warnings_have_a_budget_of_their_own_since_1_32(minor: int, dropped: bool) -> None:
    """The key of the spam filter got the event's type in 1.32."""
    correlator = Correlator(minor)
    for _ in range(25):
        correlator.take(0, event())
    assert correlator.take(0, event(type="Warning")).dropped is dropped


def test_ten_different_messages_are_combined() -> None:
    """The tenth message of one reason is, the same words again are not."""
    correlator = Correlator(20)
    passages = [correlator.take(0, event(message=f"m{n}")) for n in range(11)]
    assert [p.combined for p in passages] == [False] * 9 + [True, True]
    again = Correlator(20)
    assert not any(again.take(0, event()).combined for _ in range(20))


def test_messages_long_apart_are_not_combined() -> None:
    """More than ten minutes after the one before, counting starts anew."""
    correlator = Correlator(20)
    for number in range(9):
        correlator.take(0, event(message=f"m{number}"))
    assert not correlator.take(601 * NS_PER_S, event(message="m9")).combined


def test_the_client_delays_what_exceeds_its_rate() -> None:
    """Burst 10 at 5 a second: the 11th waits 0.2 s, the 15th a whole second."""
    sender = Sender(5, 10)
    for _ in range(10):
        sender.send(1_000 * NS_PER_S)
    assert sender.longest_ns == 0
    for _ in range(5):
        sender.send(1_000 * NS_PER_S)
    assert sender.longest_ns == NS_PER_S
