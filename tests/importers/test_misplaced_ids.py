"""A line of one pod that names a container of another one."""

from __future__ import annotations

import pytest

from kubeledger.importers.context import ContainerRef
from kubeledger.importers.misplaced_ids import misplaced_ids
from kubeledger.importers.stray_ids import Telling
from kubeledger.units import NS_PER_S

POD, OTHER = "aaaaaaaa-0000-4000-8000-00000000000a", "bbbbbbbb-0000-4000-8000-00000000000b"


def _told(second: float, kind: str, container_id: str, pod: str) -> Telling:
    return Telling(int(second * NS_PER_S), kind, container_id, pod, "", "7")


def _log() -> list[Telling]:
    """Two pods, each with a sandbox and a container that ends."""
    return [
        _told(begin + after, kind, name, pod)
        for begin, pod, names in ((1, POD, ("s", "c")), (20, OTHER, ("t", "d")))
        for after, kind, name in (
            (1, "other", names[0]),
            (1.5, "started", names[0]),
            (2, "other", names[1]),
            (2.5, "started", names[1]),
            (9, "ending", names[1]),
            (9.5, "died", names[1]),
        )
    ]


@pytest.mark.parametrize(
    ("place", "told", "meant"), [(1, "t", "s"), (3, "d", "c"), (3, "t", "c"), (5, "d", "c")]
)
def test_another_one_is_meant(place: int, told: str, meant: str) -> None:
    """What began then and is not told to have started; what ended and is not told to be dead."""
    log = _log()
    log[place] = log[place]._replace(container_id=told)
    assert misplaced_ids(log, {}, {}) == {(told, POD): meant}


def test_it_is_not_clear_which_one_is_meant() -> None:
    """That it is not the one that is named is certain nevertheless."""
    log = [each for each in _log() if each.kind != "other"]
    log[0] = log[0]._replace(container_id="t")
    log.append(_told(22, "other", "t", OTHER))
    assert misplaced_ids(log, {}, {}) == {("t", POD): None}


def test_whose_it_is() -> None:
    """Pod lists tell, or two lines against one; else nobody knows."""
    assert misplaced_ids(_log(), {}, {}) == {}
    pair = [_told(1, "started", "c", POD), _told(2, "died", "c", OTHER)]
    assert misplaced_ids(pair, {}, {}) == {}
    listed = {"c": ContainerRef(pod_uid=POD, container="web")}
    assert misplaced_ids(pair, listed, {}) == {("c", OTHER): None}
    assert misplaced_ids([*pair, _told(3, "kill", "c", "")], {}, {}) == {}
