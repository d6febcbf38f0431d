"""Merging hints: the sort key agrees with a running comparison over every combination."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.kubelet.topologymanager.policy import (
    DONT_CARE,
    IMPOSSIBLE,
    Fitness,
    Hints,
    Policy,
    PolicyName,
    TopologyHint,
    blame_text,
    blamed,
    closest,
    filter_providers_hints,
    filter_single_numa_hints,
    max_of_min_affinity_counts,
    merge_filtered_hints,
    narrowest,
)

ALL = 0b1111
HINTS = st.lists(
    st.builds(TopologyHint, st.one_of(st.none(), st.integers(1, ALL)), st.booleans()),
    min_size=1,
    max_size=3,
).map(tuple)
DISTANCES = st.lists(
    st.lists(st.integers(10, 12), min_size=4, max_size=4), min_size=4, max_size=4
).map(lambda rows: dict(enumerate(rows)))


def running_best(resources: list[Hints], fitness: Fitness, *, new: bool) -> TopologyHint:
    """The best of all combinations in turn, as the kubelet keeps it; ``new``: since 1.24."""
    best = None if new else TopologyHint(ALL, preferred=False)
    wanted = max_of_min_affinity_counts(resources)
    for combination in product(*resources):
        masks = [h.affinity for h in combination if h.affinity is not None]
        merged = ALL
        for mask in masks:
            merged &= mask
        preferred = all(h.preferred for h in combination)
        if new and len(set(masks)) > 1:
            preferred = False
        if merged:
            candidate = TopologyHint(merged, preferred)
            if best is None or beats(candidate, best, fitness, wanted, new=new):
                best = candidate
    return best or TopologyHint(ALL, preferred=False)


def beats(
    candidate: TopologyHint, best: TopologyHint, fitness: Fitness, wanted: int, *, new: bool
) -> bool:
    """Whether a candidate replaces the best hint so far."""
    assert candidate.affinity is not None
    assert best.affinity is not None
    if candidate.preferred != best.preferred:
        return candidate.preferred
    fitter = fitness(candidate.affinity) < fitness(best.affinity)
    if not new or candidate.preferred:
        return fitter
    ours, theirs = candidate.affinity.bit_count(), best.affinity.bit_count()
    if theirs > wanted:
        return fitter
    if theirs == wanted:
        return ours == wanted and fitter
    if ours >= wanted:
        return ours == wanted
    return ours > theirs or (ours == theirs and fitter)


@given(st.lists(HINTS, max_size=3), st.randoms(use_true_random=False))
@pytest.mark.parametrize(("version", "new"), [("1.23.0", False), ("1.24.0", True)])
def test_the_best_does_not_depend_on_the_order(
    version: str, new: bool, resources: list[Hints], random: object
) -> None:
    merged = merge_filtered_hints(ALL, resources, narrowest, resolve(version).topology)
    assert merged == running_best(resources, narrowest, new=new)
    assert merged == running_best(resources[::-1], narrowest, new=new)
    assert merged == running_best([hints[::-1] for hints in resources], narrowest, new=new)


@given(st.lists(HINTS, max_size=3), DISTANCES)
def test_closest_agrees_as_well(resources: list[Hints], distances: dict[int, list[int]]) -> None:
    """With random distances, ties among them."""
    fitness = closest(distances)
    merged = merge_filtered_hints(ALL, resources, fitness, resolve("1.36.0").topology)
    assert merged == running_best(resources, fitness, new=True)


def test_what_providers_without_hints_count_as() -> None:
    one = TopologyHint(1, preferred=True)
    providers = [None, {}, {"a": None, "b": (), "c": (one,)}]
    assert filter_providers_hints(providers) == [
        (DONT_CARE,),
        (DONT_CARE,),
        (DONT_CARE,),
        (IMPOSSIBLE,),
        (one,),
    ]


def test_single_numa_node_keeps_preferred_hints_of_one_node() -> None:
    hints = (
        TopologyHint(1, preferred=True),
        TopologyHint(2, preferred=False),
        TopologyHint(3, preferred=True),
        DONT_CARE,
        IMPOSSIBLE,
    )
    assert filter_single_numa_hints([hints]) == [(hints[0], DONT_CARE)]


# -- Whose hints keep a pod out, and in which words ------------------------------------------------

FACTS = resolve("1.36.0").topology


def on(*masks: int, preferred: bool = True) -> Hints:
    """Hints of these groups of nodes."""
    return tuple(TopologyHint(mask, preferred) for mask in masks)


@pytest.mark.parametrize(
    ("policy", "hints", "words"),
    [
        ("restricted", {"cpu": on(1), "memory": on(1)}, None),
        ("best-effort", {"cpu": on(1), "memory": ()}, None),
        ("restricted", {"cpu": (), "memory": on(1)}, "cpu fits on no NUMA nodes"),
        ("restricted", {"cpu": on(1, 2), "gpu": on(1), "memory": on(2)},
         "each fits by itself, gpu on NUMA node 0 and memory on NUMA node 1, but not on the same "
         "NUMA nodes"),
        ("restricted", {"cpu": on(1, 2), "memory": on(3, preferred=False)},
         "memory fits on NUMA nodes 0 and 1 only, and would fit on fewer if nothing was in use"),
        ("single-numa-node", {"gpu": on(3), "memory": None},
         "gpu needs NUMA nodes 0 and 1 where policy single-numa-node admits one"),
        ("single-numa-node", {"cpu": (), "gpu": on(3), "memory": on(1)},
         "cpu fits on no NUMA nodes and gpu needs NUMA nodes 0 and 1 where policy "
         "single-numa-node admits one"),
    ],
)  # fmt: skip
def test_the_fewest_resources(
    policy: PolicyName, hints: dict[str, Hints | None], words: str | None
) -> None:
    """Without whose hints the pod would have been admitted."""
    rule = Policy(name=policy, numa_nodes=(0, 1))
    blame = blamed(rule, hints, FACTS)
    assert (None if blame is None else blame_text(blame, rule)) == words
