"""Merged hints against the recorded kubelet, by version; bad input."""

from typing import Any

import pytest

from tests.kubelet.cases.lines import Lines

LINES = Lines("topologymerge")


def hint(*nodes: int, preferred: bool = True) -> dict[str, Any]:
    return {"numaNodes": list(nodes), "preferred": preferred}


def case(policy: str, *resources: list[dict[str, Any]], **more: object) -> dict[str, Any]:
    """One provider with hints for r0, r1, ... on a machine with four nodes."""
    hints = {f"r{i}": listed for i, listed in enumerate(resources)}
    return {"policy": policy, "numaNodes": [0, 1, 2, 3], "providersHints": [hints]} | more


@pytest.mark.parametrize(("version", "admit"), [("1.23.17", True), ("1.24.0", False)])
def test_masks_must_be_equal_since_1_24(version: str, admit: bool) -> None:
    """Nodes 0 and 0+1 merge to node 0, which is not preferred any more."""
    outcome = LINES.decided(version, case("restricted", [hint(0)], [hint(0, 1)]))
    assert outcome == {"affinity": [0], "preferred": admit, "admit": admit}


@pytest.mark.parametrize(("version", "affinity"), [("1.23.17", [1]), ("1.24.0", [0, 1])])
def test_not_preferred_fits_the_widest_need_since_1_24(version: str, affinity: list[int]) -> None:
    """A resource that needs two nodes makes two the best number."""
    wide, narrow = hint(0, 1, preferred=False), hint(1, 2, preferred=False)
    made = case("best-effort", [wide, narrow], [hint(0, 1, 3), hint(2, 3)])
    assert LINES.decided(version, made)["affinity"] == affinity


def test_closest_nodes() -> None:
    """Of two pairs of nodes the nearer one, if the option is on and the version has it."""
    far = {
        "0": [10, 31, 21, 31],
        "1": [31, 10, 31, 11],
        "2": [21, 31, 10, 31],
        "3": [31, 11, 31, 10],
    }
    made = case("best-effort", [hint(0, 1), hint(0, 2)], numaDistances=far)
    on = made | {"preferClosestNUMANodes": True}
    assert LINES.decided("1.26.0", made)["affinity"] == [0, 1]
    assert LINES.decided("1.26.0", on)["affinity"] == [0, 2]
    assert LINES.decided("1.25.0", on)["affinity"] == [0, 1]
