"""The recordings of the repository, unpacked and imported, for tests and benchmarks."""

import io
import shutil
import tarfile
import tempfile
from functools import cache
from pathlib import Path

import zstandard

from kubeledger.ingest.api import ImportReport, import_sources
from kubeledger.ledger.ledger import Ledger

RECORDINGS = Path(__file__).parent.parent / "recordings"


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
def _imported(name: str) -> tuple[tempfile.TemporaryDirectory[str], ImportReport]:
    """A ledger of a recording; the directory is removed when the process ends."""
    directory = tempfile.TemporaryDirectory(prefix="recording-")
    return directory, import_anew(name, Path(directory.name) / "ledger")[1]


def import_recording(name: str, directory: Path) -> tuple[Ledger, ImportReport]:
    """As :func:`import_anew`, but a copy of what was imported once in this process."""
    made, report = _imported(name)
    shutil.copytree(Path(made.name) / "ledger", directory)
    return Ledger.open(directory), report
