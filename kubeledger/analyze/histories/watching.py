"""What is wrong in a ledger to which records are appended: said once, as soon as it is settled.

Each look at a node that has grown decides again what follows its last seam (:mod:`.seams`), since
what a decision rests on may come after it. So what stands near the end is not settled: a list that
comes seconds later may name the pod that a decision is about, and a decision that seems to be
missing may still come.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

from kubeledger.analyze.histories.history import histories_of_ledger
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.units import NS_PER_S
from kubeledger.verify import Contradiction, Outcome, Violation

What = Literal["impossible", "missed", "contradiction", "violation"]
WHAT: tuple[What, ...] = get_args(What)

_Key = tuple[str, int, str, str, str]


class News(NamedTuple):
    """Something is wrong, or is so no more.

    Attributes:
        node: where.
        outcome: an impossible decision, one that had to be taken and was not, a contradiction.
        withdrawn: it had been said, and later records show that it is not so.
    """

    node: str
    outcome: Outcome
    withdrawn: bool

    @property
    def what(self) -> What:
        """What is wrong: taken and impossible, not taken, or shown otherwise by two sources."""
        if isinstance(self.outcome, Contradiction):
            return "violation" if isinstance(self.outcome, Violation) else "contradiction"
        return "missed" if self.outcome.recorded is None else "impossible"


class Watch:
    """Looks at a ledger again and again."""

    def __init__(self, ledger: Ledger, node: str | None, settle_s: float) -> None:
        """Nothing was looked at.

        Args:
            ledger: may grow, and may have no record yet.
            node: only this one; None: all.
            settle_s: so much later nothing comes any more that changes a verdict, mostly.
        """
        self._ledger = ledger
        self._node = node
        self._settle_s = settle_s
        self._last_seqs: dict[str, int] = {}
        self._latest_ns: dict[str, int] = {}
        self._wrong: dict[_Key, News] = {}
        self._since_s: dict[_Key, float] = {}
        self._said: dict[_Key, News] = {}

    @property
    def stands(self) -> dict[What, int]:
        """How much was said and not withdrawn."""
        said = [each.what for each in self._said.values()]
        return {what: said.count(what) for what in WHAT}

    def look(self, now_s: float) -> Iterator[News]:
        """What has to be said by now.

        Args:
            now_s: of any clock that only goes on.

        Raises:
            KubeledgerError: as the ledger's.
        """
        nodes = self._ledger.nodes() if self._node is None else [self._node]
        for name in nodes:
            last_seq = self._ledger.info(name).last_seq
            if last_seq != self._last_seqs.get(name):
                self._verify(name, last_seq, now_s)
        for key, news in self._wrong.items():
            if key not in self._said and self._is_settled(key, news, now_s):
                self._said[key] = news
                yield news
        for key in [key for key in self._said if key not in self._wrong]:
            yield self._said.pop(key)._replace(withdrawn=True)

    def _verify(self, name: str, last_seq: int, now_s: float) -> None:
        (history,) = histories_of_ledger(self._ledger, name)
        history = history.up_to(last_seq)
        self._wrong = {key: news for key, news in self._wrong.items() if news.node != name}
        for outcome in history.wrong():
            self._wrong[_key(name, outcome)] = News(name, outcome, withdrawn=False)
        self._since_s = {key: self._since_s.get(key, now_s) for key in self._wrong}
        self._latest_ns[name] = self._ledger.span(name)[1]
        self._last_seqs[name] = last_seq

    def _is_settled(self, key: _Key, news: News, now_s: float) -> bool:
        later_ns = self._latest_ns[news.node] - news.outcome.ts_ns
        waited_s = now_s - self._since_s[key]
        return later_ns >= self._settle_s * NS_PER_S or waited_s >= self._settle_s


def _key(node: str, outcome: Outcome) -> _Key:
    """By which an outcome is known again: its words may change with what is known."""
    if isinstance(outcome, Contradiction):
        return node, outcome.ts_ns, "contradiction", outcome.subject, outcome.why
    return node, outcome.seq, outcome.verdict, outcome.kind, outcome.subject
