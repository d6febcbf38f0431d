"""What the image manager decides about pulls, how they end, and its records of them on disk."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from kubeledger.model.record import Decision, Observation

__all__ = ["PullDecided", "PullEnded", "PullOutcome", "PullRecordRead", "PullUsers"]

PullOutcome = Literal["pulled", "failed", "refused"]


class PullDecided(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    namespace: str
    pod: str
    pod_uid: str | None
    container: str | None
    image: str | None
    decision: Literal["pull", "back_off", "present", "never"]
    after_ts_ns: int | None = None


class PullEnded(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    namespace: str
    pod: str
    pod_uid: str | None
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


class PullRecordRead(Observation, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
