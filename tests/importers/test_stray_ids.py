"""An ID that one line tells and nothing else, where another container must be meant."""

from __future__ import annotations

import hashlib

import pytest

from kubeledger.importers.stray_ids import Telling, stray_ids, telling_of
from kubeledger.units import NS_PER_S

POD, OTHER_POD = "aaaaaaaa-0000-4000-8000-00000000000a", "bbbbbbbb-0000-4000-8000-00000000000b"
FIRST, SECOND, THIRD, SANDBOX, STRAY = (hashlib.sha256(bytes([n])).hexdigest() for n in range(5))


def _told(second: float, kind: str, container_id: str, pod: str = POD) -> Telling:
    name = "web" if kind == "kill" else ""
    return Telling(int(second * NS_PER_S), kind, container_id, pod, name)


def _log() -> list[Telling]:
    """Each container is told more than once; the kill by two lines."""
    return [
        _told(1, "other", SANDBOX),
        _told(2, "other", SANDBOX),
        _told(2, "other", FIRST),
        _told(30, "kill", FIRST),
        _told(30.001, "kill", FIRST),
        _told(32.999, "ending", FIRST),
        _told(33, "died", FIRST),
        _told(33, "other", SECOND),
        _told(60, "kill", SECOND),
        _told(62, "died", SECOND),
        _told(63, "other", THIRD),
        _told(64, "other", THIRD),
    ]


@pytest.mark.parametrize(("place", "meant"), [(3, FIRST), (4, FIRST), (6, FIRST), (9, SECOND)])
def test_another_one_is_meant(place: int, meant: str) -> None:
    """What was killed or ended then, and is not told to have died; the other line of the kill."""
    told = _log()
    told[place] = told[place]._replace(container_id=STRAY)
    assert stray_ids(told, ()) == {STRAY: meant}
    assert stray_ids(told, {STRAY}) == {}
    assert stray_ids([each._replace(pod="") for each in told], ()) == {}


def test_no_other_one_may_be_meant() -> None:
    """Nothing is stray; it is of another pod; what was killed died by another line."""
    assert stray_ids(_log(), ()) == {}
    assert stray_ids([*_log(), _told(33, "died", STRAY, OTHER_POD)], ()) == {}
    assert stray_ids([*_log(), _told(33, "died", STRAY)], ()) == {}
    assert stray_ids([*_log(), _told(90, "died", STRAY)], ()) == {}


def test_a_log_that_lost_lines() -> None:
    """Others are told once, too: then it may be a container like they are."""
    told = _log()
    told[6] = told[6]._replace(container_id=STRAY)
    assert stray_ids([*told, _told(90, "died", OTHER_POD * 2)], ()) == {}
    # A kubelet that starts tells of many in one relist.
    many = [_told(0, "died", hashlib.sha256(bytes([n])).hexdigest()) for n in range(20, 25)]
    assert stray_ids([*told, *many], ()) == {STRAY: FIRST}


def test_lines() -> None:
    """Those that tell whose and what, and those that do not."""
    head = "I1121 10:00:00.000000       1 k.go:9] "
    kill = f'"Killing container with a grace period" podUID="{POD}" containerName="web"'
    found = telling_of(f'{head}{kill} containerID="x://{FIRST}"'.encode(), FIRST)
    assert found is not None
    assert found[1:] == ("kill", FIRST, POD, "web", "1")
    event = f'{{ID:"{POD}", Type:"ContainerDied", Data:"{FIRST}"}}'
    found = telling_of(f"{head}SyncLoop (PLEG): {event}".encode(), FIRST)
    assert found is not None
    assert found[1:] == ("died", FIRST, POD, "", "1")
    assert telling_of(b'{"ts":1.5,"msg":"ContainerDied"}', FIRST) is None
