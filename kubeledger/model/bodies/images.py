"""Observations and decisions about images: garbage collection, pulls, records of pulls."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from kubeledger.model.record import Decision, Observation, OfPod


class ListedImage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One image of the runtime's list, as one detect pass saw it.

    Attributes:
        size_bytes: None when the log does not hold it.
        pinned: None for versions that do not know pinned images.
        in_use: a container used it, so its last-used time was set.
        new: this pass saw the image for the first time.
        last_used_ts_ns: time written as last used in this pass; None when not in use.
    """

    image_id: str
    size_bytes: int | None = None
    pinned: bool | None = None
    in_use: bool = False
    new: bool = False
    last_used_ts_ns: int | None = None


class ImagesDetected(Observation, frozen=True, kw_only=True):
    """One detect pass: the images that the runtime listed, in its order."""

    kind: ClassVar[str] = "images.ImagesDetected"
    images: tuple[ListedImage, ...]


class ImageFsObserved(Observation, frozen=True, kw_only=True):
    """Size of the image filesystem (``/stats/summary``), recorded when it changed.

    Attributes:
        source: where it was read: ``stats-summary`` or ``log``.
    """

    kind: ClassVar[str] = "images.ImageFsObserved"
    capacity_bytes: int | None
    available_bytes: int | None
    used_bytes: int | None = None
    source: str = "stats-summary"


class EvictionSignalObserved(Observation, frozen=True, kw_only=True):
    """An eviction signal as the eviction manager read it.

    Attributes:
        signal: e.g. ``nodefs.available``.
        available, capacity: bytes, or inodes, or processes, by the signal.
    """

    kind: ClassVar[str] = "images.EvictionSignalObserved"
    signal: str
    available: int
    capacity: int


class GarbageCollectionStarted(Decision, frozen=True, kw_only=True):
    """The image filesystem is over the high threshold: a space pass begins.

    Attributes:
        usage_percent, high_threshold_percent, low_threshold_percent: whole percent.
        bytes_to_free: what the pass is to free.
    """

    kind: ClassVar[str] = "images.GarbageCollectionStarted"
    usage_percent: int
    high_threshold_percent: int
    low_threshold_percent: int
    bytes_to_free: int


class ImageDeleted(Decision, frozen=True, kw_only=True):
    """The image manager removed an image; ``cause`` is the run's start where there is one.

    Attributes:
        pass_: ``space``, ``age`` or ``all`` (delete unused images); None when not known.
        reclaimed: resource that the eviction manager reclaimed, in the ``all`` pass; None
            elsewhere, or when no line says.
        signals: its signals that were under their thresholds just then, sorted.
    """

    kind: ClassVar[str] = "images.ImageDeleted"
    image_id: str
    size_bytes: int | None
    pass_: Literal["space", "age", "all"] | None = msgspec.field(name="pass", default=None)
    reclaimed: str | None = None
    signals: tuple[str, ...] = ()


class GarbageCollected(Decision, frozen=True, kw_only=True):
    """The end of one image GC run; ``cause`` is its ``GarbageCollectionStarted``, if any.

    Attributes:
        outcome: ``below_threshold`` (nothing to do), ``freed`` (enough was freed) or
            ``failed``.
        images_removed: deletions that the source shows for this run.
        error: the kubelet's error text; empty without one.
    """

    kind: ClassVar[str] = "images.GarbageCollected"
    usage_percent: int | None = None
    high_threshold_percent: int | None = None
    low_threshold_percent: int | None = None
    bytes_to_free: int | None = None
    bytes_freed: int | None = None
    images_removed: int = 0
    outcome: Literal["below_threshold", "freed", "failed"]
    error: str = ""


# What the image manager decides about pulls, how they end, and its records of them on disk.

PullOutcome = Literal["pulled", "failed", "refused"]


class PullDecided(OfPod, Decision, frozen=True, kw_only=True):
    """Whether the image of a container is pulled (``EnsureImageExists``).

    That an image is there, and so is not pulled, is a decision where the kubelet verifies that
    the pod may use it.

    Attributes:
        container: None where the line names none (an image that a pod mounts).
        image: as the pod names it; None when no source shows it.
        decision: ``pull``; ``back_off``: its last pull failed too recently; ``present``: it is
            there, and the pod may use it; ``never``: it is not there, or the pod may not use it,
            and the policy does not pull.
        after_ts_ns: only a pod's status shows it, so it was decided after this and by the
            record's time; None: at that time.
    """

    kind: ClassVar[str] = "imagepull.PullDecided"
    container: str | None
    image: str | None
    decision: Literal["pull", "back_off", "present", "never"]
    after_ts_ns: int | None = None


class PullEnded(OfPod, Decision, frozen=True, kw_only=True):
    """How a pull ended: whether it had its turn, when, and what came of it.

    Attributes:
        container, image, after_ts_ns: as above.
        outcome: ``refused``: there were too many (``registryPullQPS``).
        error: the runtime's, or the kubelet's; empty for none.
        reason: why the container waits then (``ErrImagePull``); None where no line says.
        whole_ms: from the request to the end; None where the event does not say.
        pull_ms: of that, what the runtime took; the rest was the wait for other pulls.
        size_bytes: of the image.
    """

    kind: ClassVar[str] = "imagepull.PullEnded"
    container: str | None
    image: str | None
    outcome: PullOutcome
    error: str = ""
    reason: str | None = None
    whole_ms: int | None = None
    pull_ms: int | None = None
    size_bytes: int | None = None
    after_ts_ns: int | None = None


class PullUsers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who is known to be allowed an image.

    Attributes:
        everyone: all pods of the node.
        secrets, service_accounts: (n,) ``namespace/name``; hashes of credentials are left out.
    """

    everyone: bool = False
    secrets: tuple[str, ...] = ()
    service_accounts: tuple[str, ...] = ()


class PullRecordRead(Observation, frozen=True, kw_only=True):
    """A file of ``image_manager/`` as it was on disk, recorded when it changed.

    Attributes:
        api_version: of its form, e.g. ``kubelet.config.k8s.io/v1beta1``.
        image: that is, or would be, pulled (``pulling/``); None for a record of ``pulled/``.
        image_ref: the runtime's ID; None for an intent.
        updated_ts_ns: when the record changed last, by itself.
        users: name of the image, without tag and digest -> who may use it.
    """

    kind: ClassVar[str] = "imagepull.PullRecordRead"
    api_version: str
    image: str | None = None
    image_ref: str | None = None
    updated_ts_ns: int | None = None
    users: dict[str, PullUsers] = {}
