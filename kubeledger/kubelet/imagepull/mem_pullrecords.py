"""Records that are kept in memory, too: ``images/pullmanager/mem_pullrecords.go``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from kubeledger.kubelet.imagepull.fs_pullrecords import FSPullRecords, PulledRecord

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
