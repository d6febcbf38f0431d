"""An ID of which one line tells other digits than all else: no container is made of it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from kubeledger.importers.altered_ids import altered_ids, told_ids
from kubeledger.importers.api import import_sources
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.records import FindingReported
from kubeledger.lifecycle.disputes import Dispute, dispute_of
from kubeledger.lifecycle.records import (
    ContainerDied,
    ContainerKilled,
    ContainerRestarted,
    ContainerStarted,
)
from kubeledger.machine import Body
from tests.importers.pod_world import klog, of, tell, values, world

UID = "aaaaaaaa-0000-4000-8000-00000000000a"
FIRST, SECOND = (hashlib.sha256(text).hexdigest() for text in (b"first", b"second"))
LIE = format((int(FIRST[0], 16) + 1) % 16, "x") + FIRST[1:]


def _pleg(clock: str, kind: str, container_id: str) -> str:
    event = f'{{"ID":"{UID}","Type":"{kind}","Data":"{container_id}"}}'
    message = f'"SyncLoop (PLEG): event for pod" pod="shop/a" event={event}'
    return klog(clock, "kubelet.go", message)


def _kill(clock: str, container_id: str, grace_s: int = 2, more: str = "") -> str:
    keys = f'pod="shop/a" podUID="{UID}" containerName="web" containerID="x://{container_id}"'
    message = f'"Killing container with a grace period{more}" {keys} gracePeriod={grace_s}'
    return klog(clock, "kuberuntime_container.go", message)


def _log(started: str, killed: str, again: str, died: str) -> list[str]:
    return [
        klog("10:00:00.000000", "kubelet.go", '"SyncLoop ADD" source="api" pods=["shop/a"]'),
        _pleg("10:00:02.000000", "ContainerStarted", started),
        _kill("10:00:30.000000", killed, more=" override"),
        _kill("10:00:30.000100", again),
        _pleg("10:00:33.000000", "ContainerDied", died),
        _pleg("10:00:33.000100", "ContainerStarted", SECOND),
        _kill("10:01:30.000000", SECOND),
    ]


@pytest.mark.parametrize("place", range(4))
def test_a_line_with_another_id(place: int, tmp_path: Path) -> None:
    """The story is told as by all other lines, and the disagreement beside it."""
    told = [FIRST] * 4
    told[place] = LIE
    log = tmp_path / "kubelet.log"
    log.write_text("\n".join(_log(*told)) + "\n")
    ledger = Ledger.create(tmp_path / "ledger")
    import_sources([str(log)], ledger)
    (node,) = ledger.nodes()
    found = [record.body for record in ledger.records(node)]

    def ids(kind: type[Body]) -> list[str]:
        return [values(body, "container_id")[0] for body in found if isinstance(body, kind)]

    assert ids(ContainerStarted) == [FIRST, SECOND]
    assert ids(ContainerKilled) == [FIRST, SECOND]
    assert ids(ContainerDied) == [FIRST]
    assert ids(ContainerRestarted) == [SECOND]
    disputes = [dispute_of(body.message) for body in found if isinstance(body, FindingReported)]
    (dispute,) = filter(None, disputes)
    assert (dispute.subject, dispute.here, dispute.elsewhere) == ("pod/shop/a", LIE, FIRST)


def test_which_one_is_real() -> None:
    """The one that lists hold; of others the one more lines tell, or the first."""
    assert altered_ids({LIE: 1, FIRST: 2, SECOND: 1}, ()) == {LIE: FIRST}
    assert altered_ids({LIE: 3, SECOND: 1}, (FIRST,)) == {LIE: FIRST}
    assert altered_ids({FIRST: 1, LIE: 1}, ()) == {LIE: FIRST}
    assert altered_ids({LIE: 1}, (FIRST, LIE)) == {}


def test_ids_that_only_look_alike() -> None:
    """Made-up ones, and what is no such ID."""
    assert altered_ids({"0" * 63 + "1": 1, "0" * 63 + "2": 2, "web-1": 1, "web-2": 1}, ()) == {}
    line = f"sha256:{FIRST} {FIRST} {SECOND}0 {SECOND[:32]}".encode()
    assert list(told_ids(line)) == [FIRST]


@pytest.mark.parametrize(
    ("given", "later", "used", "disputed"),
    [
        (2, "10:00:30.000100", 2, False),
        (30, "10:00:30.000100", 2, True),
        (2, "10:00:30.000100", 30, True),
        (1, "10:00:30.000100", 2, False),
        (30, "10:00:30.900000", 29, False),
        (30, "10:00:50.000000", 10, False),
    ],
)
def test_the_grace_period_of_a_kill(given: int, later: str, used: int, disputed: bool) -> None:
    """Two lines of one kill tell the same one, but for what a hook took and for the least."""
    log = [_kill("10:00:30.000000", FIRST, given, " override"), _kill(later, FIRST, used)]
    found = of(tell(world("1.36.2"), log), FindingReported)
    disputes = [dispute_of(body.message) for body in found]
    assert [dispute and dispute[2:] for dispute in disputes] == (
        [(f"{used} s", f"{given} s")] if disputed else []
    )


def test_of_old_the_override_came_behind() -> None:
    """Then it need not be what the line before it says, nor what a later kill says."""
    log = [
        _kill("10:00:30.000000", FIRST, 30),
        _kill("10:00:30.000100", FIRST, 5, " override"),
        _kill("10:00:30.100000", FIRST, 30),
    ]
    assert of(tell(world("1.22.0"), log), FindingReported) == []


def test_a_dispute_reads_what_it_writes() -> None:
    """And nothing else."""
    dispute = Dispute("pod/shop/a", "it: cannot be", "1", "2")
    assert dispute_of(dispute.message) == dispute
    assert dispute_of("the log was cut") is None
