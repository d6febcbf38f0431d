"""Whether a pod may use an image that is there: policy, and records of pulls.

What the kubelet read then is known where its files were read, too. They say who may use an image
under a name; a record goes with its image.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kubeledger.kubelet.imagepull.image_pull_policies import (
    NEVER_VERIFY_PRELOADED,
    PolicyError,
    Requires,
    new_policy,
)
from kubeledger.kubelet.imagepull.parsers import ImageNameError, trim_image_tag_digest
from kubeledger.model.bodies.imagepull import PullDecided, PullEnded, PullRecordRead
from kubeledger.model.bodies.imagepull import PullUsers as UsersOfImage
from kubeledger.model.bodies.images import ImageDeleted
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.verify.belief import Judgement, Ruling, judge, lacks, same
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.container_specs import PodSpec, versions_of
from kubeledger.verify.finding import Fields
from kubeledger.verify.settings import UNKNOWN
from kubeledger.verify.verifier import Prescan

_POLICY: Final = "imagePullCredentialsVerificationPolicy"
_ALLOWLIST: Final = "preloadedImagesVerificationAllowlist"
_PLUGINS: Final = "--image-credential-provider-config"
_NO_SECRETS: Final = "no pod has secrets for pulls, so no record keeps the image from it"
_RECORDS: Final = "the records of pulls at that time (image_manager/)"
_REMOVED: Final = "whether something else than the kubelet had removed the image"
_SOON_NS: Final = 5 * NS_PER_S
"""A pull that is decided so soon after the end of another may have been asked for before."""


class _Access(NamedTuple):
    """Whether a pod may use an image that is there, why, and the record that says so."""

    granted: bool
    why: str
    seq: int | None = None


class User(NamedTuple):
    """A pod that is to use an image.

    Attributes:
        specs: what lists say of it; none where no list shows it.
    """

    namespace: str
    specs: tuple[PodSpec, ...]

    def access(self, seq: int, users: UsersOfImage) -> _Access | str:
        """Whether a record of those who may use an image lets it; or what is missing to know.

        Other secrets may hold the same credentials, which records keep as hashes.
        """
        if not self.specs:
            return "the pod's spec"
        secrets, accounts = self.specs[0].pull_secrets, self.specs[0].service_account
        for names, known in ((secrets, users.secrets), ((accounts,), users.service_accounts)):
            for name in names:
                if f"{self.namespace}/{name}" in known:
                    return _Access(True, f"it was pulled with {name} before", seq)
        if secrets and users.secrets:
            return "the contents of pull secrets"
        return _Access(False, "its record names nothing that the pod has", seq)


class PullUsers:
    """What is known of who may use which image."""

    def __init__(self, context: VerifyContext) -> None:
        self._context = context
        self._read: list[tuple[int, int, PullRecordRead]] = []
        self._deleted_ns: list[int] = []
        self._present: dict[str, tuple[Record, str]] = {}
        self._secretless: bool | None = None

    def prescans(self) -> Mapping[type[Body], Prescan]:
        """Files, and removals of images, of any time."""
        return {
            PullRecordRead: lambda record, body: self._read.append(
                (record.ts_ns, record.seq, body)
            ),
            ImageDeleted: lambda record, body: self._deleted_ns.append(record.ts_ns),
        }

    def pulled(self, record: Record, body: PullEnded) -> None:
        """An image is there from now on."""
        if body.image is not None:
            self._present[body.image] = record, "pulled"

    def used(self, record: Record, body: PullDecided) -> None:
        """An image was there."""
        if body.image is not None:
            self._present.setdefault(body.image, (record, "used without a pull"))

    def forget_images(self) -> None:
        """One was removed; lines name it otherwise than pods do."""
        self._present.clear()

    def judge(self, record: Record, body: PullDecided, user: User) -> Judgement:
        """Judge that an image was used which is there.

        Args:
            record: the decision.
            body: its body.
            user: the pod that is to use the image.

        Source: v1.36.2 pkg/kubelet/images/pullmanager/image_pull_manager.go MustAttemptImagePull
        """
        asked = self._asked()
        if isinstance(asked, str):
            return lacks([asked])
        if asked is None:
            why = "without the gate KubeletEnsureSecretPulledImages it cannot have been asked who "
            return same(False, f"{why}may use an image", certain=True)
        image, is_of_log = body.image or "", self._context.coverage.is_of_log
        access = self._access(record, image, user, asked)
        if isinstance(access, str):
            return lacks([access])
        inputs = () if access.seq is None else (access.seq,)
        if access.granted:
            return same(True, access.why, inputs=inputs)
        why = f"{access.why}, so it cannot have been used without a pull"
        rulings = [Ruling(allowed=False, why=why, expected={"decision": "pull"}, inputs=inputs)]
        if is_of_log and self._may_be_gone(record.ts_ns):
            rulings.append(Ruling(allowed=True, why="", assumes=(_RECORDS,)))
        return judge(rulings)

    def judge_pull(self, record: Record, body: PullDecided, user: User) -> Judgement:
        """Judge that an image was pulled which policy ``IfNotPresent`` pulls if it is not there.

        Arguments as above.
        """
        pulled, how = self._present.get(body.image or "", (None, ""))
        if pulled is None or record.ts_ns - pulled.ts_ns < _SOON_NS:
            return same(True, "")
        asked = self._asked()
        if isinstance(asked, str):
            return lacks([asked])
        access = _Access(True, "nobody asks who may use it")
        if asked is not None:
            found = self._access(record, body.image or "", user, asked)
            if isinstance(found, str):
                return same(True, "")
            access = found
        if not access.granted:
            return same(True, f"it was there, but {access.why}", inputs=[pulled.seq])
        why = f"it was {how} at {format_ts(pulled.ts_ns)}, and {access.why}, so it cannot have "
        expected: Fields | None = None if asked is None else {"decision": "present"}
        denied = Ruling(allowed=False, why=f"{why}been pulled again", expected=expected,
                        inputs=(pulled.seq,))  # fmt: skip
        if not self._context.coverage.is_of_log:
            return judge([denied])
        return judge([denied, Ruling(allowed=True, why="", assumes=(_REMOVED,))])

    def _asked(self) -> Requires | str | None:
        """For which images it is asked who may use them; None: for none; or what is missing."""
        profile, settings = self._context.profile, self._context.settings
        if profile is None:
            return self._context.missing_profile
        if not profile.imagepull.verifies_pull_credentials:
            return "the feature gates" if settings.get("featureGates") is UNKNOWN else None
        policy: Any = settings.get(_POLICY)
        allowed: Any = settings.get(_ALLOWLIST)
        if not isinstance(policy, str):
            return _POLICY
        patterns = tuple(allowed) if isinstance(allowed, list) else ()
        try:
            return new_policy(policy or NEVER_VERIFY_PRELOADED, patterns, profile.imagepull)
        except PolicyError:
            return _POLICY

    def _access(self, record: Record, image: str, user: User, requires: Requires) -> _Access | str:
        """Whether a pod may use an image that is there; or what is missing to know."""
        if not requires(image, True):
            return _Access(True, "no verification is asked for of this image")
        assert self._context.profile is not None
        try:
            name = trim_image_tag_digest(image, self._context.profile.imagepull)
        except ImageNameError:
            return "the name of the image"
        near = [(seq, read.users[name]) for _, seq, read in self._read if name in read.users]
        if not self._context.coverage.is_of_log:  # each record was told as it was written
            near = [each for each in near if each[0] < record.seq][-1:]
        elif not self._read:
            unneeded = not requires(image, False) and self._without_secrets()
            return _Access(True, _NO_SECRETS) if unneeded else _RECORDS
        if not near and requires(image, False):
            return _Access(False, "no record says who may use it")
        if not near:
            is_known = not self._context.coverage.is_of_log
            why = "it was not pulled by the kubelet, which needs no verification"
            return _Access(True, why) if is_known else _RECORDS
        if all(users.everyone for _, users in near):
            return _Access(
                True, "its record says that every pod of the node may use it", near[0][0]
            )
        if len(near) > 1 or self._context.coverage.is_of_log:
            return _RECORDS
        return user.access(*near[0])

    def _without_secrets(self) -> bool:
        """Whether no pod of any list has secrets, and no plugin was set up to give credentials.

        Then what the kubelet pulled every pod of the node may use, and what it did not pull, too.
        """
        if self._secretless is None:
            specs = [versions_of(each) for each in self._context.pods.all_versions()]
            pulled = any(spec.pull_secrets for versions in specs for spec in versions)
            self._secretless = bool(specs) and not pulled
        return self._secretless and self._context.settings.get(_PLUGINS) in (UNKNOWN, "", None)

    def _may_be_gone(self, ts_ns: int) -> bool:
        """Whether a record of then may have been dropped before the files were read."""
        last_ns = max((read_ns for read_ns, _, _ in self._read), default=ts_ns)
        removed = any(ts_ns <= deleted_ns for deleted_ns in self._deleted_ns)
        return removed or self._context.coverage.missing(ts_ns, max(last_ns, ts_ns)) is not None
