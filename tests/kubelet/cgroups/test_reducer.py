"""The cgroup tree is what the files last showed."""

from typing import Literal

from kubeledger.kubelet.cgroups.reducer import HANDLERS, CgroupsState
from kubeledger.model.bodies.cgroups import (
    CgroupObserved,
    CgroupRemoved,
    CgroupUpdated,
    QOSCgroupsUpdated,
    QOSReserveComputed,
)
from kubeledger.model.record import Body
from tests.kubelet.reducing import evolver
from tests.replay.strategies import record

evolve = evolver(HANDLERS)

S = 10**9


def after(*bodies: Body) -> CgroupsState:
    state = CgroupsState()
    for seq, body in enumerate(bodies, 1):
        state = evolve(state, record(seq, body))
    return state


def updated(
    cgroup: str,
    level: Literal["node", "qos", "pod", "container"] = "pod",
    *,
    shares: int | None = None,
    created: bool = False,
    unified: dict[str, str] | None = None,
) -> CgroupUpdated:
    return CgroupUpdated(
        cgroup=cgroup, level=level, qos_class="Burstable", pod_uid="u", cpu_shares=shares,
        unified=unified or {}, created=created, changed=("cpu_shares",),
    )  # fmt: skip


def test_a_record_holds_the_cgroup_whole() -> None:
    """A value that it does not tell is not kept from before."""
    state = after(
        updated("kubepods/podu", shares=2, created=True, unified={"cpu.weight": "1"}),
        updated("kubepods/podu", shares=512),
    )
    cgroup = state.cgroups["kubepods/podu"]
    assert (cgroup.cpu_shares, cgroup.unified, cgroup.qos_class) == (512, {}, "Burstable")
    assert (cgroup.since_ts_ns, cgroup.changed_ts_ns) == (S, 2 * S)


def test_what_is_only_observed_stays_until_it_is_observed_again() -> None:
    """An update tells what was written, and no counters."""
    path, made = "kubepods/podu", updated("kubepods/podu", created=True)
    seen = CgroupObserved(cgroup=path, pod_uid="u", unified={"memory.current": "1"})
    written = updated(path, shares=512, unified={"cpu.weight": "1"})
    state = after(seen, made, seen, written)
    cgroup = state.cgroups[path]
    assert cgroup.unified == {"memory.current": "1", "cpu.weight": "1"}
    assert (cgroup.since_ts_ns, cgroup.changed_ts_ns) == (2 * S, 4 * S)
    assert after(made, seen, made).cgroups[path].unified == {}


def test_a_cgroup_that_was_made_again_is_a_new_one() -> None:
    """``created`` says so, also when its end was not seen."""
    state = after(updated("kubepods/podu"), updated("kubepods/podu", created=True))
    assert state.cgroups["kubepods/podu"].since_ts_ns == 2 * S


def test_removal_takes_all_below_and_nothing_beside() -> None:
    """A path that merely begins alike is another cgroup."""
    state = after(
        updated("kubepods/podu"),
        updated("kubepods/podu/1", "container"),
        updated("kubepods/podux"),
        CgroupRemoved(cgroup="kubepods/podu", pod_uid="u"),
        CgroupRemoved(cgroup="kubepods/podu", pod_uid="u"),
    )
    assert set(state.cgroups) == {"kubepods/podux"}


def test_qos_level() -> None:
    """Writes are counted; a reserve is the last one computed."""
    state = after(
        QOSCgroupsUpdated(),
        QOSCgroupsUpdated(),
        QOSReserveComputed(qos_class="Burstable", requested_bytes=1, reserve_percent=50),
        QOSReserveComputed(qos_class="Burstable", requested_bytes=2, reserve_percent=50),
    )
    assert (state.qos_updates, state.qos_updated_ts_ns) == (2, 2 * S)
    assert state.reserves["Burstable"].requested_bytes == 2
