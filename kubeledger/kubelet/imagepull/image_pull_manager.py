"""Which pods may use an image that is there: ``images/pullmanager/image_pull_manager.go``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple, Protocol, TypeVar

import msgspec

from kubeledger.kubelet.imagepull.keyring import (
    Coordinates,
    Credential,
    ImageNameError,
    parse_normalized_named,
    trim_image_tag_digest,
)
from kubeledger.kubelet.imagepull.pullrecords import (
    MalformedRecordError,
    PullCredentials,
    PulledRecord,
    RecordedSecret,
)
from kubeledger.kubelet.profile.images import ImagePullFacts

NEVER_VERIFY: Final = "NeverVerify"
NEVER_VERIFY_PRELOADED: Final = "NeverVerifyPreloadedImages"
NEVER_VERIFY_ALLOWLISTED: Final = "NeverVerifyAllowlistedImages"
ALWAYS_VERIFY: Final = "AlwaysVerify"

Requires = Callable[[str, bool], bool]
"""Whether credentials are verified for an image, by its name and whether the kubelet pulled it."""


class PolicyError(ValueError):
    """The kubelet's text of why it does not start with a policy."""


@lru_cache(maxsize=256)
def new_policy(policy: str, allowlist: tuple[str, ...], facts: ImagePullFacts) -> Requires:
    """What ``imagePullCredentialsVerificationPolicy`` asks for.

    Raises:
        PolicyError: no such policy, or a pattern that is none.

    Source: v1.36.2 NewImagePullCredentialVerificationPolicy; v1.34.9
    """
    if policy == NEVER_VERIFY:
        return lambda image, by_kubelet: False
    if policy == NEVER_VERIFY_PRELOADED:
        return lambda image, by_kubelet: by_kubelet
    if policy == ALWAYS_VERIFY:
        return lambda image, by_kubelet: True
    if policy != NEVER_VERIFY_ALLOWLISTED:
        raise PolicyError(f"unknown image pull credential verification policy: {policy}")
    patterns = [_pattern(pattern, facts) for pattern in allowlist]
    exact = frozenset(name for name, is_prefix in patterns if not is_prefix)
    prefixes = tuple(name for name, is_prefix in patterns if is_prefix)

    def requires(image: str, by_kubelet: bool) -> bool:
        name = _matched_name(image, facts)
        return name not in exact and not name.startswith(prefixes)

    return requires


def _matched_name(image: str, facts: ImagePullFacts) -> str:
    """Source: v1.36.2 imageMatches; v1.34.9."""
    if not facts.pull_records_by_name_as_written:
        return image
    try:
        return trim_image_tag_digest(image, facts)
    except ImageNameError:
        return image


def _pattern(pattern: str, facts: ImagePullFacts) -> tuple[str, bool]:
    """The name, or its beginning (then True), that a pattern of the allow list stands for.

    Source: v1.36.2 getAllowlistImagePattern; v1.34.9
    """
    if pattern != pattern.strip():
        raise PolicyError(f"leading/trailing spaces are not allowed: {pattern}")
    is_prefix = pattern.endswith("/*")
    name = pattern[:-1] if is_prefix else pattern
    if not name:
        raise PolicyError(f"the supplied pattern is too short: {pattern}")
    if "*" in name:
        raise PolicyError(
            "not a valid wildcard pattern, only patterns ending with '/*' are allowed: " + pattern
        )
    if is_prefix:
        if len(name) == 1:
            raise PolicyError("at least registry hostname is required")
        return name, True
    try:
        trimmed = (
            trim_image_tag_digest(name, facts)
            if facts.pull_records_by_name_as_written
            else parse_normalized_named(name, facts).repo
        )
    except ImageNameError as error:
        raise PolicyError(f"failed to parse as an image name: {error}") from None
    if trimmed != name:
        raise PolicyError(f"neither tag nor digest is accepted in an image reference: {pattern}")
    return name, False


WRITE_WHILE_MATCHING_MAX: Final = 100
"""A record with so many secrets gets no more of those that match it."""


class PullRecords(Protocol):
    """What the manager asks of the records; see ``FSPullRecords``."""

    def list_intents(self) -> tuple[list[str], bool]: ...
    def intent_exists(self, image: str) -> bool: ...
    def write_intent(self, image: str) -> None: ...
    def delete_intent(self, image: str) -> None: ...
    def list_records(self) -> tuple[list[PulledRecord], bool]: ...
    def get_record(self, image_ref: str) -> PulledRecord | None: ...
    def write_record(self, record: PulledRecord) -> None: ...
    def delete_record(self, image_ref: str) -> None: ...


class Listed(NamedTuple):
    """An image as the runtime lists it, with all its names."""

    image_id: str
    names: Sequence[str]


class Check(Enum):
    """What a check of an image that is there came to."""

    RECORD_UNREADABLE = "record_unreadable"
    POLICY_EXEMPTS = "policy_exempts"
    NO_RECORD = "no_record"
    NAME_NOT_RECORDED = "name_not_recorded"
    NODE_ACCESSIBLE = "node_accessible"
    NOBODY_RECORDED = "nobody_recorded"
    SAME_CREDENTIALS = "same_credentials"
    SAME_SECRET = "same_secret"  # no password
    SAME_ACCOUNT = "same_account"
    OTHER_CREDENTIALS = "other_credentials"

    @property
    def pulls(self) -> bool:
        """The pod has to pull the image to show that it may use it."""
        return self not in _GRANTED


_GRANTED: Final = frozenset(
    {
        Check.POLICY_EXEMPTS,
        Check.NODE_ACCESSIBLE,
        Check.SAME_CREDENTIALS,
        Check.SAME_SECRET,
        Check.SAME_ACCOUNT,
    }
)


class PullManager:
    """What a kubelet process knows of the pulls of its node.

    Source: v1.36.2 PullManager; v1.33.13
    Differs: no write fails.
    """

    def __init__(
        self,
        records: PullRecords,
        requires: Requires,
        images: Iterable[Listed],
        facts: ImagePullFacts,
        now_ns: int,
    ) -> None:
        """A kubelet process starts."""
        self.records = records
        self._requires, self._facts = requires, facts
        self._intents: dict[str, int] = {}
        self._initialize(images, now_ns)

    def _initialize(self, images: Iterable[Listed], now_ns: int) -> None:
        """Pulls that ended while no kubelet ran become records of nobody.

        Source: v1.36.2 initialize; v1.33.13
        """
        intents = set(self.records.list_intents()[0])
        if not intents:
            return
        for image_id, names in images:
            for name in sorted(intents.intersection(names)):
                try:
                    self._write_if_changed(name, image_id, None, now_ns)
                except ImageNameError:
                    continue
                self.records.delete_intent(name)

    def record_pull_intent(self, image: str) -> None:
        """An image is about to be pulled, or would be, were it not for its back-off."""
        self.records.write_intent(image)
        self._intents[image] = self._intents.get(image, 0) + 1

    def record_image_pulled(
        self, image: str, image_ref: str, used: Credential | None, now_ns: int
    ) -> None:
        """It was pulled, with these credentials (None: without).

        Source: v1.36.2 RecordImagePulled; v1.33.13
        """
        try:
            self._write_if_changed(image, image_ref, _recorded(used), now_ns)
        except ImageNameError:
            return  # the intent stays
        self.record_image_pull_failed(image)

    def record_image_pull_failed(self, image: str) -> None:
        """It was not; the last of those that pull it takes the intent away.

        Source: v1.36.2 decrementImagePullIntent; v1.33.13
        """
        count = self._intents.pop(image, 0)
        if count <= 1:
            self.records.delete_intent(image)
        else:
            self._intents[image] = count - 1

    def must_attempt_image_pull(
        self,
        image: str,
        image_ref: str,
        credentials: Callable[[], Sequence[Credential]],
        now_ns: int,
    ) -> Check:
        """Whether a pod may use an image that is there, or has to pull it.

        Args:
            credentials: those of the pod and its node; what it raises is passed on.

        Source: v1.36.2 MustAttemptImagePull; v1.33.13
        """
        try:
            record = self.records.get_record(image_ref)
            by_kubelet = (
                record is not None
                or self._intents.get(image, 0) > 0
                or self.records.intent_exists(image)
            )
        except MalformedRecordError:
            return Check.RECORD_UNREADABLE
        if not self._requires(image, by_kubelet):
            return Check.POLICY_EXEMPTS
        if record is None:
            return Check.NO_RECORD
        try:
            cached = record.credentials.get(trim_image_tag_digest(image, self._facts))
        except ImageNameError:
            return Check.NAME_NOT_RECORDED
        if cached is None:
            return Check.NAME_NOT_RECORDED
        if cached.node_pods_accessible:
            return Check.NODE_ACCESSIBLE
        if not cached.kubernetes_secrets and not cached.kubernetes_service_accounts:
            return Check.NOBODY_RECORDED
        return self._compare(image, image_ref, cached, credentials(), now_ns)

    def _compare(
        self,
        image: str,
        image_ref: str,
        cached: PullCredentials,
        credentials: Sequence[Credential],
        now_ns: int,
    ) -> Check:
        recorded = cached.kubernetes_secrets or ()
        may_write = len(recorded) < WRITE_WHILE_MATCHING_MAX
        account: Coordinates | None = None
        for mine in credentials:
            account = account or mine.service_account
            if mine.secret is None:
                continue
            coordinates = mine.secret.uid, mine.secret.namespace, mine.secret.name
            for theirs in recorded:
                same_hash = theirs.credential_hash and theirs.credential_hash == mine.hash
                same_secret = (theirs.uid, theirs.namespace, theirs.name) == coordinates
                if not same_hash and not (same_secret and may_write):
                    continue
                if may_write and not (same_hash and same_secret):
                    self._write_if_changed(image, image_ref, _recorded(mine), now_ns)
                return Check.SAME_CREDENTIALS if same_hash else Check.SAME_SECRET
        if account is not None and account in (cached.kubernetes_service_accounts or ()):
            return Check.SAME_ACCOUNT
        return Check.OTHER_CREDENTIALS

    def prune_unknown_records(self, images: Collection[str], until_ns: int) -> None:
        """Drop the records of images that are gone; image GC asks for it.

        Args:
            images: IDs of those that are there.
            until_ns: records that were changed then or later stay.

        Source: v1.36.2 PruneUnknownRecords; v1.33.13
        """
        for record in self.records.list_records()[0]:
            is_new = record.updated_ns is not None and record.updated_ns >= until_ns
            if not is_new and record.image_ref not in images:
                self.records.delete_record(record.image_ref)

    def _write_if_changed(
        self, image: str, image_ref: str, used: PullCredentials | None, now_ns: int
    ) -> None:
        """Add credentials (None: nobody's) to the record of an image.

        Source: v1.36.2 writePulledRecordIfChanged; v1.33.13
        """
        name = trim_image_tag_digest(image, self._facts)
        try:
            record = self.records.get_record(image_ref)
        except MalformedRecordError:
            record = None
        if record is None:
            merged = {} if used is None else {name: used}
            self.records.write_record(PulledRecord(image_ref, now_ns, merged))
            return
        if used is None:
            return
        before = record.credentials.get(name)
        after = used if before is None else _merged(before, used)
        if after is not before:
            merged = {**record.credentials, name: after}
            self.records.write_record(PulledRecord(image_ref, now_ns, merged))


def _recorded(used: Credential | None) -> PullCredentials:
    """Source: v1.36.2 pkg/kubelet/images/image_manager.go trackedToImagePullCreds; v1.33.13."""
    if used is not None and (secret := used.secret) is not None:
        recorded = RecordedSecret(secret.uid, secret.namespace, secret.name, used.hash or "")
        return PullCredentials(kubernetes_secrets=(recorded,))
    if used is not None and used.service_account is not None:
        return PullCredentials(kubernetes_service_accounts=(used.service_account,))
    return PullCredentials(node_pods_accessible=True)


def _merged(before: PullCredentials, new: PullCredentials) -> PullCredentials:
    """Credentials with new ones; the same object where nothing is new.

    Source: v1.36.2 pulledRecordMergeNewCreds, mergePullSecrets, mergePullServiceAccounts;
        v1.33.13
    """
    if before.node_pods_accessible:
        return before
    if new.node_pods_accessible:
        return new
    if new.kubernetes_secrets:
        secrets = _joined(before.kubernetes_secrets, new.kubernetes_secrets)
        if secrets is None:
            return before
        return msgspec.structs.replace(before, kubernetes_secrets=secrets)
    accounts = _joined(before.kubernetes_service_accounts, new.kubernetes_service_accounts)
    if accounts is None:
        return before
    return msgspec.structs.replace(before, kubernetes_service_accounts=accounts)


_Grant = TypeVar("_Grant", RecordedSecret, Coordinates)


def _joined(
    before: tuple[_Grant, ...] | None, new: tuple[_Grant, ...] | None
) -> tuple[_Grant, ...] | None:
    """Both, the new in place of those of the same name; None where nothing changes."""
    by_name = {(each.namespace, each.name, each.uid): each for each in before or ()}
    changed = False
    for each in new or ():
        key = (each.namespace, each.name, each.uid)
        changed = changed or by_name.get(key) != each
        by_name[key] = each
    return tuple(by_name[key] for key in sorted(by_name)) if changed else None
