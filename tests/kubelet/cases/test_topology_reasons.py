"""Why hints are given, withheld or merged: the devices on the nodes, the rule of the policy."""

from typing import Any

import pytest

from tests.kubelet.cases import test_topologyhints as hints
from tests.kubelet.cases import test_topologymerge as merge
from tests.kubelet.cases.lines import container, pod
from tests.kubelet.cases.test_topologymerge import hint

GPU = hints.GPU
TWO = pod(container("c0", limits={GPU: "2"}))
FIVE = pod(container("c0", limits={GPU: "5"}))


def claim(*reported: tuple[list[int], bool]) -> list[dict[str, Any]]:
    """Hints of a claim: nodes, and whether they are preferred."""
    return [{"numaNodes": nodes, "preferred": preferred} for nodes, preferred in reported]


@pytest.mark.parametrize(
    ("case_input", "reported", "why"),
    [
        (hints.case([0], [1], [1], of_pod=TWO), claim(([0], True)),
         "hint 1 for example.com/gpu is nodes [1], preferred: 1 device available on nodes [0], 2 "
         "requested"),
        (hints.case([0], [1], [1], of_pod=TWO), claim(([1], False)),
         "hint 1 for example.com/gpu is nodes [1], preferred: 2 devices available there, 2 "
         "requested, and no smaller set of nodes has 2 devices, used or not"),
        (hints.case([0], [1], [1], of_pod=TWO), claim(([1], True), ([0, 1], True)),
         "hint 2 for example.com/gpu is nodes [0, 1], not preferred: 3 devices available there, 2 "
         "requested, but a smaller set of nodes has 2 devices, used or not"),
        (hints.case([0], [1], [1], of_pod=TWO), claim(([1], True), ([0, 1], False), ([2], False)),
         "there are only 2 hints for example.com/gpu: hints are made of the nodes [0, 1]"),
        (hints.case([0]), claim(([0, 0], True)),
         "hint 1 for example.com/gpu is nodes [0], preferred: the nodes of a hint are listed in "
         "ascending order, each once"),
        (hints.case([0], [1], of_pod=FIVE), claim(([0], True)),
         "there is no hint for example.com/gpu: 2 devices free, 5 requested"),
        (hints.case(None), claim(([0], True)),
         "example.com/gpu has no preference for NUMA nodes: none of its devices has a topology"),
        (hints.case([0]), None,
         "example.com/gpu has a preference for NUMA nodes: one of its devices has a topology"),
    ],
)  # fmt: skip
def test_why_a_hint(case_input: dict[str, Any], reported: object, why: str) -> None:
    """The first hint that differs, with the devices behind it."""
    outcome = {"steps": [{"hints": {GPU: reported}}]}
    assert hints.LINES.judged("1.36.2", case_input, outcome) == ("impossible", why)


def test_why_a_resource() -> None:
    made = hints.case([0], of_pod=pod(container("c0", limits={"example.com/b": "1"})))
    for resource, why in (
        (GPU, f"there are no hints for {GPU}: {GPU} is not requested"),
        (
            "example.com/b",
            "there are no hints for example.com/b: no device plugin serves example.com/b",
        ),
    ):
        outcome = {"steps": [{"hints": {resource: None}}]}
        assert hints.LINES.judged("1.36.2", made, outcome) == ("impossible", why)


FAR = {"0": [10, 31, 21, 31], "1": [31, 10, 31, 11], "2": [21, 31, 10, 31], "3": [31, 11, 31, 10]}
CLOSEST = {"numaDistances": FAR, "preferClosestNUMANodes": True}


@pytest.mark.parametrize(
    ("version", "case_input", "reason"),
    [
        ("1.36.2", merge.case("none"), "this policy collects no hints"),
        ("1.36.2", merge.case("restricted", [hint(0)]), "no other combination is preferred"),
        ("1.36.2", merge.case("restricted", [hint(0), hint(1)]),
         "of the preferred combinations it has the fewest nodes, then the lowest"),
        ("1.36.2", merge.case("best-effort", [hint(0, 1), hint(0, 2)], **CLOSEST),
         "of the preferred combinations it has the fewest nodes, then the nearest to each other, "
         "then the lowest"),
        ("1.36.2", merge.case("best-effort", [hint(0)], [hint(1)]),
         "no combination has a node in common, which leaves all nodes, not preferred"),
        ("1.36.2", merge.case("best-effort", [hint(0)], [hint(0, 1)]),
         "no combination is of hints that are all preferred and name the same nodes, so the "
         "nearest to 2 nodes wins, what the neediest resource requires"),
        ("1.23.0", merge.case("best-effort", [hint(0, preferred=False)], [hint(0, 1)]),
         "no combination is of hints that are all preferred, so the fewest nodes win, then the "
         "lowest"),
        ("1.36.2",
         merge.case("best-effort", [hint(0, preferred=False)], [hint(0, preferred=False)]),
         "no combination is of hints that are all preferred and name the same nodes, so the "
         "nearest to 1 node wins, what the neediest resource requires"),
        ("1.36.2", merge.case("single-numa-node", [hint(0), hint(1)], **CLOSEST),
         "of preferred hints of one node, or of any, of the preferred combinations it has the "
         "fewest nodes, then the lowest"),
        ("1.36.2", merge.case("single-numa-node", [hint(0, 1)]),
         "of preferred hints of one node, or of any, no combination has a node in common, which "
         "leaves all nodes, not preferred"),
        ("1.36.2", merge.case("single-numa-node"),
         "of preferred hints of one node, or of any, all combine to all nodes, which is given as "
         "any"),
    ],
)  # fmt: skip
def test_why_a_merged_hint(version: str, case_input: dict[str, Any], reason: str) -> None:
    outcome = merge.LINES.decided(version, case_input)
    wrong = outcome | {"affinity": [3]}
    verdict, why = merge.LINES.judged(version, case_input, wrong)
    assert (verdict, why.split(": ", 1)[1]) == ("impossible", reason)


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ("none", "policy none admits with the hint {<nil> false}: it admits with any hint"),
        ("best-effort",
         "policy best-effort admits with the hint {01 false}: it admits with any hint"),
        ("restricted",
         "policy restricted does not admit with the hint {01 false}: it admits only with a "
         "preferred hint"),
    ],
)  # fmt: skip
def test_why_a_policy_admits(policy: str, why: str) -> None:
    made = merge.case(policy, [hint(0, preferred=False)])
    decided = merge.LINES.decided("1.36.2", made)
    wrong = decided | {"admit": not decided["admit"]}
    assert merge.LINES.judged("1.36.2", made, wrong) == ("impossible", why)
