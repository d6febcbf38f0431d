"""The recordings of the repository, unpacked and imported, for tests and benchmarks."""

import io
import pickle
import shutil
import tarfile
import tempfile
from fcntl import LOCK_EX, flock
from functools import cache
from pathlib import Path

import zstandard

from kubeledger.ingest.api import ImportReport, import_sources
from kubeledger.ledger.ledger import Ledger

RECORDINGS = Path(__file__).parent.parent / "recordings"
SHARED: Path | None = None
"""Where the processes of one test run put what each of them needs."""


def extract(name: str, directory: Path) -> Path:
    """Unpack ``recordings/<name>.tar.zst``; returns the node's directory."""
    packed = (RECORDINGS / f"{name}.tar.zst").read_bytes()
    data = zstandard.ZstdDecompressor().decompressobj().decompress(packed)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(directory, filter="data")
    return next(directory.glob(f"{name}-v*"))


def import_anew(name: str, directory: Path) -> tuple[Ledger, ImportReport]:
    """Import a recording as it lies in the repository into a new ledger."""
    ledger = Ledger.create(directory)
    return ledger, import_sources([str(RECORDINGS / f"{name}.tar.zst")], ledger)


@cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    """Removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="recordings-")


def _imported(name: str) -> tuple[Path, ImportReport]:
    """A ledger of a recording, made by the first process of a test run that asks."""
    place = (SHARED or Path(_scratch().name)) / name
    place.mkdir(exist_ok=True)
    report = place / "report.pickle"
    with (place / "lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if not report.exists():
            _, made = import_anew(name, place / "ledger")
            report.write_bytes(pickle.dumps(made))
    return place / "ledger", pickle.loads(report.read_bytes())


def import_recording(name: str, directory: Path) -> tuple[Ledger, ImportReport]:
    """As :func:`import_anew`, but a copy of what was imported once."""
    made, report = _imported(name)
    return Ledger.open(shutil.copytree(made, directory)), report
