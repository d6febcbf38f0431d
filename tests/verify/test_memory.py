"""Verification of a long history takes no more memory than that of a short one."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from kubeledger.verify import Finding, verify
from tests.benchmarks.bench_verify import Repeated
from tests.marks import nightly, slow
from tests.verify.histories import recorded


def peak_of(history: Repeated) -> tuple[int, int]:
    gc.collect()
    gc.freeze()  # Python looks for circles the later the more there was before
    gc.collect()
    tracemalloc.start()
    try:
        decisions = sum(isinstance(outcome, Finding) for outcome in verify(history))
        return tracemalloc.get_traced_memory()[1], decisions
    finally:
        tracemalloc.stop()
        gc.unfreeze()


BYTES_PER_RECORD_MAX = 70
"""What an index of admissions and kubelet starts takes, spread over all records; of few records
what a stage's failures stand in, too, of which the last ones are kept."""


@pytest.mark.parametrize("node", [*slow("node-b"), *nightly("node-a")])
def test_memory_is_flat(node: str) -> None:
    """Three times the records, the same pods, four more starts of the kubelet."""
    peak_of(Repeated(node, 1))  # what is made once a process
    short, decisions = peak_of(Repeated(node, 2))
    long, more = peak_of(Repeated(node, 6))
    assert more == 3 * decisions
    assert long - short < BYTES_PER_RECORD_MAX * 4 * len(recorded(node))
