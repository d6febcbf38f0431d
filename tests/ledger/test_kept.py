"""Kept sources: an audit tells of each that a later import could not read again."""

from pathlib import Path

import pytest
import zstandard

from kubeledger.ingest.sources.streams import digest_chunks
from kubeledger.ledger.audit import audit
from kubeledger.ledger.kept import (
    CAPTURE,
    HEAD,
    MARK,
    KeptImport,
    KeptSource,
    KeptSources,
    capture_flaws,
)
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.sealing import save_sealed
from tests.ledger.making import NODE, batch, ledger_of

TEXT = b"I1122 08:14:37.000000    1000 server.go:407] one line, and another one like it\n" * 3


@pytest.fixture
def kept(tmp_path: Path) -> tuple[Ledger, Path]:
    ledger = ledger_of(tmp_path / "ledger", batch(0, 3))
    digest = digest_chunks(iter((TEXT,))).digest
    source = KeptSource(
        file="kubelet.log", format="klog-text", size_bytes=len(TEXT), digest=digest, mtime_ns=0,
        first_ts_ns=0, last_ts_ns=1,
    )  # fmt: skip
    store = KeptSources(ledger.path, NODE)
    store.keep(
        KeptImport(
            digest="d" * 64, number=0, name="n", kubelet_version=None, year=None, sources=(source,)
        ),
        [(digest, iter((TEXT,)))],
    )
    return ledger, store.content(digest).parent


def unpacked(data: bytes) -> bytes | None:
    try:
        return zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError:
        return None


def problems(ledger: Ledger) -> list[str]:
    return [f"{Path(each.file).suffix}: {each.problem}" for each in audit(ledger).findings]


def test_a_file_that_is_gone(kept: tuple[Ledger, Path]) -> None:
    """The copy is missed by its list; without a list nobody would look for it."""
    ledger, directory = kept
    store, digest = KeptSources(ledger.path, NODE), "d" * 64
    assert (problems(ledger), store.is_whole(digest)) == ([], True)
    next(directory.glob("*.zst")).unlink()
    assert not store.is_whole(digest)
    assert problems(ledger) == [".zst: the kept copy of kubelet.log is not there"]


@pytest.mark.parametrize("suffix", [".zst", ".json"])
def test_every_byte(kept: tuple[Ledger, Path], suffix: str) -> None:
    """Each of them flipped, and the file cut after each; few flips change no content."""
    ledger, directory = kept
    path = next(directory.glob(f"*{suffix}"))
    whole = path.read_bytes()
    for at in range(len(whole)):
        flipped = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        path.write_bytes(flipped)
        is_harmless = suffix == ".zst" and unpacked(flipped) == TEXT
        assert bool(problems(ledger)) != is_harmless, at
        path.write_bytes(whole[:at])
        assert [each for each in problems(ledger) if "damaged" in each], at
    path.write_bytes(whole)
    assert problems(ledger) == []


def test_notes_are_written_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is killed among them begins again; none of them seems to be lost."""
    store, digests = KeptSources(tmp_path, NODE), ("a" * 64, "b" * 64)

    def interrupted(path: Path, value: KeptImport) -> None:
        if value.number:
            raise KeyboardInterrupt
        save_sealed(path, value)

    monkeypatch.setattr("kubeledger.ledger.kept.save_sealed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.begin(digests)
    assert list(store.flaws(digests)) == []
    monkeypatch.undo()
    store.begin(digests)
    assert (list(store.flaws(digests)), store.left(digests, ())) == ([], {False})
    assert [path.name for path in store.content("").parent.parent.iterdir()] == ["kept"]


@pytest.mark.parametrize(
    ("left", "is_flaw"),
    [
        (b"", False),
        (MARK[:2], False),
        (MARK + b"12", False),
        (b"KLX", True),
        (HEAD.pack(MARK, 100, 0), False),
        (HEAD.pack(b"KLX1", 100, 0), True),
        (HEAD.pack(MARK, 3, 0) + b"all", True),
    ],
)
def test_the_begin_of_a_frame_is_no_flaw(tmp_path: Path, left: bytes, is_flaw: bool) -> None:
    """A writer is at work, or crashed; what is whole and wrong, or begins otherwise, is one."""
    chapter = tmp_path / "nodes" / NODE / CAPTURE / "1.open"
    chapter.parent.mkdir(parents=True)
    chapter.write_bytes(left)
    assert [at for _, at, _ in capture_flaws(tmp_path, NODE)] == [0] * is_flaw
