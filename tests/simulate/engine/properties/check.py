"""All that must hold of one simulation, and one line that brings a failing one back."""

from collections.abc import Callable, Iterator
from hashlib import blake2b

from kubeledger.model.bodies.prober import ProbeTicksFolded
from kubeledger.model.record import Record
from kubeledger.model.wire.codec import GENESIS, encode_line
from kubeledger.replay.instants import decode_state, encode_state, fold
from kubeledger.replay.node.state import canonical_json
from kubeledger.simulate.engine.plan import Plan
from kubeledger.simulate.engine.schedule import Draws
from kubeledger.simulate.engine.sim import Sim
from tests.random_scenarios import random_plan
from tests.simulate.engine.properties.devices import held_by_one, within_reports
from tests.simulate.engine.properties.images import enough_is_enough, none_in_use
from tests.simulate.engine.properties.pods import (
    kills_have_their_failures,
    only_critical_pods_preempt,
    qos_sums,
)
from tests.simulate.engine.scenes import bad

Property = Callable[[Plan, list[Record]], Iterator[str]]


def nothing_impossible(plan: Plan, records: list[Record]) -> Iterator[str]:
    """Verification finds each decision possible, and no two sources that disagree.

    Up to 1.31 the memory manager forms groups of NUMA nodes that overlap, and writes states that
    it does not take.
    """
    yield from bad(records, {"memory_groups_overlap", "memory_state_refused"})


def snapshot_and_tail(plan: Plan, records: list[Record]) -> Iterator[str]:
    """A state that was stored and read back goes on as if it had not been."""
    cut = Draws(plan.seed, "cut").below(len(records) + 1)
    restored = decode_state(encode_state(fold(records[:cut])))
    if restored is None:
        yield f"{cut}: the snapshot cannot be read"
        return
    if canonical_json(fold(records[cut:], restored)) != canonical_json(fold(records)):
        yield f"{cut}: the snapshot and what follows are not the full replay"


def same_bytes_again(plan: Plan, records: list[Record]) -> Iterator[str]:
    if digest(records) != digest(list(Sim(plan).run())):
        yield "another run gives other bytes"


def in_order(plan: Plan, records: list[Record]) -> Iterator[str]:
    """Records are numbered from 1 without a gap, in the order of time; causes come first."""
    last_ns = plan.start_ns
    for number, record in enumerate(records, 1):
        if record.seq != number or record.ts_ns < last_ns:
            yield f"{record.seq}: out of order"
        if record.cause is not None and not 0 < record.cause < record.seq:
            yield f"{record.seq}: its cause is {record.cause}"
        if isinstance(record.body, ProbeTicksFolded) and record.body.last_ts_ns > record.ts_ns:
            yield f"{record.seq}: it tells of a tick that is still to come"
        last_ns = record.ts_ns


PROPERTIES: tuple[Property, ...] = (
    in_order,
    held_by_one,
    within_reports,
    none_in_use,
    enough_is_enough,
    only_critical_pods_preempt,
    kills_have_their_failures,
    qos_sums,
    snapshot_and_tail,
    nothing_impossible,
    same_bytes_again,
)


def violations(seed: int, *, verified: bool = True) -> list[str]:
    """What does not hold of the scenario of a number; empty if all does.

    Args:
        seed: the number.
        verified: False leaves out what verification says.
    """
    plan = random_plan(seed)
    records = list(Sim(plan).run())
    return [
        f"{each.__name__}: {text}"
        for each in PROPERTIES
        if verified or each is not nothing_impossible
        for text in each(plan, records)
    ]


def reproduction(seed: int) -> str:
    return f"python -m tests.simulate.engine.properties {seed}"


def digest(records: list[Record]) -> str:
    hashed = blake2b(digest_size=16)
    previous = GENESIS
    for record in records:
        line, previous = encode_line(record, previous)
        hashed.update(line)
    return hashed.hexdigest()
