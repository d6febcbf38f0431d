"""State files of allocations: what a later one gives and takes."""

from typing import Literal

import pytest

from kubeledger.kubelet.allocation.reducer import HANDLERS, AllocationState
from kubeledger.model.bodies.cgroups import PodResources, PodsStateRead
from tests.kubelet.reducing import evolver
from tests.replay.strategies import record

evolve = evolver(HANDLERS)
PODS = {"u": PodResources(containers={})}


def read(
    which: Literal["allocated", "actuated"], ok: bool | None, pods: dict[str, PodResources]
) -> PodsStateRead:
    return PodsStateRead(which=which, pods=pods, checksum=7, checksum_ok=ok)


@pytest.mark.parametrize("ok", [True, None, False])
def test_a_damaged_file_changes_nothing(ok: bool | None) -> None:
    """It counts as read; its pods count unless its checksum is wrong."""
    state = evolve(
        AllocationState(allocated={"old": PODS["u"]}), record(1, read("allocated", ok, PODS))
    )
    assert (state.file_read_ts_ns, state.file_checksum_ok) == (10**9, ok)
    assert set(state.allocated) == ({"old"} if ok is False else {"u"})


def test_what_the_runtime_was_told_stands_apart() -> None:
    """The second file is not the one whose reading is noted."""
    state = evolve(AllocationState(), record(1, read("actuated", True, PODS)))
    assert (state.actuated, state.allocated) == (PODS, {})
    assert (state.file_read_ts_ns, state.file_checksum_ok) == (None, None)
