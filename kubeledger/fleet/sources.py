"""Sources of a fleet: found by patterns, known by their stamps, fetched to this machine.

A source is a file (an archive, a recording) or a directory (a bundle, a ledger), on this machine
or in object storage, where all objects below a prefix are a directory.
"""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from errno import ENOSPC
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from kubeledger.fleet.types import SourceSeen
from kubeledger.model.errors import BadInputError, BadQuestionError
from kubeledger.remote.store import Store, absolute_url, digest_of_file

_DIGEST_BYTES = 16
_DOWNLOADS = 8


class Fetched(NamedTuple):
    """A source on this machine.

    Attributes:
        path: file or directory, called as it is at its URL; not to be written to.
        seen: what it was when it was fetched.
    """

    path: Path
    seen: SourceSeen


class _Entry(NamedTuple):
    """One file of a source.

    Attributes:
        name: below the source; empty where the source is a single file.
        tag: changes with the content.
        modified_ns: when it was written, ns since the epoch.
    """

    name: str
    size_bytes: int
    tag: str
    modified_ns: int


def expand(sources: Sequence[str]) -> list[str]:
    """The sources that a user names, each once, in their order.

    Args:
        sources: local paths and URLs; ``*`` stands for any part of a name between two slashes.

    Returns:
        (n,) absolute URLs.

    Raises:
        BadQuestionError: nothing matches a pattern, or a URL is not one.
        StorageError: a bucket cannot be listed.
    """
    found: dict[str, None] = {}
    for source in sources:
        url = absolute_url(source)
        is_pattern = "*" in url and ("://" in url or not Path(url).exists())
        found |= dict.fromkeys(_matching(url) if is_pattern else [url])
    return list(found)


def _matching(pattern: str) -> list[str]:
    begin, _, _ = pattern.partition("*")
    if "://" in pattern:
        base = begin.rpartition("/")[0]
        if base.endswith("/"):
            raise BadQuestionError("a pattern begins below a bucket", file=pattern)
        wanted = pattern[len(base) + 1 :].split("/")
        objects, refused = Store(base).find()
        found = [(each.path.split("/")[: len(wanted)], wanted) for each in objects]
        # A folder that cannot be listed is a source, too: one that fails, and says why.
        for path in (each.path for each in refused):
            parts = path.split("/")[: len(wanted)] if path else []
            found.append((parts, wanted[: len(parts)]))
        paths = {"/".join(parts) for parts, names in found if _matches(parts, names)}
        matching = [f"{base}/{path}".rstrip("/") for path in sorted(paths)]
    else:
        matching = sorted(glob.glob(glob.escape(pattern).replace("[*]", "*")))  # noqa: PTH207 - a pattern of an absolute path
    if not matching:
        raise BadQuestionError("nothing matches the pattern", file=pattern)
    return matching


def _matches(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether names match patterns one by one; as in a shell, ``*`` stands for no hidden name."""
    return len(parts) == len(wanted) and all(
        fnmatchcase(part, pattern.replace("[", "[[]").replace("?", "[?]"))
        and part.startswith(".") <= pattern.startswith(".")
        for part, pattern in zip(parts, wanted, strict=True)
    )


def stamp_of(url: str) -> str:
    """Shows, without reading a source, whether it is as it was: 32 hex digits.

    Raises:
        BadInputError: there is nothing, or it cannot be looked at.
        StorageError: storage does not answer.
    """
    return _stamp(_listed(url))


def fetch(url: str, scratch: Path) -> Fetched:
    """Bring a source to this machine; one that is there already stays where it is.

    Args:
        scratch: an empty directory for what is brought here; the caller removes it.

    Raises:
        BadInputError: there is nothing, or it changes while it is read.
        StorageError: storage does not answer, or not as it should.
        OSError: the disk is full, or a file cannot be read.
    """
    entries = _listed(url)
    size_bytes = sum(entry.size_bytes for entry in entries)
    _need_room(scratch, size_bytes)
    if "://" not in url:
        path = Path(url)
    else:
        # A log that names no node is called by the directory that it lies in.
        parent, name = url.rstrip("/").split("/")[-2:]
        path = scratch / (parent or "bucket") / name
        _download(url, path, entries)
    try:
        digest = _digest(path, entries)
    except FileNotFoundError as error:
        raise _changed(url) from error
    seen = SourceSeen(url=url, stamp=_stamp(entries), digest=digest, size_bytes=size_bytes)
    refuse_changed(seen)
    return Fetched(path, seen)


def refuse_changed(seen: SourceSeen) -> None:
    """Make sure that a source is as it was.

    Raises:
        BadInputError: somebody writes to it.
        StorageError: storage does not answer.
    """
    if stamp_of(seen.url) != seen.stamp:
        raise _changed(seen.url)


def _changed(url: str) -> BadInputError:
    return BadInputError(
        "it changed while it was read", advice="import it again when it is whole", file=url
    )


# --- what there is ------------------------------------------------------------------------


def _listed(url: str) -> list[_Entry]:
    """Files of a source, sorted by name."""
    found = _listed_remote(url) if "://" in url else _listed_local(Path(url))
    if not found:
        raise BadInputError(
            "there is nothing with that name", advice="check the name and who may read it", file=url
        )
    return sorted(found)


def _listed_remote(url: str) -> list[_Entry]:
    base, _, name = url.rpartition("/")
    one = Store(base).stat(name) if not base.endswith("/") else None  # else it is a bucket
    if one is not None:
        return [_Entry("", one.size_bytes, one.tag, one.modified_ns)]
    objects, refused = Store(url).find()
    for folder in refused:
        raise BadInputError(
            f"holds an object that cannot be a file: {folder.reason}",
            advice="remove or rename that object, and import again",
            file=f"{url}/{folder.path}".rstrip("/"),
        )
    found = [_Entry(*each) for each in objects if each.path]
    directories = {str(above) for each in found for above in PurePosixPath(each.name).parents}
    # Consoles put an empty object where a directory would be.
    return [each for each in found if each.name not in directories]


def _listed_local(path: Path) -> list[_Entry]:
    try:
        if not path.is_dir():
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):  # reading a pipe may wait for ever
                raise BadInputError("is neither a regular file nor a directory", file=str(path))
            return [_Entry("", status.st_size, _tag(status), status.st_mtime_ns)]
        found = []
        for directory, _, names in os.walk(path):
            for file in (Path(directory, name) for name in names):
                if file.is_file():
                    status = file.stat()
                    name = file.relative_to(path).as_posix()
                    found.append(_Entry(name, status.st_size, _tag(status), status.st_mtime_ns))
        return found
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise BadInputError(f"cannot be read: {reason}", file=str(path)) from error


def _tag(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns}"


def _stamp(entries: Sequence[_Entry]) -> str:
    return _digest_of(f"{entry.name}\0{entry.size_bytes}\0{entry.tag}\n" for entry in entries)


def _digest(path: Path, entries: Sequence[_Entry]) -> str:
    """Of the content: the same wherever it lies."""
    if not entries[0].name:
        return digest_of_file(path)
    return _digest_of(f"{each.name}\0{digest_of_file(path / each.name)}\n" for each in entries)


def _digest_of(lines: Iterable[str]) -> str:
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for line in lines:
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


# --- bringing it here ---------------------------------------------------------------------


def _need_room(scratch: Path, size_bytes: int) -> None:
    """An import of files takes at least as much again as they do."""
    free_bytes = shutil.disk_usage(scratch).free
    if free_bytes < 2 * size_bytes:
        raise OSError(ENOSPC, f"{2 * size_bytes} bytes are needed and {free_bytes} free", scratch)


def _download(url: str, path: Path, entries: Sequence[_Entry]) -> None:
    """Copy objects; a file is dated as its object, for a log may have no year of its own."""
    base, _, name = url.rpartition("/")
    is_one = not entries[0].name
    store = Store(base if is_one else url)

    def copy(entry: _Entry) -> None:
        file = path / entry.name if entry.name else path
        file.parent.mkdir(parents=True, exist_ok=True)
        store.download(name if is_one else entry.name, file)
        if file.stat().st_size != entry.size_bytes:
            raise _changed(url)
        os.utime(file, ns=(entry.modified_ns, entry.modified_ns))

    with ThreadPoolExecutor(_DOWNLOADS, "kubeledger-fetch") as pool:
        for _ in pool.map(copy, entries):
            pass
