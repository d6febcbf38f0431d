"""What is said again and again: how often it is recorded, and what these records add up to."""

from collections.abc import Hashable
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from kubeledger.ingest.correlate.holdback import EVERY_NS, Holdback, Repeated
from kubeledger.ingest.sources.items import Fact
from kubeledger.model.bodies.node import NodeTroubled
from kubeledger.model.record import Evidence
from kubeledger.model.units import NS_PER_S


class Line(NamedTuple):
    """A line of a log."""

    ts_ns: int
    number: int

    @property
    def evidence(self) -> Evidence:
        return Evidence(file="kubelet.log", line=self.number)


class Log:
    """Says things, a line each, and keeps the facts that come of them."""

    def __init__(self) -> None:
        self.queue = Holdback()
        self.repeated = Repeated[Hashable](self.queue)
        self.facts: list[Fact] = []
        self._number = 0

    def say(self, at_s: int, message: str = "down", teller: str = "a", key: str = "node") -> None:
        """One line, after the time before it has passed."""
        ts_ns = at_s * NS_PER_S
        self.pass_time(at_s)
        self._number += 1
        body = NodeTroubled(
            trouble="runtime_down", message=message, first_ts_ns=ts_ns, last_ts_ns=ts_ns
        )
        self.repeated.say(key, message, body, teller, Line(ts_ns, self._number))

    def pass_time(self, at_s: int) -> None:
        """Facts that are due leave."""
        self.repeated.pass_time(at_s * NS_PER_S)
        self.facts += self.queue.release(at_s * NS_PER_S)

    def end(self, at_s: int) -> list[NodeTroubled]:
        """The log ends; what was recorded."""
        self.repeated.end(at_s * NS_PER_S)
        self.facts += self.queue.drain()
        return [body for fact in self.facts if isinstance(body := fact.body, NodeTroubled)]


def _counts(bodies: list[NodeTroubled]) -> list[tuple[str, int, int, int]]:
    return [
        (each.message, each.count, each.first_ts_ns // NS_PER_S, each.last_ts_ns // NS_PER_S)
        for each in bodies
    ]


def test_it_is_recorded_when_it_begins_and_when_it_is_over() -> None:
    """What was said between is one record, made at the end."""
    log = Log()
    for at_s in (10, 15, 20, 25):
        log.say(at_s)
    assert _counts(log.end(60)) == [("down", 1, 10, 10), ("down", 3, 15, 25)]
    assert [fact.ts_ns // NS_PER_S for fact in log.facts] == [10, 60]


def test_another_cause_is_a_change() -> None:
    """The run before it is closed with what was not yet recorded of it."""
    log = Log()
    for at_s, message in ((1, "down"), (2, "down"), (3, "slow"), (4, "down")):
        log.say(at_s, message)
    assert _counts(log.end(5)) == [
        ("down", 1, 1, 1),
        ("down", 1, 2, 2),
        ("slow", 1, 3, 3),
        ("down", 1, 4, 4),
    ]


def test_two_tellers_tell_one_thing() -> None:
    """It happened as often as the one says that says it most; the other is evidence."""
    log = Log()
    for at_s in (1, 11, 21):
        log.say(at_s, teller="runtime")
        log.say(at_s, teller="sync error")
    log.say(31, teller="sync error")
    assert sum(each.count for each in log.end(40)) == 4
    assert [piece.line for piece in log.facts[0].evidence] == [1, 2]


def test_what_goes_on_is_recorded_every_ten_minutes() -> None:
    """A ledger that is written live knows that it still is so."""
    log = Log()
    for at_s in range(0, 1500, 10):
        log.say(at_s)
    every_s = EVERY_NS // NS_PER_S
    recorded_at = [fact.ts_ns // NS_PER_S for fact in log.facts]
    assert recorded_at == [0, every_s, 2 * every_s]
    assert sum(each.count for each in log.end(1500)) == 150


def test_what_is_silent_for_long_begins_anew() -> None:
    """After ten minutes without a word the next one is a first one, and nothing is kept of it."""
    log = Log()
    log.say(0)
    log.pass_time(1000)
    assert not log.repeated.is_said("node")
    log.say(1001)
    assert _counts(log.end(1002)) == [("down", 1, 0, 0), ("down", 1, 1001, 1001)]


SAYINGS = st.lists(
    st.tuples(
        st.integers(0, 400), st.sampled_from("xy"), st.sampled_from("ab"), st.sampled_from("kl")
    ),
    max_size=60,
)


@given(SAYINGS)
def test_no_word_is_lost_and_none_counts_twice(said: list[tuple[int, str, str, str]]) -> None:
    """With one teller counts add up to the lines; times enclose; records come in order."""
    log, at_s = Log(), 0
    for wait_s, message, _, key in said:
        at_s += wait_s
        log.say(at_s, message, "only", key)
    bodies = log.end(at_s + 1)
    assert sum(each.count for each in bodies) == len(said)
    assert all(each.first_ts_ns <= each.last_ts_ns for each in bodies)
    times = [fact.ts_ns for fact in log.facts]
    assert times == sorted(times)
