"""Facts of all assemblers in one order of time.

Assemblers hold facts back until their evidence is complete, each on its own. A fact that
waited would come out after newer facts of others, and the state at an instant between
them would lack it. So nothing leaves before what is held anywhere could still precede it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence

from kubeledger.ingest.sources.facts import Fact, Facts

Held = tuple[tuple[int, bool], int, Fact]
"""A fact's place in the order, and how many had come with it."""


class Sequencer:
    """A heap of facts between the assemblers and the ledger.

    Facts leave by their time, those of one time in the order they came, late ones last. A
    cause always leaves before its effects, whatever their times say.
    """

    def __init__(
        self, waiting_since: Sequence[Callable[[], int | None]], held: Sequence[Held] = ()
    ) -> None:
        """Begin with nothing, or with facts that waited in another one.

        Args:
            waiting_since: asks each assembler for the time of the oldest fact it holds.
            held: what another one held.
        """
        self._waiting_since = list(waiting_since)
        self._heap: list[Held] = sorted(held)
        self._orders = {id(fact): order for order, _, fact in held}
        self._arrived = max((arrived for _, arrived, _ in held), default=0)

    @property
    def held(self) -> list[Held]:
        """What has not left."""
        return [*self._heap]

    def put(self, facts: Facts) -> None:
        """Take in facts; a cause must have been put before its effects."""
        for fact in facts:
            order = (fact.ts_ns, fact.late)
            if fact.cause is not None:
                order = max(order, self._orders.get(id(fact.cause), order))
            self._orders[id(fact)] = order
            self._arrived += 1
            heapq.heappush(self._heap, (order, self._arrived, fact))

    def release(self, now_ns: int, patience_ns: int | None = None) -> Facts:
        """Facts that nothing to come can precede, at ``now_ns`` of the bundle's time.

        A late fact waits for what else happened in its instant, also where an assembler still
        holds that.

        Args:
            now_ns: the time up to which all has been read.
            patience_ns: what an assembler has held for longer will come late, and nothing waits
                for it; None: all wait for it.
        """
        if not self._heap or self._heap[0][0] > (now_ns, False):
            return ()
        return self._settled(now_ns, 0 if patience_ns is None else now_ns - patience_ns)

    def _settled(self, now_ns: int, held_ns: int) -> Iterator[Fact]:
        upto = (self._settled_upto(now_ns, held_ns), False)
        while self._heap and self._heap[0][0] <= upto:
            yield self._pop()

    def _settled_upto(self, now_ns: int, held_ns: int) -> int:
        """Time before which nothing is held any more; or one at which nothing can leave yet.

        What is held from before ``held_ns`` does not count.
        """
        first = self._heap[0][0]
        for place, ask in enumerate(self._waiting_since):
            since = ask()
            if since is not None and held_ns <= since < now_ns:
                now_ns = since
                if (since, False) < first:
                    # Who holds up all others mostly does so for many lines: it is asked first.
                    self._waiting_since.insert(0, self._waiting_since.pop(place))
                    return since
        return now_ns

    def drain(self) -> Iterator[Fact]:
        """Everything, in order: at the end, or when the clock was set back."""
        while self._heap:
            yield self._pop()

    def _pop(self) -> Fact:
        fact = heapq.heappop(self._heap)[2]
        # The id is only good while the heap keeps the fact alive.
        del self._orders[id(fact)]
        return fact
