"""The ranking against the kubelet's comparators, written pair by pair; why one goes first."""

from collections.abc import Callable
from functools import cmp_to_key, partial
from typing import Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.kubelet.eviction.messages import pressure_message
from kubeledger.kubelet.eviction.ranking import Candidate, rank
from kubeledger.kubelet.eviction.signals import (
    SPLIT_DISK_ERROR,
    ContainerStats,
    DiskLayout,
    MemoryStats,
    PodReference,
    PodStats,
    SignalObservation,
    Summary,
    make_signal_observations,
    reclaim_functions,
    split_disk_error,
)
from kubeledger.kubelet.eviction.thresholds import ThresholdSettings, parse_threshold_config
from kubeledger.kubelet.kube.pod import (
    Container,
    ContainerStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from kubeledger.kubelet.kube.resources import ResourceList
from kubeledger.kubelet.profile.resolve import resolve, with_gates

NANOS: Final = 10**9
SIGNALS: Final = ("memory.available", "nodefs.available", "imagefs.inodesFree", "pid.available")


def compare(signal: str, one: Candidate, other: Candidate) -> int:
    """orderedBy(...) of pkg/kubelet/eviction/helpers.go: below 0 where ``one`` goes first."""

    def by_bool(left: bool, right: bool) -> int:
        return 0 if left == right else (-1 if left else 1)

    priority = (one.priority > other.priority) - (one.priority < other.priority)
    if one.usage is None or other.usage is None:
        unknown = by_bool(one.usage is None, other.usage is None)
        return (priority or unknown) if signal == "pid.available" else (unknown or priority)
    if signal == "pid.available":
        return priority or other.usage - one.usage
    exceeds = by_bool(
        one.usage * NANOS > one.request_nanos, other.usage * NANOS > other.request_nanos
    )
    above = (other.usage * NANOS - other.deducted_nanos) - (one.usage * NANOS - one.deducted_nanos)
    return exceeds or priority or above


def pods(size: int) -> st.SearchStrategy[list[Candidate]]:
    """Few values, so that many pods are equal in something."""
    amounts = st.sampled_from([0, 1, NANOS, 2 * NANOS, 3 * NANOS])
    fields = st.tuples(st.integers(-1, 1), st.none() | st.integers(0, 3), amounts, amounts)
    return st.lists(fields, max_size=size).map(
        lambda rows: [Candidate(f"p{at}", *row) for at, row in enumerate(rows)]
    )


@pytest.mark.parametrize("signal", SIGNALS)
@given(found=pods(12))
def test_the_order_is_that_of_the_comparators(signal: str, found: list[Candidate]) -> None:
    """As a stable sort by them, and groups are what they call equal."""
    groups = rank(found, signal)
    comparator: Callable[[Candidate, Candidate], int] = partial(compare, signal)
    expected = sorted(found, key=cmp_to_key(comparator))
    assert [pod for group in groups for pod in group] == expected
    for at, group in enumerate(groups):
        assert all(compare(signal, group[0], pod) == 0 for pod in group)
        if at:
            assert compare(signal, groups[at - 1][0], group[0]) < 0


# -- Eviction signals to reclaim functions, by disk layout and version -----------------------------

SHORT = {"DeleteAllUnusedContainers": "C", "DeleteUnusedImages": "I"}

TABLE = """
version layout    nodefs imagefs containerfs
1.20.2  shared    CI     CI      -
1.20.2  dedicated -      CI      -
1.28.0  split     -      CI      -
1.29.0  shared    CI     CI      -
1.29.0  dedicated -      CI      -
1.31.0  split     C      I       -
1.32.0  shared    CI     CI      CI
1.32.0  dedicated -      CI      CI
1.32.0  split     C      I       C
1.36.2  shared    CI     CI      CI
1.36.2  dedicated -      CI      CI
1.36.2  split     C      I       C
"""


@pytest.mark.parametrize("row", TABLE.split("\n")[2:-1])
def test_what_a_signal_reclaims(row: str) -> None:
    """Space and inodes of a disk reclaim alike, containers before images."""
    version, layout, *cells = row.split()
    facts = resolve(version).eviction
    for disk, cell in zip(("nodefs", "imagefs", "containerfs"), cells, strict=True):
        for amount in ("available", "inodesFree"):
            functions = reclaim_functions(f"{disk}.{amount}", layout, facts)  # type: ignore[arg-type] # of the table
            assert "".join(SHORT[f] for f in functions) == cell.strip("-")


OTHERS = ["memory.available", "pid.available", "allocatableMemory.available", "nodefs", "nodefs.x"]


@pytest.mark.parametrize("signal", OTHERS)
@pytest.mark.parametrize("layout", ["shared", "dedicated", "split"])
def test_other_signals_reclaim_nothing(signal: str, layout: DiskLayout) -> None:
    assert reclaim_functions(signal, layout, resolve("1.36.2").eviction) == ()


@pytest.mark.parametrize(
    ("version", "layout", "error"),
    [
        ("1.28.0", "split", ""),
        ("1.29.0", "dedicated", ""),
        ("1.29.0", "split", SPLIT_DISK_ERROR),
        ("1.30.9", "split", SPLIT_DISK_ERROR),
        ("1.31.0", "split", ""),
    ],
)
def test_split_disks_with_the_gate_off(version: str, layout: DiskLayout, error: str) -> None:
    """The eviction manager does nothing on such a node."""
    assert split_disk_error(layout, resolve(version).eviction) == error


# -- What is said of a pod that is evicted ---------------------------------------------------------

APP = Container(name="app", resources=ResourceRequirements(requests={"memory": "100Mi"}))
STATS = PodStats(
    PodReference("p", "d", "u"), (ContainerStats("app", MemoryStats(working_set_bytes=150 << 20)),)
)


@pytest.mark.parametrize(
    ("version", "gate", "allocated", "requested"),
    [
        ("1.26.15", True, {"memory": "200Mi"}, "100Mi"),
        ("1.30.1", False, {"memory": "200Mi"}, "100Mi"),
        ("1.30.1", True, {"memory": "50Mi"}, "50Mi"),
        ("1.30.1", True, None, "0"),
        ("1.30.1", True, {"memory": "200Mi"}, None),
        ("1.32.13", True, {"memory": "200Mi"}, "100Mi"),
    ],
)
def test_the_request_of_a_container_that_was_resized(
    version: str, gate: bool, allocated: ResourceList | None, requested: str | None
) -> None:
    """From 1.27 to 1.31 with the gate what its status says it has; it may then exceed nothing."""
    status = PodStatus(
        container_statuses=(ContainerStatus(name="app", allocated_resources=allocated),)
    )
    of = Pod(metadata=ObjectMeta(uid="u"), spec=PodSpec(containers=(APP,)), status=status)
    profile = with_gates(resolve(version), {"InPlacePodVerticalScaling": gate})
    settings = ThresholdSettings(eviction_hard={"memory.available": "1Gi"})
    threshold = parse_threshold_config(settings, profile)[0]
    seen = SignalObservation(512 << 20, 4 << 30, 0)
    text = pressure_message(of, STATS, threshold, seen, profile.eviction).text
    assert (f"request is {requested}, " in text) == (requested is not None)
    assert ("Container app" in text) == (requested is not None)


@pytest.mark.parametrize("only", ["availableBytes", "capacityBytes"])
def test_half_of_an_amount_of_a_disk_is_no_signal(only: str) -> None:
    fs = {only: 5, "inodesFree": 3, "inodes": 4}
    found = make_signal_observations(
        msgspec.convert({"node": {"fs": fs}}, Summary), resolve("1.36.2").eviction
    )
    assert {name: each.available for name, each in found.items()} == {"nodefs.inodesFree": 3}
