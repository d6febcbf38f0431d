"""Pulls of images: whether one had to be tried, and how it ended.

A pull that fails raises the back-off of its pod and image, as the kubelet raises it; until that
has passed no other is tried. A process begins without back-offs. What only a pod's status shows
fell at some time before, and others may have failed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from kubeledger.kubelet.imagepull.image_manager import (
    ALWAYS,
    BACK_OFF,
    IF_NOT_PRESENT,
    NEVER,
    eval_cri_pull_err,
)
from kubeledger.kubelet.kube.flowcontrol import next_back_off
from kubeledger.kubelet.kuberuntime.kuberuntime_manager import series
from kubeledger.kubelet.profile.images import ImagePullFacts
from kubeledger.model.bodies.images import ImageDeleted, PullDecided, PullEnded
from kubeledger.model.record import Body, Record
from kubeledger.model.units import NS_PER_MS, NS_PER_S, format_go_duration, format_ts
from kubeledger.replay.node.state import NodeState
from kubeledger.verify.belief import (
    Belief,
    Judgement,
    RuleVerifier,
    Ruling,
    World,
    all_of,
    judge,
    lacks,
    same,
)
from kubeledger.verify.context import Prescan, See, VerifyContext
from kubeledger.verify.evidence.container_specs import PodSpec, specs_of
from kubeledger.verify.evidence.processes import Process, is_one
from kubeledger.verify.rules.containers import differing, subject_of
from kubeledger.verify.rules.pull_turns import PullTurns, PullUsers

_MARGIN_NS: Final = NS_PER_S // 2
"""A line about a decision is written so soon after it, on a node that is not slow."""
_EXPIRES_NS: Final = 2 * BACK_OFF.max_ns
_NAMES: Final = ("pod_uid", "pod", "namespace", "container", "image")
_RESYNC_NS: Final = 18 * NS_PER_S
_CHANGED: Final = "whether an update gave the pod this image"
_IMAGE: Final = "the image of the container"
_BEFORE: Final = "pulls of it that failed before, and of which no record is left"
_BETWEEN: Final = "whether a pull of it failed meanwhile, of which no record is left"
_EVALUATED: Final = "image pull failed for "
"""The error of a special reason as the pod's status has it begins so."""

_Pull = PullDecided | PullEnded
Specs = tuple[PodSpec, ...] | str
"""All versions of a pod's spec, or what is missing to read one."""
Key = tuple[str, str] | str
"""Pod UID and image, by which back-offs are kept; or what is missing."""


class _Failures(msgspec.Struct):
    """The failed pulls of a pod's image in one process.

    Attributes:
        back_off: what is believed of it since the last one, in nanoseconds.
        last_ns, seq: of the last one, by its line.
        first_ns: when it failed at the earliest.
        seen_ns: when anything was last recorded of it.
        is_open: one may have failed since, which no record shows.
    """

    back_off: Belief[int]
    last_ns: int
    first_ns: int
    seq: int
    seen_ns: int
    count: int = 1
    is_open: bool = False

    def ruling(self, allowed: bool, why: str, world: World[int]) -> Ruling:
        return Ruling(allowed=allowed, why=why, assumes=world.assumes, inputs=(self.seq,))

    def text(self, record: Record) -> str:
        """How long before a record the last one failed."""
        passed_s = (record.ts_ns - self.last_ns) / NS_PER_S
        when = f"failed at {format_ts(self.last_ns)}, {passed_s:.1f} s before"
        if self.first_ns != self.last_ns:
            when = f"failed after {format_ts(self.first_ns)}, and by {format_ts(self.last_ns)}"
            return f"its last pull {when}, as the pod's status shows"
        if self.count == 1:
            return f"its last pull {when}"
        return f"{self.count} pulls of it had failed, the last at {when.removeprefix('failed at ')}"


class PullVerifier(RuleVerifier):
    """Judges whether pulls were tried, and how they ended."""

    rule = "pkg/kubelet/images/image_manager.go EnsureImageExists"
    decides = (PullDecided, PullEnded)

    def __init__(self, context: VerifyContext) -> None:
        super().__init__(context)
        self._process: Process | None = None
        self._failures: dict[tuple[str, str], _Failures] = {}
        self._tried: dict[int, tuple[Record, PullDecided]] = {}
        self._turns = PullTurns(context)
        self._users = PullUsers(context)

    def prescans(self) -> Mapping[type[Body], Prescan]:
        """Records of pulls, which may be read later than they were written."""
        return self._users.prescans()

    def sees(self) -> Mapping[type[Body], See]:
        return {
            PullDecided: self._decided,
            PullEnded: self._ended,
            ImageDeleted: lambda record, body, state: self._users.forget_images(),
        }

    def _decided(self, record: Record, body: PullDecided, state: NodeState) -> None:
        specs = self._specs(record, body)
        known, key = () if isinstance(specs, str) else specs, _key(body, specs)
        judgements = [self._by_policy(specs, body, record)]
        match body.decision:
            case "pull":
                judgements.append(self._over(record, key))
                self._tried[record.seq] = record, body
                # Does only that the image was not there, or not to be used, lead to a pull?
                policies = [_policies(s.pulls(body.container, self._facts), body) for s in known]
                if known and all(each == {IF_NOT_PRESENT} for each in policies):
                    judgements.insert(0, self._users.judge_pull(record, body, known))
            case "back_off":
                judgements.append(self._held_back(record, body, key))
            case "present":
                judgements.append(self._users.judge(record, body, known))
                self._users.used(record, body)
        self.conclude(record, subject_of(body), all_of(judgements))

    def _ended(self, record: Record, body: PullEnded, state: NodeState) -> None:
        specs = self._specs(record, body)
        key = _key(body, specs)
        begun = None if record.cause is None else self._tried.pop(record.cause, None)
        if begun is not None:
            judgements = [self._as_tried(record, body, *begun)]
        else:
            self._tried.pop(self._trying(key) or 0, None)
            judgements = [self._by_policy(specs, body, record), self._over(record, key)]
        if body.after_ts_ns is None:
            judgements.append(self._turns.judge(record, body, self._slack_ns(record)))
        if body.outcome != "pulled":
            judgements.append(self._by_error(body))
            if not isinstance(key, str):
                self._fail(record, body, key)
        else:
            self._users.pulled(record, body)
        self.conclude(record, subject_of(body), all_of(judgements))

    def _specs(self, record: Record, body: _Pull) -> Specs:
        """What a pod asks for; back-offs and turns are in the memory of one process."""
        if not is_one(self.context.process, self._process):
            self._process = self.context.process
            self._failures.clear()
            self._tried.clear()
            self._turns.forget()
        return specs_of(self.context.pods, record)

    # -- the policy ------------------------------------------------------------------------

    def _by_policy(self, specs: Specs, body: _Pull, record: Record) -> Judgement:
        """Whether the pod's policy for the image leads to this."""
        if isinstance(specs, str):
            return lacks([specs])
        pulls = [(spec, spec.pulls(body.container, self._facts)) for spec in specs]
        if not any(found for _, found in pulls):
            return lacks(["a list that shows the container"])
        of_image = [(spec, _policies(found, body)) for spec, found in pulls]
        of_image = [(spec, policies) for spec, policies in of_image if policies]
        if not of_image:
            why = f"the pod has no {body.image} to be pulled for it"
            denied = Ruling(allowed=False, why=why, inputs=(specs[0].seq,), certain=True)
            return judge([denied], unknown=[_CHANGED] * self._may_be_changed(record, specs[0]))
        if any(None in policies for _, policies in of_image):
            return lacks(["imagePullPolicy"])
        if body.image is None and any(len(policies) > 1 for _, policies in of_image):
            return lacks([_IMAGE])
        seen = tuple(spec for spec, _ in of_image)
        each = ((spec, one) for spec, found in of_image for one in sorted(filter(None, found)))
        return judge([_by(one, body, spec.assumes(seen), spec.seq) for spec, one in each])

    def _may_be_changed(self, record: Record, spec: PodSpec) -> bool:
        """Whether the pod may have had an image then that no list shows.

        One update brings it, one more takes it away before the next. A static pod has no updates.
        """
        listed, interval = self.context.pods.of(record), self.context.timeline.interval_of(record)
        if spec.is_static or not self.context.coverage.is_of_log:
            return False
        if listed is None or interval is None or not 0 < (interval.added_ns or 0) <= record.ts_ns:
            return True
        times = [interval.added_ns or 0, *(n.ts_ns for n in self.context.pods.versions(listed))]
        since_ns = max(each for each in times if each <= record.ts_ns)
        until_ns = min((each for each in times if each > record.ts_ns), default=record.ts_ns)
        process, is_between = self._process, times[0] < since_ns < until_ns > record.ts_ns
        is_over = process is None or (process.ended_ns or until_ns) < until_ns
        updates = self.context.pods.updates(listed, since_ns, until_ns)
        lost = self.context.coverage.missing(since_ns, until_ns)
        return is_over or lost is not None or updates > is_between

    @property
    def _facts(self) -> ImagePullFacts | None:
        return None if self.context.profile is None else self.context.profile.imagepull

    # -- the back-off ----------------------------------------------------------------------

    def _over(self, record: Record, key: Key) -> Judgement:
        """Whether the back-off of a pull that was tried had passed."""
        if isinstance(key, str):
            return lacks([key])
        failed = self._seen(key, record)
        if failed is None:
            return same(True, "no pull of it had failed before")
        passed_ns = self._passed_ns(failed.first_ns, record)
        slack_ns = self._slack_ns(record)
        rulings = []
        for world in failed.back_off.worlds:
            over = passed_ns + slack_ns >= world.state
            why = f"{failed.text(record)}, so its back-off of {format_go_duration(world.state)} "
            why += "had passed" if over else "had not passed, and it cannot have been pulled"
            rulings.append(failed.ruling(over, why, world))
        failed.back_off.keep(lambda value_ns: passed_ns + slack_ns >= value_ns)
        if rulings[0].allowed:
            return same(True, rulings[0].why)
        return judge(rulings, unknown=self._in_a_hole(failed, record))

    def _held_back(self, record: Record, body: PullDecided, key: Key) -> Judgement:
        """Whether the back-off of a pull that was not tried had not passed."""
        if isinstance(key, str):
            return lacks([key])
        failed, slack_ns = self._seen(key, record), self._slack_ns(record)
        if failed is None:
            is_open = self._may_be_lost()
            why = "no pull of it had failed before, so it cannot have been held back"
            rulings = [Ruling(allowed=False, why=why)]
        else:
            rulings, is_open = [], failed.is_open
            since_ns = self._passed_ns(failed.last_ns, record) - slack_ns
            if body.after_ts_ns is not None:
                since_ns -= record.ts_ns - body.after_ts_ns
            for world in failed.back_off.worlds:
                held = since_ns < world.state
                value = format_go_duration(world.state)
                why = f"{failed.text(record)}, and its back-off was {value}"
                why = why if held else f"{why}, so it cannot have been held back"
                rulings.append(failed.ruling(held, why, world))
            if rulings[0].allowed or not is_open:  # else another may have failed since
                failed.back_off.keep(lambda value_ns: since_ns < value_ns)
        if rulings[0].allowed:
            return same(True, rulings[0].why, inputs=rulings[0].inputs)
        lost = () if is_open or failed is None else self._in_a_hole(failed, record)
        return judge(rulings, unknown=[_BETWEEN] if is_open else lost)

    def _in_a_hole(self, failed: _Failures, record: Record) -> Iterator[str]:
        """What else may be where lines are known to be lost: a start of the kubelet, a failure."""
        loss = self.context.coverage.silent(failed.last_ns, record.ts_ns)
        # What files show behind the log's end may be another process's.
        of_files = record.evidence and all(piece.line is None for piece in record.evidence)
        if loss is not None and (loss.to_ts_ns is not None or of_files):
            yield loss.phrase

    def _seen(self, key: tuple[str, str], record: Record) -> _Failures | None:
        """The failures of a pod's image; a pod that waits for it is synced every 10 s to 15 s.

        One may be lost where a sync may be, or the end of a pull that was tried.
        """
        failed = self._failures.get(key)
        if failed is not None:
            if self.context.coverage.is_of_log and not failed.is_open:
                is_late = record.ts_ns - failed.seen_ns > _RESYNC_NS
                failed.is_open = is_late or self._trying(key) is not None
            failed.seen_ns = record.ts_ns
        return failed

    def _trying(self, key: Key) -> int | None:
        """The first pull of an image that was tried and of whose end nothing is recorded."""
        return next((n for n, (_, tried) in self._tried.items() if _key(tried, ()) == key), None)

    def _may_be_lost(self) -> bool:
        """Whether the process may have tried a pull of which nothing is recorded."""
        is_whole = self._process is not None and self._process.from_start
        return self.context.coverage.is_of_log or not is_whole

    def _fail(self, record: Record, body: PullEnded, key: tuple[str, str]) -> None:
        """Raise the back-off; one that may have been forgotten may begin again."""
        failed, slack_ns, now_ns = self._seen(key, record), self._slack_ns(record), record.ts_ns
        begin_ns = now_ns if body.after_ts_ns is None else body.after_ts_ns
        if self._process is not None and begin_ns < self._process.started_ns < now_ns:
            return  # perhaps of the process before
        if failed is None or begin_ns - failed.last_ns - slack_ns > _EXPIRES_NS:
            worlds = Belief([World(BACK_OFF.initial_ns)])
            failed = _Failures(worlds, now_ns, begin_ns, record.seq, now_ns)
            failed.is_open = self._may_be_lost()
            self._failures[key] = failed
        else:
            first = now_ns - failed.first_ns + slack_ns > _EXPIRES_NS
            again = (BACK_OFF.initial_ns,) if first else ()
            failed.back_off.step(lambda value_ns: (next_back_off(BACK_OFF, value_ns), *again))
            failed.last_ns, failed.first_ns, failed.seq = now_ns, begin_ns, record.seq
            failed.count += 1
        failed.is_open |= body.after_ts_ns is not None
        if failed.is_open:
            greater = series(BACK_OFF)
            failed.back_off.widen(lambda ns: (each for each in greater if each > ns), _BEFORE)
            failed.is_open = False

    def _passed_ns(self, since_ns: int, record: Record) -> int:
        """What passed up to a record, by the kubelet's monotonic clock."""
        return record.ts_ns - since_ns + self.context.times.stepped(since_ns, record.ts_ns)

    def _slack_ns(self, record: Record) -> int:
        """By how much what the lines say of a time that has passed may be off."""
        if not self.context.coverage.is_of_log:
            return 0
        has_line = any(piece.line is not None for piece in record.evidence)
        whole_seconds = 0 if has_line else NS_PER_S
        return _MARGIN_NS + whole_seconds + self.context.times.late(record.ts_ns)

    # -- the end ---------------------------------------------------------------------------

    def _as_tried(
        self, record: Record, body: PullEnded, begun: Record, tried: PullDecided
    ) -> Judgement:
        """Whether it is the end of the pull that was tried; a line about one may be lost."""
        for name, is_for in differing(body, tried, _NAMES).items():
            ended = getattr(body, name)
            why = f"what was tried was for {is_for}, so it cannot have ended for {ended}"
            return same(False, why, inputs=[begun.seq], certain=True)
        if body.whole_ms is not None:
            passed_ms = self._passed_ns(begun.ts_ns, record) // NS_PER_MS
            over_ms, slack_ms = body.whole_ms - passed_ms, self._slack_ns(record) // NS_PER_MS + 1
            if max(over_ms, 0 if self.context.coverage.is_of_log else -over_ms) > slack_ms:
                why = f"it was tried {passed_ms / 1000:.1f} s before, so it cannot have taken "
                why += f"{body.whole_ms / 1000:.1f} s"
                return same(False, why, expected={"whole_ms": passed_ms}, inputs=[begun.seq])
        return same(True, "it was tried", inputs=[begun.seq])

    def _by_error(self, body: PullEnded) -> Judgement:
        """Whether the reason that the container waits for follows from the error."""
        if body.reason is None or not body.error or body.error.startswith(_EVALUATED):
            return same(True, "")
        if (facts := self._facts) is None:
            return lacks([self.context.missing_profile])
        reason, _ = eval_cri_pull_err(body.image or "", body.error, facts)
        if body.reason == reason:
            return same(True, "")
        why = f"the reason of this error had to be {reason}, not {body.reason}"
        return same(False, why, expected={"reason": reason}, certain=True)


_DOES: Final[Mapping[str, str]] = {
    ALWAYS: "pulls an image always",
    IF_NOT_PRESENT: "pulls an image that is not there for the pod",
    NEVER: "never pulls an image",
}


def _by(policy: str, body: _Pull, assumes: tuple[str, ...], seq: int) -> Ruling:
    decision = body.decision if isinstance(body, PullDecided) else "pull"
    if decision == "never":
        allowed = policy == NEVER
    else:
        allowed = policy != (ALWAYS if decision == "present" else NEVER)
    why, expected = f"imagePullPolicy {policy} {_DOES.get(policy, '')}", None
    if not allowed:
        why += ", so this cannot have been decided"
        expected = {"decision": "never" if policy == NEVER else "pull"}
    elif decision in ("back_off", "present"):
        why = ""
    said, seqs = expected if isinstance(body, PullDecided) else None, (seq,)
    return Ruling(
        allowed=allowed, why=why, expected=said, assumes=assumes, inputs=seqs, certain=True
    )


def _policies(found: Mapping[str | None, set[str | None]], body: _Pull) -> set[str | None]:
    """The policies of the image that a decision is about, of all where it names none."""
    return set().union(*(of for image, of in found.items() if body.image in (None, image)))


def _key(body: _Pull, specs: Specs) -> Key:
    if body.pod_uid is None:
        return "the pod's UID"
    if body.image is not None:
        return body.pod_uid, body.image
    images = set()
    for spec in () if isinstance(specs, str) else specs:
        container = spec.container(body.container or "")
        images.add(None if container is None or spec.image_volumes else container.image)
    image = images.pop() if len(images) == 1 else None
    return _IMAGE if image is None else (body.pod_uid, image)
