"""The end of a writer: what it need not write again, and the lock that it never keeps."""

from pathlib import Path

import pytest

from kubeledger.ledger import writer
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import Manifest, save_manifest
from kubeledger.ledger.storage import MANIFEST
from kubeledger.ledger.tail import Draft
from kubeledger.model.bodies.ledger import ImportStarted
from tests.ledger.making import NODE, append, batch, ledger_of

BEGIN = Draft(0, ImportStarted(digest="d", kubeledger_version="1", sources=(), year=None))


@pytest.mark.parametrize(("then", "saves"), [([], 1), (batch(0, 1), 2)])
def test_a_manifest_is_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: list[Draft], saves: int
) -> None:
    """Closing writes it only where it says something that was not written."""
    saved: list[Path] = []

    def save(directory: Path, manifest: Manifest) -> None:
        saved.append(directory)
        save_manifest(directory, manifest)

    ledger = Ledger.create(tmp_path / "l")
    monkeypatch.setattr(writer, "save_manifest", save)
    with ledger.writer() as into:
        into.append(NODE, [BEGIN])
        into.append(NODE, then)
    assert len(saved) == saves
    with ledger.writer():  # notes where the import stands that is not complete
        pass
    before = (ledger.path / MANIFEST).read_bytes()
    with ledger.writer():
        pass
    assert (ledger.path / MANIFEST).read_bytes() == before
    assert ledger.manifest().nodes[NODE].last_seq == 1 + len(then)


def test_an_interrupt_at_the_very_end_leaves_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that goes on after it can write again."""
    ledger = ledger_of(tmp_path / "l", batch(0, 1))

    def interrupt(path: Path, missing_ok: bool = False) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", interrupt)
        with pytest.raises(KeyboardInterrupt) as caught, ledger.writer():
            pass
    assert append(ledger, batch(1, 1)) == [[2]]
    assert caught.tb is not None  # whoever holds the traceback holds what it saw, a lock too
