"""Sealing: a full segment becomes a compressed one, and is never there in neither form."""

from __future__ import annotations

import os
from pathlib import Path

import zstandard

from kubeledger.ledger.compression import compress, decompress
from kubeledger.ledger.names import SEALED_SUFFIX, SEGMENT_SUFFIX, TEMPORARY_SUFFIX
from kubeledger.ledger.regular import file_crc, open_regular
from kubeledger.ledger.storage import new_file, remove, sync_directory
from kubeledger.model.errors import DamagedLedgerError


def seal(plain: Path, level: int) -> tuple[int, str]:
    """Compress a segment that nobody writes any more, then remove the plain file.

    A crash leaves a ``.tmp`` file, or both forms; :func:`finish_seals` tidies up.

    Args:
        plain: the segment's ``.jsonl``.
        level: of zstd.

    Returns:
        size of the sealed file in bytes, and its CRC (CRC-32, 8 hex digits).

    Raises:
        OSError: as the operating system says; the plain file is still there.
        DamagedLedgerError: what was compressed does not read back the same.
    """
    sealed = plain.with_name(plain.name.removesuffix(SEGMENT_SUFFIX) + SEALED_SUFFIX)
    temporary = sealed.with_name(sealed.name + TEMPORARY_SUFFIX)
    try:
        with open_regular(plain) as source, new_file(temporary) as target:
            compress(source, target, level)
        if not _same(plain, temporary):
            raise DamagedLedgerError("its compressed form differs", file=str(plain))
        crc = file_crc(temporary)
        os.replace(temporary, sealed)  # noqa: PTH105 - named as the system call it is
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(sealed.parent)
    remove(plain)
    return target.size_bytes, crc


def finish_seals(directory: Path) -> list[Path]:
    """After a crash: drop unfinished files, and plain files whose sealed form is whole.

    Returns:
        the files removed.

    Raises:
        DamagedLedgerError: both forms of a segment are there and differ.
        OSError: as the operating system says.
    """
    removed = sorted(directory.glob(f"*{TEMPORARY_SUFFIX}"))
    for sealed in sorted(directory.glob(f"*{SEALED_SUFFIX}")):
        plain = sealed.with_name(sealed.name.removesuffix(SEALED_SUFFIX) + SEGMENT_SUFFIX)
        if not plain.exists():
            continue
        if not _same(plain, sealed):
            raise DamagedLedgerError(
                f"this segment and its compressed form {sealed.name} differ",
                advice="keep the sound one (see `kubeledger audit`) and move the other away",
                file=str(plain),
            )
        removed.append(plain)
    for path in removed:
        remove(path)
    return removed


def _same(plain: Path, sealed: Path) -> bool:
    try:
        with open_regular(plain) as left, open_regular(sealed) as right:
            for block in decompress(right):
                if left.read(len(block)) != block:
                    return False
            return not left.read(1)
    except (EOFError, zstandard.ZstdError):
        return False
