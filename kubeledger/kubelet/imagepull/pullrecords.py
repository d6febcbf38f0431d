"""Records of pulls: the files of image_manager/, and what is kept of them in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec

from kubeledger.kubelet.imagepull.keyring import Coordinates
from kubeledger.kubelet.profile.images import ImagePullFacts
from kubeledger.model.units import NS_PER_S, format_ts, parse_api_ts

# The files of image_manager/: ``images/pullmanager/fs_pullrecords.go``.
#
# ``pulling/`` has a file for each image that is being pulled (an intent), ``pulled/`` one for each
# image that was, with the credentials of which it is known that they may pull it. A file is named
# by the hash of what it is about.

_GROUP: Final = "kubelet.config.k8s.io"
ALPHA: Final = f"{_GROUP}/v1alpha1"
BETA: Final = f"{_GROUP}/v1beta1"


class MalformedRecordError(ValueError):
    """The content of a file is no intent or record that this kubelet reads; says what is wrong."""


class RecordedSecret(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A secret that may pull an image (``ImagePullSecret``)."""

    uid: str = ""
    namespace: str = ""
    name: str = ""
    credential_hash: str = msgspec.field(name="credentialHash", default="")


class PullCredentials(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """Who may use an image (``ImagePullCredentials``); ``node_pods_accessible``: every pod."""

    kubernetes_secrets: tuple[RecordedSecret, ...] | None = None
    kubernetes_service_accounts: tuple[Coordinates, ...] | None = None
    node_pods_accessible: bool | None = None


class PulledRecord(msgspec.Struct, frozen=True):
    """An image that the kubelet pulled (``ImagePulledRecord``).

    Attributes:
        image_ref: the runtime's ID of it.
        updated_ns: when the record was changed last; None for Go's zero time.
        credentials: name of the image, without tag and digest -> who may use it.
    """

    image_ref: str
    updated_ns: int | None
    credentials: dict[str, PullCredentials]


class _Intent(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    kind: Literal["ImagePullIntent"]
    api_version: str
    image: str | None = None


class _Record(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    kind: Literal["ImagePulledRecord"]
    api_version: str
    last_updated_time: str | None = None
    image_ref: str | None = None
    credential_mapping: dict[str, PullCredentials] | None = None


class _AlphaCredentials(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """As v1alpha1 writes them: secrets always."""

    kubernetes_secrets: tuple[RecordedSecret, ...] | None
    kubernetes_service_accounts: tuple[Coordinates, ...] | None = None
    node_pods_accessible: bool | None = None


_INTENT = msgspec.json.Decoder(_Intent)
_RECORD = msgspec.json.Decoder(_Record)


@lru_cache(maxsize=1 << 10)
def cache_filename(of: str) -> str:
    """The name of the file about an image, or an image ID."""
    return f"sha256-{hashlib.sha256(of.encode()).hexdigest()}"


@lru_cache(maxsize=1 << 10)
def decode_intent(content: bytes, facts: ImagePullFacts) -> tuple[str, bool]:
    """The image of an intent, and whether this kubelet would write it so.

    Raises:
        MalformedRecordError: it is none.

    Source: v1.36.2 decodeIntent; v1.34.9
    """
    intent = _decoded(_INTENT, content)
    return intent.image or "", _is_current(intent.api_version, facts)


@lru_cache(maxsize=1 << 10)
def decode_pulled_record(content: bytes, facts: ImagePullFacts) -> tuple[PulledRecord, bool]:
    """A record, and whether this kubelet would write it so.

    Raises:
        MalformedRecordError: it is none.

    Source: v1.36.2 decodePulledRecord; v1.34.9
    """
    record = _decoded(_RECORD, content)
    is_current = _is_current(record.api_version, facts)
    mapping = record.credential_mapping or {}
    if not facts.pull_records_of_service_accounts and any(
        each.kubernetes_service_accounts is not None for each in mapping.values()
    ):
        raise MalformedRecordError('unknown field "kubernetesServiceAccounts"')
    text = record.last_updated_time
    try:
        updated_ns = None if text is None else parse_api_ts(text)
    except ValueError:
        raise MalformedRecordError(f"lastUpdatedTime is not a time: {text!r}") from None
    return PulledRecord(record.image_ref or "", updated_ns, mapping), is_current


def _decoded(decoder: msgspec.json.Decoder[Any], content: bytes) -> Any:  # noqa: ANN401  # as the decoder says
    try:
        return decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedRecordError(str(error)) from None


def _is_current(version: str, facts: ImagePullFacts) -> bool:
    if facts.pull_records_beta and version == BETA:
        return True
    if version != ALPHA:
        raise MalformedRecordError(f"apiVersion {version!r} is not known to this kubelet")
    return not facts.pull_records_beta


def encode_intent(image: str, facts: ImagePullFacts) -> bytes:
    """The file of an image that is about to be pulled."""
    version = BETA if facts.pull_records_beta else ALPHA
    return msgspec.json.encode({"kind": "ImagePullIntent", "apiVersion": version, "image": image})


def encode_pulled_record(record: PulledRecord, facts: ImagePullFacts) -> bytes:
    """The file of a record."""
    updated_ns, mapping = record.updated_ns, record.credentials
    fields: dict[str, object] = {
        "kind": "ImagePulledRecord",
        "apiVersion": BETA if facts.pull_records_beta else ALPHA,
        "lastUpdatedTime": None if updated_ns is None else format_ts(updated_ns),
        "imageRef": record.image_ref,
    }
    if mapping:
        fields["credentialMapping"] = {name: _encoded(mapping[name], facts) for name in mapping}
    return msgspec.json.encode(fields)


def _encoded(given: PullCredentials, facts: ImagePullFacts) -> PullCredentials | _AlphaCredentials:
    secrets, accounts = given.kubernetes_secrets, given.kubernetes_service_accounts or None
    node = given.node_pods_accessible or None
    if facts.pull_records_beta:
        return PullCredentials(secrets or None, accounts, node)
    return _AlphaCredentials(secrets, accounts, node)


class FSPullRecords:
    """The two directories of a node.

    Attributes:
        pulling: file name -> content, or the image of an intent that this kubelet wrote.
        pulled: file name -> content, or a record that this kubelet wrote.

    Source: v1.36.2 fsPullRecordsAccessor; v1.33.13
    Differs: no read or write fails.
    """

    def __init__(
        self,
        pulling: dict[str, bytes | str],
        pulled: dict[str, bytes | PulledRecord],
        facts: ImagePullFacts,
    ) -> None:
        """A kubelet process starts on them."""
        self.pulling, self.pulled = pulling, pulled
        self._facts = facts
        if facts.pull_records_beta:
            self._migrate()

    def _migrate(self) -> None:
        """Source: v1.36.2 recordsVersionMigration."""
        for image, is_current in _readable(self.pulling, self._intent):
            if not is_current:
                self.write_intent(image)
        for record, is_current in _readable(self.pulled, self._record):
            if not is_current:
                self.write_record(record)

    def list_intents(self) -> tuple[list[str], bool]:
        """The images of all intents, and whether all could be read."""
        images = [image for image, _ in _readable(self.pulling, self._intent)]
        return images, len(images) == len(self.pulling)

    def intent_exists(self, image: str) -> bool:
        """Whether there is an intent of the image.

        Raises:
            MalformedRecordError: its file cannot be read.
        """
        intent = self.pulling.get(cache_filename(image))
        return intent is not None and self._intent(intent)[0] == image

    def write_intent(self, image: str) -> None:
        """The image is about to be pulled."""
        self.pulling[cache_filename(image)] = image

    def delete_intent(self, image: str) -> None:
        """It is not being pulled any more."""
        self.pulling.pop(cache_filename(image), None)

    def list_records(self) -> tuple[list[PulledRecord], bool]:
        """All records, and whether all could be read."""
        records = [record for record, _ in _readable(self.pulled, self._record)]
        return records, len(records) == len(self.pulled)

    def get_record(self, image_ref: str) -> PulledRecord | None:
        """The record of an image ID; None without one."""
        content = self.pulled.get(cache_filename(image_ref))
        if content is None:
            return None
        record, _ = self._record(content)
        return record if record.image_ref == image_ref else None

    def write_record(self, record: PulledRecord) -> None:
        """Write a record, in the place of the one before; its time in whole seconds."""
        if record.updated_ns is not None and (fraction := record.updated_ns % NS_PER_S):
            updated_ns = record.updated_ns - fraction
            record = PulledRecord(record.image_ref, updated_ns, record.credentials)
        self.pulled[cache_filename(record.image_ref)] = record

    def delete_record(self, image_ref: str) -> None:
        """Remove a record, if there is one."""
        self.pulled.pop(cache_filename(image_ref), None)

    def _intent(self, intent: bytes | str) -> tuple[str, bool]:
        return (intent, True) if isinstance(intent, str) else decode_intent(intent, self._facts)

    def _record(self, content: bytes | PulledRecord) -> tuple[PulledRecord, bool]:
        if isinstance(content, PulledRecord):
            return content, True
        return decode_pulled_record(content, self._facts)


_File = TypeVar("_File")
_Read = TypeVar("_Read")


def _readable(files: dict[str, _File], read: Callable[[_File], _Read]) -> list[_Read]:
    """What can be read, in the order of the directory."""
    found = []
    for name in sorted(files):
        with suppress(MalformedRecordError):
            found.append(read(files[name]))
    return found


# Records that are kept in memory, too: ``images/pullmanager/mem_pullrecords.go``.

_INTENTS_MAX: Final = 1024
_RECORDS_MAX: Final = 2000
_Value = TypeVar("_Value")


class LRUCache(Generic[_Value]):
    """What was used last, of so many.

    Attributes:
        authoritative: what is not in it is not on the disk.

    Source: v1.36.2 lruCache, k8s.io/utils/lru; v1.34.9
    """

    def __init__(self, size: int) -> None:
        """Empty; 0 is no limit."""
        self.authoritative = False
        self._size = size
        self._entries: dict[str, _Value] = {}

    def get(self, key: str) -> _Value | None:
        """The value, which counts as used now."""
        value = self._entries.get(key)
        if value is not None:
            self._entries[key] = self._entries.pop(key)
        return value

    def set(self, key: str, value: _Value) -> None:
        """Keep a value; the one that was not used for longest may have to go."""
        self._entries.pop(key, None)
        self._entries[key] = value
        if self._size and len(self._entries) > self._size:
            del self._entries[next(iter(self._entries))]
            self.authoritative = False

    def delete(self, key: str) -> None:
        """It is not on the disk any more."""
        self._entries.pop(key, None)

    def refresh(self, listed: Sequence[tuple[str, _Value]], complete: bool) -> None:
        """Take over a list of the disk, if it is whole and fits, or nothing is kept.

        Source: v1.36.2 cacheRefreshingList; v1.34.9
        """
        fits = complete and len(listed) < self._size
        if fits or not self._entries:
            self._entries = dict(listed[: self._size])
            self.authoritative = fits


class CachedPullRecords:
    """The records of a node, as a kubelet process that keeps them in memory sees them.

    Source: v1.36.2 cachedPullRecordsAccessor; v1.34.9
    """

    def __init__(self, delegate: FSPullRecords, intents: int, records: int) -> None:
        """Read all that is on the disk; at most so many intents and records are kept."""
        self._delegate = delegate
        self._intents: LRUCache[str] = LRUCache(min(intents, _INTENTS_MAX))
        self._records: LRUCache[PulledRecord] = LRUCache(min(records, _RECORDS_MAX))
        self.list_intents()
        self.list_records()

    def list_intents(self) -> tuple[list[str], bool]:
        """As ``FSPullRecords`` has it, and so all methods."""
        images, complete = self._delegate.list_intents()
        if not self._intents.authoritative:
            self._intents.refresh([(image, image) for image in images], complete)
        return images, complete

    def intent_exists(self, image: str) -> bool:
        if self._intents.get(image) is not None:
            return True
        if self._intents.authoritative:
            return False
        exists = self._delegate.intent_exists(image)
        if exists:
            self._intents.set(image, image)
        return exists

    def write_intent(self, image: str) -> None:
        self._delegate.write_intent(image)
        self._intents.set(image, image)

    def delete_intent(self, image: str) -> None:
        self._delegate.delete_intent(image)
        self._intents.delete(image)

    def list_records(self) -> tuple[list[PulledRecord], bool]:
        records, complete = self._delegate.list_records()
        if not self._records.authoritative:
            self._records.refresh([(record.image_ref, record) for record in records], complete)
        return records, complete

    def get_record(self, image_ref: str) -> PulledRecord | None:
        record = self._records.get(image_ref)
        if record is not None or self._records.authoritative:
            return record
        record = self._delegate.get_record(image_ref)
        if record is not None:
            self._records.set(image_ref, record)
        return record

    def write_record(self, record: PulledRecord) -> None:
        self._delegate.write_record(record)
        self._records.set(record.image_ref, record)

    def delete_record(self, image_ref: str) -> None:
        self._delegate.delete_record(image_ref)
        self._records.delete(image_ref)
