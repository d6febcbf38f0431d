"""What a pull or a use of an image waits for: its turn, the policy, records of pulls."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kubeledger.kubelet.imagepull.image_pull_manager import (
    NEVER_VERIFY_PRELOADED,
    PolicyError,
    Requires,
    new_policy,
)
from kubeledger.kubelet.imagepull.keyring import ImageNameError, trim_image_tag_digest
from kubeledger.model.bodies.images import ImageDeleted, PullDecided, PullEnded, PullRecordRead
from kubeledger.model.bodies.images import PullUsers as UsersOfImage
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_MS, NS_PER_S, format_ts
from kubeledger.verify.belief import Judgement, Ruling, all_of, judge, lacks, open_to, same
from kubeledger.verify.context import Prescan, VerifyContext
from kubeledger.verify.evidence.container_specs import PodSpec, versions_of
from kubeledger.verify.finding import Fields
from kubeledger.verify.variant import UNKNOWN

_WAIT_NS: Final = 10 * NS_PER_S
"""Nothing but another pull keeps one waiting for so long."""
_KEPT: Final = 256


class _Turn(NamedTuple):
    """A pull that was recorded: when the runtime had it."""

    begin_ns: int
    end_ns: int
    seq: int


class PullTurns:
    """The pulls of one process that the runtime had."""

    def __init__(self, context: VerifyContext) -> None:
        self._context = context
        self._turns: deque[_Turn] = deque(maxlen=_KEPT)

    def forget(self) -> None:
        self._turns.clear()

    def judge(self, record: Record, body: PullEnded, slack_ns: int) -> Judgement:
        """Judge when a pull ran, or that it was refused; times may be off by ``slack_ns``.

        Source: v1.36.2 pkg/kubelet/images/puller.go, helpers.go throttledImageService
        """
        if body.outcome == "refused":
            return self._refused(record, slack_ns)
        if body.pull_ms is None or body.whole_ms is None:
            return same(True, _ENDS[body.outcome])
        if body.pull_ms > body.whole_ms:
            why = f"the runtime cannot have had it for {body.pull_ms} ms of {body.whole_ms} ms"
            return same(False, why, certain=True)
        turn = _Turn(record.ts_ns - body.pull_ms * NS_PER_MS, record.ts_ns, record.seq)
        waited_ns = (body.whole_ms - body.pull_ms) * NS_PER_MS
        judgements = [
            same(True, f"the runtime had it for {body.pull_ms / 1000:.1f} s"),
            self._at_once(turn, waited_ns, slack_ns),
            self._in_time(turn, slack_ns),
        ]
        self._turns.append(turn)
        return all_of(judgements)

    def _at_once(self, turn: _Turn, waited_ns: int, slack_ns: int) -> Judgement:
        """Whether so many pulls may run together, or one may wait."""
        beside = [o for o in self._turns if min(o.end_ns, turn.end_ns)
                  - max(o.begin_ns, turn.begin_ns) > 2 * slack_ns]  # fmt: skip
        waits = waited_ns > (_WAIT_NS + slack_ns if self._context.coverage.is_of_log else 0)
        if not beside and not waits:
            return same(True, "")
        limit = self._limit()
        if isinstance(limit, str):
            return lacks([limit])
        if limit is None:
            why = f"it waited for {waited_ns / NS_PER_S:.1f} s, and cannot have waited, as any "
            why += "number of pulls may run together"
            expected = {"whole_ms": (turn.end_ns - turn.begin_ns) // NS_PER_MS}
            return same(not waits, why if waits else "", expected=expected if waits else None)
        spans = [(t.begin_ns + slack_ns, t.end_ns - slack_ns) for t in (turn, *beside)]
        if max(sum(begin <= at < end for begin, end in spans) for at, _ in spans) <= limit:
            return same(True, "")
        ends = sorted((other.end_ns for other in beside), reverse=True)
        later_ns = max(0, ends[limit - 1] - turn.begin_ns)
        others = f"{len(beside)} others" if len(beside) > 1 else "another one"
        why = f"it cannot have run beside {others}, where {limit} may run at a time"
        whole_ms = (waited_ns + later_ns + turn.end_ns - turn.begin_ns) // NS_PER_MS
        seqs = [other.seq for other in beside]
        return same(False, why, expected={"whole_ms": whole_ms}, inputs=seqs)

    def _limit(self) -> int | str | None:
        """How many pulls may run together; None: any number; or the setting that is missing."""
        settings = self._context.settings
        serialize = settings.get("serializeImagePulls")
        if serialize is UNKNOWN:
            return "serializeImagePulls"
        if serialize:
            return 1
        if self._context.profile is None:
            return self._context.missing_profile
        if not self._context.profile.imagepull.parallel_pulls_limited:
            return None
        limit = settings.get("maxParallelImagePulls")  # has no default: left out, it is no limit
        return limit if isinstance(limit, int) and limit > 0 else None

    # -- the rate --------------------------------------------------------------------------

    def _rate(self) -> tuple[float, int] | str | None:
        """Tokens a second, and the most; None: no limit; or the setting that is missing."""
        qps: Any = self._context.settings.get("registryPullQPS")
        burst: Any = self._context.settings.get("registryBurst")
        if qps is UNKNOWN:
            return "registryPullQPS"
        if not qps:
            return None
        return "registryBurst" if burst is UNKNOWN else (qps, burst)

    def _in_time(self, turn: _Turn, slack_ns: int) -> Judgement:
        """Whether a token was left for a pull, whatever else took some."""
        before = [other for other in self._turns if other.begin_ns <= turn.begin_ns]
        rate = self._rate() if before else None
        if rate is None or isinstance(rate, str):
            return same(True, "")  # of most nodes nobody would ever notice
        qps, burst = rate
        before.sort(key=lambda other: -other.begin_ns)
        for taken, first in enumerate(before, start=1):
            window_ns = turn.begin_ns - first.begin_ns + slack_ns
            if (taken + 1 - burst) * NS_PER_S > qps * window_ns:
                why = f"{taken} pulls had begun within {window_ns / NS_PER_S:.1f} s, and "
                why += f"registryPullQPS {qps} "
                why += f"with registryBurst {burst} cannot have let another one pass"
                seqs = [other.seq for other in before[:taken]]
                return same(False, why, expected={"outcome": "refused"}, inputs=seqs)
        return same(True, "")

    def _refused(self, record: Record, slack_ns: int) -> Judgement:
        """Whether there can have been no token for a pull."""
        rate = self._rate()
        if isinstance(rate, str):
            return lacks([rate])
        if rate is None:
            return same(False, "it cannot have been refused: registryPullQPS is 0", certain=True)
        qps, burst = rate
        if burst < 1:
            return same(True, f"registryBurst {burst} lets no pull pass")
        seen = sorted((t for t in self._turns if t.begin_ns <= record.ts_ns + slack_ns),
                      key=lambda turn: -turn.begin_ns)  # fmt: skip
        for taken, first in enumerate(seen, start=1):
            window_s = max(0, record.ts_ns - first.begin_ns - slack_ns) / NS_PER_S
            if taken > burst - 1 + qps * window_s:
                why = f"{taken} pulls had begun within {window_s:.1f} s: more than registryPullQPS "
                return same(True, f"{why}{qps} lets pass", inputs=[t.seq for t in seen[:taken]])
        why = f"registryPullQPS {qps} with registryBurst {burst} cannot have refused it: "
        why += f"{len(seen)} other pulls are recorded"
        return open_to("all pulls of that time", denied=why)


_ENDS: Final = {"pulled": "it was pulled", "failed": "its pull failed"}


# Whether a pod may use an image that is there: policy, and records of pulls.
#
# What the kubelet read then is known where its files were read, too. They say who may use an image
# under a name; a record goes with its image.

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


Specs = tuple[PodSpec, ...]
"""What lists say of the pod that is to use an image; none where no list shows it."""


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
        read, deleted_ns = self._read, self._deleted_ns
        return {
            PullRecordRead: lambda record, body: read.append((record.ts_ns, record.seq, body)),
            ImageDeleted: lambda record, body: deleted_ns.append(record.ts_ns),
        }

    def pulled(self, record: Record, body: PullEnded) -> None:
        if body.image is not None:
            self._present[body.image] = record, "pulled"

    def used(self, record: Record, body: PullDecided) -> None:
        if body.image is not None:
            self._present.setdefault(body.image, (record, "used without a pull"))

    def forget_images(self) -> None:
        """One was removed; lines name it otherwise than pods do."""
        self._present.clear()

    def judge(self, record: Record, body: PullDecided, specs: Specs) -> Judgement:
        """Judge that an image was used which is there, by that pod.

        Source: v1.36.2 pkg/kubelet/images/pullmanager/image_pull_manager.go MustAttemptImagePull
        """
        asked = self._asked()
        if isinstance(asked, str):
            return lacks([asked])
        if asked is None:
            why = "without the gate KubeletEnsureSecretPulledImages it cannot have been asked who "
            return same(False, f"{why}may use an image", certain=True)
        access = self._access(record, body, specs, asked)
        if isinstance(access, str):
            return lacks([access])
        inputs = () if access.seq is None else (access.seq,)
        if access.granted:
            return same(True, access.why, inputs=inputs)
        why = f"{access.why}, so it cannot have been used without a pull"
        denied = Ruling(allowed=False, why=why, expected={"decision": "pull"}, inputs=inputs)
        may_be_gone = self._context.coverage.is_of_log and self._may_be_gone(record.ts_ns)
        return judge([denied], unknown=[_RECORDS] * may_be_gone)

    def judge_pull(self, record: Record, body: PullDecided, specs: Specs) -> Judgement:
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
            found = self._access(record, body, specs, asked)
            if isinstance(found, str):
                return same(True, "")
            access = found
        if not access.granted:
            return same(True, f"it was there, but {access.why}", inputs=[pulled.seq])
        why = f"it was {how} at {format_ts(pulled.ts_ns)}, and {access.why}, so it cannot have "
        expected: Fields | None = None if asked is None else {"decision": "present"}
        denied = Ruling(allowed=False, why=f"{why}been pulled again", expected=expected,
                        inputs=(pulled.seq,))  # fmt: skip
        return judge([denied], unknown=[_REMOVED] * self._context.coverage.is_of_log)

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

    def _access(
        self, record: Record, body: PullDecided, specs: Specs, requires: Requires
    ) -> _Access | str:
        """Whether a pod may use an image that is there; or what is missing to know."""
        image = body.image or ""
        if not requires(image, True):
            return _Access(True, "no verification is asked for of this image")
        try:
            name = trim_image_tag_digest(image, self._context.known_profile.imagepull)
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
            why = "its record says that every pod of the node may use it"
            return _Access(True, why, near[0][0])
        if len(near) > 1 or self._context.coverage.is_of_log:
            return _RECORDS
        return _by_record(body.namespace, specs, *near[0])

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


def _by_record(namespace: str, specs: Specs, seq: int, users: UsersOfImage) -> _Access | str:
    """Whether a record of those who may use an image lets a pod; or what is missing to know.

    Other secrets may hold the same credentials, which records keep as hashes.
    """
    if not specs:
        return "the pod's spec"
    secrets, accounts = specs[0].pull_secrets, [specs[0].service_account]
    for names, known in ((secrets, users.secrets), (accounts, users.service_accounts)):
        for name in names:
            if f"{namespace}/{name}" in known:
                return _Access(True, f"it was pulled with {name} before", seq)
    if secrets and users.secrets:
        return "the contents of pull secrets"
    return _Access(False, "its record names nothing that the pod has", seq)
