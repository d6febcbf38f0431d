"""Opening files that someone else may have put there: regular files, and nothing else.

A ledger, a recording or a scenario may come from anyone. A link would lead out of it, a pipe
would never answer, a device would never end.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

_BLOCK_BYTES = 1 << 20


class NotRegularError(OSError):
    """A link, a pipe, a device, a directory where a file should be; its name is given."""


def open_regular(path: Path, *, links: bool = False) -> BinaryIO:
    """Open a file for reading.

    Args:
        path: its last part is no link, unless these are allowed.
        links: the user named it, so it may be one.

    Raises:
        OSError: it cannot be opened, or is not a regular file.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotRegularError(errno.ELOOP, "a link, not a regular file", str(path)) from None
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegularError(errno.EINVAL, "no regular file", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, bytes_max: int, *, links: bool = False) -> bytes:
    """The content of a file.

    Raises:
        OSError: as :func:`open_regular`; or there are more bytes than that.
    """
    with open_regular(path, links=links) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(min(size, bytes_max) + 1)  # no more memory than it may need
    if len(data) > bytes_max:
        raise OSError(errno.EFBIG, f"larger than {bytes_max >> 20} MiB", str(path))
    return data


def file_crc(path: Path) -> str:
    """CRC-32 of a file's bytes, 8 hex digits.

    Raises:
        OSError: as :func:`open_regular`.
    """
    with open_regular(path) as file:
        return crc_of(file)


def crc_of(file: BinaryIO) -> str:
    """CRC-32 of the bytes from a file's position on, 8 hex digits."""
    crc = 0
    while block := file.read(_BLOCK_BYTES):
        crc = crc32(block, crc)
    return f"{crc:08x}"
