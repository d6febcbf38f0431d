"""An ID that only the line of a start tells, where another container must be meant."""

from __future__ import annotations

import hashlib

import pytest

from kubeledger.importers.instances import Instance
from kubeledger.importers.started_ids import replaced_starts
from kubeledger.importers.stray_ids import Telling, telling_of
from kubeledger.units import NS_PER_S

POD, OTHER_POD = "aaaaaaaa-0000-4000-8000-00000000000a", "bbbbbbbb-0000-4000-8000-00000000000b"
SANDBOX, FIRST, SECOND, FOREIGN, STRAY = (hashlib.sha256(bytes([n])).hexdigest() for n in range(5))


def _told(second: float, kind: str, container_id: str, pod: str = POD, pid: str = "7") -> Telling:
    return Telling(int(second * NS_PER_S), kind, container_id, pod, "", pid)


def _log() -> list[Telling]:
    """What had ended before the process; then a pod with a container that is replaced."""
    return [
        _told(1, "died", FOREIGN, OTHER_POD),
        _told(2, "other", SANDBOX),
        _told(2.5, "started", SANDBOX),
        _told(3, "other", FIRST),
        _told(3.5, "started", FIRST),
        _told(30, "died", FIRST),
        _told(31, "other", SECOND),
        _told(31.5, "started", SECOND),
    ]


def _restart() -> list[Telling]:
    """Another process tells anew of what runs."""
    return [
        *_log(),
        _told(61, "other", SANDBOX, pid="8"),
        _told(61, "other", SECOND, pid="8"),
        _told(62, "started", SANDBOX, pid="8"),
        _told(62, "started", SECOND, pid="8"),
    ]


@pytest.mark.parametrize(
    ("place", "meant"), [(2, SANDBOX), (4, FIRST), (7, SECOND), (10, SANDBOX), (11, SECOND)]
)
def test_another_one_is_meant(place: int, meant: str) -> None:
    """What began then, and is not told to have started in that process."""
    told = _restart()
    told[place] = told[place]._replace(container_id=STRAY)
    assert replaced_starts(told, {}) == {STRAY: meant}
    assert replaced_starts(told, {STRAY: Instance(POD, "web")}) == {}
    told[place] = told[place]._replace(pod="")
    assert replaced_starts(told, {}) == {}


def test_nothing_is_concluded() -> None:
    """All is as it has to be; it is another pod's; nothing of its pod lacks its start."""
    assert replaced_starts(_restart(), {}) == {}
    assert replaced_starts([*_restart(), _told(70, "started", STRAY, OTHER_POD)], {}) == {}
    assert replaced_starts([*_restart(), _told(70, "started", STRAY)], {}) == {}


def test_a_log_that_lost_lines() -> None:
    """Another one is told once, too; or two of the pod lack their start."""
    told = _log()
    told[7] = told[7]._replace(container_id=STRAY)
    assert replaced_starts([*told, _told(40, "died", FOREIGN[::-1], OTHER_POD)], {}) == {}
    assert replaced_starts([*told, _told(41, "started", FOREIGN[::-1], OTHER_POD)], {}) == {}
    assert replaced_starts([each for each in told if each.kind != "other"], {}) == {}
    told[2] = told[2]._replace(kind="other")
    assert replaced_starts(told, {}) == {}


def test_what_began_long_before() -> None:
    """It is not what starts now."""
    told = [*_log()[:7], _told(131, "started", STRAY)]
    assert replaced_starts(told, {}) == {}


@pytest.mark.parametrize(
    "words",
    [
        f'SyncLoop (PLEG): "a_b({POD})", event: &pleg.PodLifecycleEvent{{ID:"{POD}", '
        f'Type:"ContainerStarted", Data:"{FIRST}"}}',
        f'"SyncLoop (PLEG): event for pod" pod="b/a" event={{"ID":"{POD}",'
        f'"Type":"ContainerStarted","Data":"{FIRST}"}}',
    ],
)
def test_lines_of_starts(words: str) -> None:
    """Of old and new kubelets."""
    body = f"I0101 00:00:01.000000    7 kubelet.go:1] {words}".encode()
    told = telling_of(body, FIRST)
    assert told is not None
    assert told[1:] == ("started", FIRST, POD, "", "7")


@pytest.mark.parametrize(
    "words",
    [
        f'Created PodSandbox "{FIRST}" for pod "a_b({POD})"',
        f'Added container: "/kubepods/burstable/pod{POD}/{FIRST}" (aliases: [], namespace: "")',
        'Added container: "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod'
        f'{POD.replace("-", "_")}.slice/cri-containerd-{FIRST}.scope" (aliases: [])',
    ],
)
def test_lines_that_tell_the_pod(words: str) -> None:
    """By its name and UID, or by its cgroup's path."""
    told = telling_of(f"I0101 00:00:01.000000    7 manager.go:1] {words}".encode(), FIRST)
    assert told is not None
    assert (told.kind, told.pod) == ("other", POD)
