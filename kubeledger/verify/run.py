"""Verify the records of one node: two readings, one finding a decision."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from kubeledger.lifecycle.records import PodListed
from kubeledger.machine import Body, Record
from kubeledger.node.records import KubeletStarted, LogThinned
from kubeledger.node.reducer import evolve
from kubeledger.node.state import NodeState
from kubeledger.verify.bench import Bench
from kubeledger.verify.finding import Outcome
from kubeledger.verify.registry import VERIFIERS
from kubeledger.verify.variant import RECORDED, Variant
from kubeledger.verify.verifier import Foresee, See

__all__ = ["Reader", "verify"]

Reader = Callable[[Collection[str] | None], Iterator[Record]]
"""Opens the records of a node from the first on, in the order of replay: all of them, or (the
argument) only those of some kinds, then in any order."""


def verify(read: Reader, variant: Variant = RECORDED) -> Iterator[Outcome]:
    """Decide every decision of a node again.

    Args:
        read: opens its records; called twice.
        variant: decide under these settings; the recorded ones by default.

    Yields:
        one finding for each recorded decision, in the order of replay, and between them
        decisions that had to be taken but were not, and contradictions. The same records
        give the same outcomes. Memory grows with the pods a ledger knows, and with nothing
        else.
    """
    bench = Bench(variant)
    verifiers = [verifier(bench) for verifier in VERIFIERS]
    foresees: dict[type[Body], list[Foresee]] = {}
    sees: dict[type[Body], list[See]] = {}
    for verifier in verifiers:
        for kind, foresee in verifier.foresees().items():
            foresees.setdefault(kind, []).append(foresee)
        for kind, see in verifier.sees().items():
            sees.setdefault(kind, []).append(see)
    _foresee(read, bench, foresees)
    state, docket = NodeState(), bench.docket
    for record in read(None):
        bench.observe(record)
        if record.role == "decision":
            docket.enter(record)
        for see in sees.get(type(record.body), ()):
            see(record, record.body, state)
        evolve(state, record)
        yield from docket.ready()
    for verifier in verifiers:
        verifier.settle(state)
    yield from docket.close()


def _foresee(read: Reader, bench: Bench, foresees: dict[type[Body], list[Foresee]]) -> None:
    """The first reading: what later records tell of earlier times."""
    always: tuple[type[Body], ...] = (KubeletStarted, LogThinned, PodListed)
    kinds = {kind.kind for kind in (*foresees, *always)}
    for record in read(kinds):
        if isinstance(record.body, PodListed):
            bench.pods.note(record.seq, record.ts_ns, record.body)
        bench.losses.note(record)
        for foresee in foresees.get(type(record.body), ()):
            foresee(record)
    bench.pods.settle()
    bench.losses.settle()
