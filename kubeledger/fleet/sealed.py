"""A ledger as one file: ``.tar.zst``, the same bytes for the same ledger on any machine."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import zstandard

from kubeledger.errors import DamagedLedgerError
from kubeledger.history.history import LOCK
from kubeledger.history.index import HISTORY
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.manifest import Manifest, save_manifest
from kubeledger.ledger.names import NODES, SNAPSHOTS, TEMPORARY_SUFFIX, node_directory

__all__ = ["copy_node", "seal_ledger", "unseal_ledger"]

_LEVEL = 9
_LEFT_OUT = frozenset({HISTORY, LOCK, "writer.lock", "writer.pid"})
"""What is made again of the rest, and locks; so are the nodes' snapshots."""


def seal_ledger(directory: Path, file: Path) -> None:
    """Write a ledger that nobody writes to into a new file.

    Raises:
        OSError: it cannot be read or written.
    """
    packer = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
    with (
        file.open("xb") as out,
        packer.stream_writer(out, closefd=False) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in _files(directory):
            member = tarfile.TarInfo(path.relative_to(directory).as_posix())
            member.size = path.stat().st_size
            with path.open("rb") as content:
                archive.addfile(member, content)


def unseal_ledger(file: Path, directory: Path) -> None:
    """Unpack a sealed ledger into a new directory.

    Raises:
        DamagedLedgerError: it is not what was sealed.
        OSError: it cannot be read or written.
    """
    unpacker = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    try:
        with (
            file.open("rb") as packed,
            unpacker.stream_reader(packed) as plain,
            tarfile.open(fileobj=plain, mode="r|") as archive,
        ):
            archive.extractall(directory, filter="data")
            while plain.read(1 << 20):  # the checksum stands at the end
                pass
    except (tarfile.TarError, zstandard.ZstdError, EOFError, ValueError) as error:
        raise DamagedLedgerError(
            f"the sealed ledger cannot be unpacked: {error}",
            advice="restore the file from a copy, or remove the node and import its sources again",
            file=str(file),
        ) from error


def copy_node(ledger: Ledger, node: str, directory: Path) -> None:
    """Make a new ledger that holds one node of another one.

    Raises:
        KubeledgerError: the ledger cannot be read.
        OSError: it cannot be read or copied.
    """
    manifest = Manifest(nodes={node: ledger.info(node)})
    place = f"{NODES}/{node_directory(node)}/"
    for path in _files(ledger.path):
        name = path.relative_to(ledger.path).as_posix()
        if name.startswith(place):
            copy = directory / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    save_manifest(directory, manifest)


def _files(directory: Path) -> list[Path]:
    """Regular files that belong into a sealed ledger, by name."""
    found = []
    for path in sorted(directory.rglob("*")):
        parts = path.relative_to(directory).parts
        is_copy = parts[0] in _LEFT_OUT or (parts[0] == NODES and parts[2:3] == (SNAPSHOTS,))
        if path.is_file() and not (
            is_copy or path.is_symlink() or path.name.endswith(TEMPORARY_SUFFIX)
        ):
            found.append(path)
    return found
