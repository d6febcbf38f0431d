"""Shipping beside a recorder: storage that fails costs nothing but time."""

import threading
from pathlib import Path

import pytest

from kubeledger.ledger.ledger import Ledger
from kubeledger.model.errors import BadQuestionError, LedgerBusyError
from kubeledger.record import shipping
from kubeledger.record.metrics import Metrics
from kubeledger.record.shipping import ShippingThread, abandoned, follow
from kubeledger.remote.store import StorageError, Store
from tests.ledger.making import append, batch, ledger_of
from tests.record.test_metrics import samples
from tests.waiting import PATIENCE_S, until


def small(path: Path) -> Ledger:
    """Two sealed segments, and an open one."""
    return ledger_of(path, batch(0, 4), batch(4, 4), batch(8, 1), segment_bytes=1000)


def test_what_is_sealed_is_shipped_at_once(tmp_path: Path) -> None:
    """And once more at the end; the numbers say so."""
    ledger, metrics, troubles = small(tmp_path / "l"), Metrics(), list[str]()
    thread = ShippingThread(ledger, str(tmp_path / "place"), metrics, troubles.append)
    until(lambda: samples(metrics).get(("kubeledger_segments_shipped_total",)) == 2)
    append(ledger, batch(9, 4))
    thread.sealed()
    until(lambda: samples(metrics)["kubeledger_segments_shipped_total",] == 3)
    append(ledger, batch(13, 4))
    assert thread.close()
    read = samples(metrics)
    assert read["kubeledger_segments_shipped_total",] == 4
    assert read["kubeledger_ship_backlog_segments",] == 0
    assert read["kubeledger_ship_failures_total",] == 0
    assert read["kubeledger_ship_last_success_timestamp_seconds",] > 1e9
    assert troubles == []
    assert not abandoned()
    assert len([each for each in Store(str(tmp_path / "place")).list() if "segm" in each.path]) == 4


def test_storage_that_fails_is_put_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same trouble is reported once; when it is over, what was left is shipped."""
    monkeypatch.setattr(shipping, "_PAUSES_S", (0.001, 0.01))
    ledger, metrics, troubles = small(tmp_path / "l"), Metrics(), list[str]()
    failing = threading.Event()
    failing.set()
    create = Store.create

    def fails(self: Store, path: str, content: bytes | Path) -> bool:
        if failing.is_set():
            raise StorageError("storage failed: 503", file=path)
        return create(self, path, content)

    monkeypatch.setattr(Store, "create", fails)
    thread = ShippingThread(ledger, str(tmp_path / "place"), metrics, troubles.append)
    until(lambda: samples(metrics).get(("kubeledger_ship_failures_total",), 0) >= 3)
    assert samples(metrics)["kubeledger_ship_backlog_segments",] == 2
    assert len(troubles) == 1
    failing.clear()
    until(lambda: samples(metrics)["kubeledger_segments_shipped_total",] == 2)
    assert thread.close()


def test_storage_that_hangs_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorder ends; the call that goes on is named, so that the process may end at once."""
    hanging, begun = threading.Event(), threading.Event()

    def hangs(*_: object) -> bool:
        begun.set()
        hanging.wait(PATIENCE_S)
        return True

    monkeypatch.setattr(Store, "create", hangs)
    thread = ShippingThread(small(tmp_path / "l"), str(tmp_path / "p"), Metrics(), lambda _: None)
    assert begun.wait(PATIENCE_S)
    assert not thread.close(timeout_s=0.01)
    assert abandoned()
    hanging.set()
    until(lambda: not abandoned())


@pytest.mark.parametrize(("hurried", "in_wait"), [(False, True), (True, True), (True, False)])
def test_who_is_in_a_hurry_gets_no_further_round(
    hurried: bool, in_wait: bool, tmp_path: Path
) -> None:
    """Asked to stop, it ships once more what is sealed; in a hurry, the segment under way."""
    ledger = ledger_of(tmp_path / "l", batch(0, 4), batch(4, 4), segment_bytes=1000)
    shipped: list[int] = []
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        append(ledger, batch(8, 4))
        return False

    follow(
        ledger,
        str(tmp_path / "p"),
        Metrics(),
        on_shipped=lambda shipment: shipped.append(shipment.last_seq),
        on_trouble=pytest.fail,
        wait=wait,
        hurried=lambda: hurried and bool(waits if in_wait else shipped),
    )
    assert len(waits) == 1
    assert shipped == ([4] if not in_wait else [4, 8] if hurried else [4, 8, 12])


def test_who_interrupts_does_not_wait_for_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorder ends at once, and what is not stored is shipped by the next one."""
    free = threading.Event()
    monkeypatch.setattr(Store, "create", lambda *_: free.wait())
    monkeypatch.setattr(shipping, "CLOSE_S", 10 * PATIENCE_S)
    thread = ShippingThread(small(tmp_path / "l"), str(tmp_path / "p"), Metrics(), lambda _: None)
    with pytest.raises(KeyboardInterrupt), thread:
        raise KeyboardInterrupt
    assert abandoned()
    free.set()
    until(lambda: not abandoned())


def test_a_bug_does_not_end_the_recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> bool:
        raise ZeroDivisionError

    monkeypatch.setattr(Store, "create", breaks)
    metrics, troubles = Metrics(), list[str]()
    thread = ShippingThread(small(tmp_path / "l"), str(tmp_path / "p"), metrics, troubles.append)
    until(lambda: bool(troubles))
    assert thread.close()
    assert "bug in kubeledger" in troubles[0]
    assert samples(metrics)["kubeledger_ship_failures_total",] == 1


def test_what_is_wrong_from_the_start_is_said_at_once(tmp_path: Path) -> None:
    ledger = small(tmp_path / "l")
    with pytest.raises(BadQuestionError):
        ShippingThread(ledger, "ftp://x", Metrics(), print)
    thread = ShippingThread(ledger, str(tmp_path / "p"), Metrics(), print)
    with pytest.raises(LedgerBusyError):
        ShippingThread(ledger, str(tmp_path / "p"), Metrics(), print)
    assert thread.close()
