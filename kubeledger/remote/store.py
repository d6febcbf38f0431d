"""Objects below a URL (a directory, ``s3://``, ``gs://``, ``az://``) by the same few verbs."""

from __future__ import annotations

import builtins
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from errno import EACCES, EEXIST, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, EPERM, EROFS
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

from kubeledger.ledger.storage import SHARED_DIRECTORY, make_directory, sync_directory
from kubeledger.model.errors import BadQuestionError, KubeledgerError

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore, RetryConfig

SCHEMES = ("s3", "gs", "az")
"""Of object storage; whatever has none is a local path."""

RETRY_S = 60.0
"""How long a request is repeated that storage answers with 503 or not at all."""

_PAUSES_S = (0.1, 15.0)
_RETRIES_MAX = 1 << 20
"""With pauses that grow so; the time decides, and not how often."""

_BODIES = 3
_ENDED_EARLY = "body error"
_UNREACHED = "error sending request"

_NO_WALK = "Unable to walk dir"

_MULTIPART_BYTES = 256 << 20
_BLOCK_BYTES = 1 << 20
_DIGEST_BYTES = 16

_NO_DIRECTORY = (EACCES, EEXIST, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, EPERM, EROFS)

_T = TypeVar("_T")

_in_flight: dict[object, tuple[float, str]] = {}

_PART = re.compile(r"#\d+$")
"""End of the name under which obstore writes a local file before it gets its own."""

_LIMITS = re.compile(r", max_retries: \d+, retry_timeout: [\w.]+")
"""Of the client's messages: that they were not reached, or which it was, shows nobody anything."""

_USER = re.compile(r"(://)[^/\s?#]*@")
_QUERY = re.compile(r"(://[^\s?'\"]*)\?[^\s'\"]*")


class StorageError(KubeledgerError):
    """Storage does not answer, or not as it should; what was committed is intact."""

    exit_code: ClassVar[int] = 4


class StoredObject(NamedTuple):
    """One object, without its content.

    Attributes:
        path: below the store's URL.
        tag: changes when the content does.
        modified_ns: when it was written, ns since the epoch, by the storage's clock.
    """

    path: str
    size_bytes: int
    tag: str
    modified_ns: int


class Refused(NamedTuple):
    """A folder of which not all is known, for it has a name that is no path.

    Attributes:
        path: of the folder, below the store's URL.
        reason: what the name is, in the words of who refuses it.
    """

    path: str
    reason: str


class Store:
    """The objects below a URL.

    Attributes:
        url: absolute, without a slash at its end.
        directory: where they lie on this machine; None for object storage.
    """

    def __init__(self, url: str, *, make: bool = False, retry_s: float | None = None) -> None:
        """Nothing is read yet; a local directory is made if ``make``.

        Args:
            url: a local path, ``file://``, ``s3://``, ``gs://`` or ``az://``.
            retry_s: how long a request that fails is repeated; None: ``RETRY_S``.

        Raises:
            BadQuestionError: no URL of a kind that is known, or no directory that can
                be made or, without ``make``, read.
        """
        self.url = absolute_url(url)
        self.directory = None if "://" in self.url else Path(self.url)
        with _errors(self.url, ""):
            self._store = _opened(self.url, RETRY_S if retry_s is None else retry_s, make=make)

    def get(self, path: str) -> bytes | None:
        """Content of an object; None where there is none."""
        import obstore

        with _errors(self.url, path):
            try:
                return _whole(lambda: bytes(obstore.get(self._store, path).bytes()))
            except FileNotFoundError:
                return None

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """A part of an object's content.

        Raises:
            StorageError: there is no such object, or no such part of it.
        """
        import obstore

        with _errors(self.url, path):
            return bytes(obstore.get_range(self._store, path, start=start, length=length))

    def download(self, path: str, file: Path) -> None:
        """Write an object's content to a new local file.

        Raises:
            StorageError: there is no such object, or it cannot be read to its end.
            OSError: the file cannot be written.
        """
        import obstore

        def copy() -> None:
            blocks = obstore.get(self._store, path).stream(min_chunk_size=_BLOCK_BYTES)
            with file.open("wb") as out:
                for block in blocks:
                    try:
                        out.write(block)
                    except OSError as error:
                        raise _LocalError(error) from error

        try:
            with _errors(self.url, path):
                _whole(copy)
        except _LocalError as error:
            raise error.error from None

    def digest(self, path: str) -> str | None:
        """As :func:`digest_of_file`, of an object's content; None where there is none."""
        import obstore

        def read() -> str:
            digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
            for block in obstore.get(self._store, path).stream(min_chunk_size=_BLOCK_BYTES):
                digest.update(block)
            return digest.hexdigest()

        with _errors(self.url, path):
            try:
                return _whole(read)
            except FileNotFoundError:
                return None

    def create(self, path: str, content: bytes | Path) -> bool:
        """Write an object unless there is one of that name: in one step, so only one can.

        Returns:
            whether it was written; False where there is one already.
        """
        import obstore

        is_large = isinstance(content, Path) and content.stat().st_size > _MULTIPART_BYTES
        with _errors(self.url, path):
            if is_large and self.stat(path) is not None:
                return False
            try:
                if is_large:  # in parts it goes without a condition
                    obstore.put(self._store, path, content)
                else:
                    obstore.put(self._store, path, content, mode="create", use_multipart=False)
            except obstore.exceptions.AlreadyExistsError:
                return False
            self._make_last(path)
        return True

    def replace(self, path: str, content: bytes) -> None:
        """Write an object, in place of one that may be there."""
        import obstore

        with _errors(self.url, path):
            obstore.put(self._store, path, content)
            self._make_last(path)

    def _make_last(self, path: str) -> None:
        """On a local disk, too, what was acknowledged survives a loss of power."""
        if self.directory is None:
            return
        file = self.directory / path
        with suppress(FileNotFoundError):  # somebody else has removed it already
            with file.open("rb") as written:
                os.fsync(written.fileno())
            for above in Path(path).parents:
                sync_directory(self.directory / above)

    def stat(self, path: str) -> StoredObject | None:
        """What there is of that name; None for nothing."""
        import obstore

        with _errors(self.url, path):
            try:
                return _object(obstore.head(self._store, path))
            except FileNotFoundError:
                return None

    def list(self, prefix: str = "") -> list[StoredObject]:
        """Objects whose paths begin with whole segments ``prefix``, sorted by path."""
        import obstore

        def read() -> list[StoredObject]:
            return [_object(meta) for batch in obstore.list(self._store, prefix) for meta in batch]

        with _errors(self.url, prefix):
            return sorted(_whole(read))

    def find(self, prefix: str = "") -> tuple[builtins.list[StoredObject], builtins.list[Refused]]:
        """As :meth:`list`, also where somebody put a name that is no path (``a//b``, ``..``).

        The library refuses the whole page that has such a name. Then one folder is listed after
        the other, and of one that is refused what can be known is there still.

        Returns:
            objects sorted by path, and folders that may hold more.
        """
        import obstore

        try:
            return self.list(prefix), []
        except StorageError as error:
            if not _is_refused(error):
                raise
        objects: builtins.list[StoredObject] = []
        refused: builtins.list[Refused] = []
        folders = [prefix]
        while folders:
            folder = folders.pop()
            with _errors(self.url, folder):
                try:
                    below = _whole(partial(obstore.list_with_delimiter, self._store, folder))
                except obstore.exceptions.BaseError as error:
                    if not _is_refused(error):
                        raise
                    refused.append(Refused(folder, _reason(error)))
                    objects += self._behind(folder)
                    continue
            objects += map(_object, below["objects"])
            # A name that begins with a slash is in a folder without a name.
            folders += [each for each in below["common_prefixes"] if each and each != folder]
        return sorted(objects), sorted(refused)

    def _behind(self, folder: str) -> Iterator[StoredObject]:
        """What is listed of a refused folder: a directory's files, or objects behind the name."""
        import obstore

        if self.directory is not None:
            for file in sorted((self.directory / folder).rglob("*")):
                path = file.relative_to(self.directory).as_posix()
                with suppress(StorageError, ValueError):
                    found = self.stat(path) if file.is_file() else None
                    yield from () if found is None else (found,)
            return
        # Names that are no path begin with a slash or a dot, which sort before what is usual.
        first = f"{folder}/0".lstrip("/")
        with suppress(StorageError), _errors(self.url, folder):
            one = self.stat(first)
            yield from () if one is None else (one,)
            for batch in obstore.list(self._store, folder, offset=first):
                yield from map(_object, batch)

    def folders(self, prefix: str) -> builtins.list[str]:
        """Names right below whole segments ``prefix``; on this machine one may hold nothing."""
        import obstore

        with _errors(self.url, prefix):
            found = _whole(lambda: obstore.list_with_delimiter(self._store, prefix))
            return sorted(path.rpartition("/")[2] for path in found["common_prefixes"])

    def delete(self, paths: Iterable[str]) -> None:
        """Remove objects; those that are gone already are no error."""
        import obstore

        for path in paths:
            with _errors(self.url, path):
                try:
                    obstore.delete(self._store, path)
                except FileNotFoundError:
                    continue

    def delete_parts(self, before_ns: int) -> builtins.list[StoredObject]:
        """Remove what processes left in a directory that died while they wrote; what it was.

        Object storage shows no object before it is whole.
        """
        found = []
        for file in sorted(self.directory.rglob("*")) if self.directory is not None else ():
            if _PART.search(file.name) is None or not file.is_file():
                continue
            status = file.stat()
            if status.st_mtime_ns < before_ns:
                path = file.relative_to(self.url).as_posix()
                found.append(StoredObject(path, status.st_size, "", status.st_mtime_ns))
                file.unlink(missing_ok=True)
        return found

    def address(self, path: str) -> str:
        """URL or local path of an object, for other programs."""
        return f"{self.url}/{path}"


def calls_in_flight() -> dict[object, tuple[float, str]]:
    """Calls to storage that have not ended yet.

    Returns:
        call -> when it began, s by the monotonic clock, and the URL or path that it is about.
    """
    return _in_flight.copy()


def absolute_url(url: str) -> str:
    """A URL as it is known by: local paths absolute, no slash at the end.

    Raises:
        BadQuestionError: an empty one, a scheme that is not known, or one with credentials.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        if not url:
            raise BadQuestionError("the URL is empty", advice="name a directory, or s3://...")
        return str(Path(url).absolute())
    if scheme == "file":
        return str(Path("/" + rest.lstrip("/")))
    if scheme not in SCHEMES or not rest.strip("/"):
        known = ", ".join(f"{name}://" for name in SCHEMES)
        raise BadQuestionError(
            f"cannot read {_without_secrets(url)!r}", advice=f"a local path, or {known}"
        )
    if "@" in rest.partition("/")[0] or "?" in rest or "#" in rest:
        raise BadQuestionError(
            f"a URL of object storage is {scheme}://BUCKET/PATH and no more",
            advice="without ? # and user@; credentials stand in the environment",
        )
    return url.rstrip("/")


def digest_of(content: bytes) -> str:
    """As :func:`digest_of_file`, of bytes."""
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


def digest_of_file(path: Path) -> str:
    """BLAKE2b of a file's bytes, 32 hex digits."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def no_directory(error: OSError, path: str) -> Exception:
    """What to raise where a directory cannot be made: another question helps, or none does."""
    if error.errno not in _NO_DIRECTORY:
        return error
    return BadQuestionError(
        f"no directory can be made there: {error.strerror}",
        advice="name a directory that is empty, or one that can be made",
        file=path,
    )


def _opened(url: str, retry_s: float, *, make: bool) -> ObjectStore:
    from obstore.store import LocalStore, from_url

    if "://" not in url:
        try:
            if make:
                make_directory(Path(url).parent, SHARED_DIRECTORY)
                make_directory(Path(url))
            else:
                os.scandir(url).close()
            return LocalStore(url)
        except OSError as error:
            if make:
                raise no_directory(error, url) from error
            if error.errno not in _NO_DIRECTORY:
                raise
            raise BadQuestionError(
                f"no directory can be read there: {error.strerror}",
                advice="check the name and who may read it",
                file=url,
            ) from error
    first_s, longest_s = _PAUSES_S
    limits: RetryConfig = {
        "max_retries": _RETRIES_MAX,
        "retry_timeout": timedelta(seconds=retry_s),
        "backoff": {
            "init_backoff": timedelta(seconds=first_s),
            "max_backoff": timedelta(seconds=longest_s),
        },
    }
    return from_url(url, retry_config=limits)


def _object(meta: ObjectMeta) -> StoredObject:
    modified = meta["last_modified"]
    return StoredObject(
        path=meta["path"],
        size_bytes=meta["size"],
        tag=meta["e_tag"] or f"{meta['size']}-{modified.isoformat()}",
        modified_ns=int(modified.timestamp() * 1000) * 1_000_000,
    )


def _is_refused(error: BaseException) -> bool:
    """Whether a listing failed for a name, and not for storage."""
    import obstore

    cause = error.__cause__ if isinstance(error, StorageError) else error
    return isinstance(cause, obstore.exceptions.InvalidPathError) or _NO_WALK in str(cause)


def _reason(error: BaseException) -> str:
    words = str(error).partition("\n\nDebug source")[0].partition("invalid path: ")
    return " ".join((words[2] or words[0]).split())[:300]


class _LocalError(Exception):
    """An error of this machine's disk, not of storage."""

    def __init__(self, error: OSError) -> None:
        self.error = error


def _whole(read: Callable[[], _T]) -> _T:
    """Read again what ended early: requests are tried again by the client, bodies are not."""
    import obstore

    for _ in range(_BODIES - 1):
        try:
            return read()
        except obstore.exceptions.GenericError as error:
            if _ENDED_EARLY not in str(error):
                raise
    return read()


@contextmanager
def _errors(url: str, path: str) -> Iterator[None]:
    """Storage's errors as ours, in one line and without what may be secret in them."""
    import obstore

    place = f"{url}/{path}" if path else url
    call = object()
    _in_flight[call] = (time.monotonic(), place)
    try:
        yield
    except FileNotFoundError as error:
        what = "bucket" if "NoSuchBucket" in str(error) else "object"
        raise StorageError(f"there is no such {what}", file=place) from error
    except obstore.exceptions.PermissionDeniedError as error:
        raise StorageError(
            "access is denied",
            advice="docs/fleet.md and docs/record.md list the permissions needed",
            file=place,
        ) from error
    except obstore.exceptions.UnauthenticatedError as error:
        raise StorageError(
            "storage does not know who asks",
            advice="give credentials in the environment",
            file=place,
        ) from error
    except (obstore.exceptions.BaseError, OSError) as error:
        words = _LIMITS.sub("", _without_secrets(str(error).partition("\n\nDebug source")[0]))
        raise StorageError(
            f"storage failed: {' '.join(words.split())[:300]}",
            advice="look at the network, and at the endpoint and region in the environment"
            if _UNREACHED in words
            else "",
            file=place,
        ) from error
    finally:
        del _in_flight[call]


def _without_secrets(text: str) -> str:
    """A text without what URLs in it may hold of credentials: user and password, and the query."""
    return _QUERY.sub(r"\1?...", _USER.sub(r"\1", text))
