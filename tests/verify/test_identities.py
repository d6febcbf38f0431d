"""Sources that hide names: ordinary nodes and single lies do not look like them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kubeledger.model.units import NS_PER_S
from kubeledger.verify.evidence.history_entries import HistoryEntry, Listing
from kubeledger.verify.evidence.identities import are_unjoined

Pod = dict[str | None, Sequence[HistoryEntry]]


def _logged(at_s: int, container_id: str | None = None, container: str = "c") -> HistoryEntry:
    return HistoryEntry(at_s * NS_PER_S, 1, "started", container=container,
                        container_id=container_id)  # fmt: skip


def _listed(at_s: int, created_s: int, *, mirror: bool = False) -> HistoryEntry:
    listing = Listing(by="api", alive=True, created_ns=created_s * NS_PER_S, mirror=mirror)
    return HistoryEntry(at_s * NS_PER_S, 1, "listed", listing=listing)


@pytest.mark.parametrize(
    ("of_name", "hidden"),
    [
        pytest.param({"x": [_logged(110)], "u": [_listed(300, 99)]}, True, id="two UIDs at once"),
        pytest.param({"x": [_logged(100)], "u": [_logged(200), _listed(300, 190)]}, False,
                     id="recreated under one name"),
        pytest.param({"x": [_logged(100)], "u": [_listed(9000, 8000)]}, False,
                     id="lists of hours later"),
        pytest.param({"x": [_logged(200)], "u": [_listed(50, 10)]}, False, id="lists from before"),
        pytest.param({"x": [_logged(200)], "u": [_listed(300, 101, mirror=True)]}, False,
                     id="a static pod and its mirror"),
    ],
)  # fmt: skip
def test_uids_of_lists_and_log(of_name: Pod, hidden: bool) -> None:
    several = dict[str, Pod]()
    for n in range(2):
        several[f"d/p-{n}"] = {f"{uid}-{n}": entries for uid, entries in of_name.items()}
    assert are_unjoined(several) is hidden
    assert not are_unjoined({"d/p": of_name}), "a single line that is wrong hides nothing"


def test_one_container_id() -> None:
    """One line is wrong by itself; an ID that is several pods', or a mask, stands for others."""
    pod: Pod = {"u": [_logged(1, "a"), _logged(2, "a", "b"), _logged(3, "<id>", "e")]}
    assert not are_unjoined({"d/p": pod, "d/q": {"v": [_logged(4, "a")]}})
    assert are_unjoined({f"d/{n}": {n: [_logged(1, "a")]} for n in "pqr"})
    assert are_unjoined({"d/p": {"u": [_logged(1, "<id>"), _logged(2, "<id>", "b")]}})
