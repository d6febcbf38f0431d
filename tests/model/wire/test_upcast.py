from pathlib import Path

import pytest

from kubeledger.ledger.standalone import read_recording
from kubeledger.model.bodies.lifecycle import PodEvicted
from kubeledger.model.bodies.prober import ProbeExecuted
from kubeledger.model.wire.catalogue import BODY_TYPES, UPCASTERS, UpcastError, upcast
from kubeledger.model.wire.codec import decode_envelope

ROOT = Path(__file__).parents[3]
OLD = ROOT / "recordings" / "upcast"


@pytest.mark.parametrize(("kind", "v"), sorted(UPCASTERS))
def test_each_old_version_has_lines_that_read_as_the_current_one(kind: str, v: int) -> None:
    path = OLD / f"{kind}.v{v}.ledger.jsonl"
    with path.open("rb") as file:
        assert {(e.kind, e.v) for e in map(decode_envelope, file)} == {(kind, v)}
    read = list(read_recording(path))
    assert read
    for record in read:
        assert type(record.body) is BODY_TYPES[kind]
        assert record.v == BODY_TYPES[kind].v


def test_a_probe_without_a_handler_reads_as_one_whose_handler_is_not_known() -> None:
    """The whole body of the first old line, as of today."""
    first = next(read_recording(OLD / "prober.ProbeExecuted.v1.ledger.jsonl"))
    assert first.body == ProbeExecuted(
        namespace="shop",
        pod="checkout-7c9f",
        pod_uid="0b6f7c1e-5d0a-4a6c-9d2f-3f6f1f0a9b11",
        container="app",
        container_id="4f" * 32,
        probe_type="liveness",
        result="success",
        output="ok",
        handler=None,
    )


def test_an_eviction_of_which_only_the_resource_was_kept() -> None:
    """What the old version did not hold is not known."""
    first = next(read_recording(OLD / "lifecycle.PodEvicted.v1.ledger.jsonl")).body
    assert isinstance(first, PodEvicted)
    assert (first.resource, first.evicted, first.signal, first.rank) == ("memory", True, None, None)


def test_every_version_has_a_way_up() -> None:
    """From 1 to the current one, no step missing, none too many."""
    needed = {(kind, v) for kind, body in BODY_TYPES.items() for v in range(1, body.v)}
    assert set(UPCASTERS) == needed


def test_the_current_version_stays_as_it_is() -> None:
    assert upcast("prober.ProbeExecuted", 2, {"handler": "exec"}) == {"handler": "exec"}


@pytest.mark.parametrize("v", [-1, 0, 3, 99])
def test_versions_that_never_were_are_refused(v: int) -> None:
    with pytest.raises(UpcastError, match=rf"prober.ProbeExecuted v{v} "):
        upcast("prober.ProbeExecuted", v, {})
