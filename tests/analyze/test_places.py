"""Where records name a pod: numbers packed, and their order where the records' is another."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.analyze.histories.noting import SUBJECT_INDEX, Numbers, folded, seqs_naming
from kubeledger.model.bodies.prober import ProbeExecuted
from kubeledger.model.record import Record


@given(st.lists(st.integers(0, 1 << 60)), st.lists(st.integers(0, 1 << 40)))
def test_numbers_are_kept_in_their_order(first: list[int], then: list[int]) -> None:
    packed = Numbers()
    for number in first:
        packed.append(number)
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(packed), type=Numbers)
    for number in then:
        again.append(number)
    assert list(again) == first + then


@given(st.permutations(range(1, 30)), st.sets(st.sampled_from("ab"), min_size=1))
def test_records_are_found_in_the_order_of_replay(seqs: list[int], asked: set[str]) -> None:
    records = [_about("abc"[seq % 3], seq) for seq in seqs]
    stretch = folded(SUBJECT_INDEX, records)
    assert seqs_naming(asked, [stretch]) == [seq for seq in seqs if "abc"[seq % 3] in asked]


def _about(pod: str, seq: int) -> Record:
    body = ProbeExecuted(
        namespace="default",
        pod=pod,
        pod_uid=f"uid-{pod}",
        container="c",
        container_id=None,
        probe_type="liveness",
        result="success",
        output=None,
    )
    return Record(
        node="node",
        seq=seq,
        ts_ns=seq,
        role="observation",
        kind=body.kind,
        v=body.v,
        cause=None,
        evidence=(),
        body=body,
    )
