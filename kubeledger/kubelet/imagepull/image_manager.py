"""Have an image for a container: ``images/image_manager.go``.

``EnsureImageExists`` is one function that waits for the runtime in its middle; here it is two.
``ensure_image_exists`` goes up to where the puller takes the request, and knows already when the
answer comes; ``finish`` goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Final

import msgspec

from kubeledger.kubelet.imagepull.image_pull_manager import Check, PullManager
from kubeledger.kubelet.imagepull.keyring import (
    Credential,
    ImageNameError,
    PullSecret,
    lookup,
    parse_image_name,
)
from kubeledger.kubelet.imagepull.puller import QPS_EXCEEDED, Puller
from kubeledger.kubelet.kube.flowcontrol import Backoff, BackOffPolicy
from kubeledger.kubelet.kube.gotexts import aggregate, quoted
from kubeledger.kubelet.kube.gotypes import UnmarshalError
from kubeledger.kubelet.kube.maporder import FIRST_ORDER, MapOrder
from kubeledger.kubelet.profile.images import ImagePullFacts
from kubeledger.model.units import NS_PER_MS, NS_PER_S, format_go_duration

ALWAYS: Final = "Always"
IF_NOT_PRESENT: Final = "IfNotPresent"
NEVER: Final = "Never"
_REGISTRY_ERRORS: Final = {
    "RegistryUnavailable": "the registry is unavailable",
    "SignatureValidationFailed": "the signature validation failed",
}
BACK_OFF: Final = BackOffPolicy(10 * NS_PER_S, 300 * NS_PER_S)
"""Of every kubelet. Source: v1.36.2 pkg/kubelet/kubelet.go NewMainKubelet; v1.20.2"""


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What the runtime answers to one PullImage, after ``took_ns``."""

    error: str = ""
    image_ref: str = ""
    size_bytes: int = 0
    took_ns: int = 0


class Request(msgspec.Struct, frozen=True, gc=False):
    """A container that needs its image, and what is outside of the kubelet then.

    Attributes:
        policy: ``imagePullPolicy``; may be empty.
        image_ref: the runtime's ID of the image; empty: it is not there.
        inspect_error: what asking for that fails with.
        credentials: the node's, which come after those of the secrets.
        answer: what the runtime answers to the n-th PullImage, from 0, that is made at a time.
    """

    pod_uid: str
    image: str
    policy: str
    image_ref: str
    inspect_error: str
    secrets: Sequence[PullSecret]
    credentials: Sequence[Credential]
    answer: Callable[[int, int], Answer]


class Fate(Enum):
    """What came of a request."""

    INVALID_NAME = "invalid_name"
    NOT_INSPECTED = "not_inspected"
    NEVER_PULLED = "never_pulled"
    PRESENT = "present"
    SECRET_UNREADABLE = "secret_unreadable"  # no password
    BACKED_OFF = "backed_off"
    REFUSED = "refused"
    FAILED = "failed"
    PULLED = "pulled"


class Attempt(msgspec.Struct, gc=False, eq=False):
    """One request on its way; all that follows from it outside of the manager.

    Attributes:
        began_ns, turn_ns: when it was made, and when its pull had its turn.
        fate: what came of it; of a pull that runs, what will.
        check: why an image that is there may be used, or not; None: that was not asked.
        events: type, reason and message of each event so far, with spaces between.
        pulls: user names of the runtime's calls; empty: without credentials.
        tracked: what the tracker of pods' start-up latency was told.
        image_ref, error, message: what is returned; ``error`` is the reason of a container
            that waits, empty if there is none.
        answer: what the puller will answer at ``finished_ns``; None: it has no request, or none
            any more.
        used: the credentials with which the runtime pulled it.
        credentials: those that may pull it, once they were looked up.
    """

    request: Request
    key: str
    began_ns: int
    turn_ns: int
    finished_ns: int
    fate: Fate = Fate.PRESENT
    check: Check | None = None
    events: list[str] = []
    pulls: list[str] = []
    tracked: list[str] = []
    image_ref: str = ""
    error: str = ""
    message: str = ""
    answer: Answer | None = None
    used: Credential | None = None
    credentials: Sequence[Credential] | None = None

    @property
    def is_pulling(self) -> bool:
        """The puller has it: ``finish`` has to follow when ``finished_ns`` has come."""
        return self.answer is not None

    def ended(self, fate: Fate, error: str, message: str) -> Attempt:
        """There is nothing to wait for."""
        self.fate, self.error, self.message = fate, error, message
        return self

    def warned(self, fate: Fate, error: str, reason: str, message: str) -> Attempt:
        """So, with an event."""
        self.events.append(f"Warning {reason} {message}")
        return self.ended(fate, error, message)


class ImageManager:
    """The image manager of one kubelet process.

    Attributes:
        back_off: pod UID and image -> how long no pull of it is tried.
        pull_manager: verifies credentials; None: the kubelet does not.

    Source: v1.36.2 imageManager; v1.20.2
    """

    def __init__(
        self,
        facts: ImagePullFacts,
        back_off: Backoff,
        puller: Puller,
        pull_manager: PullManager | None,
        order: MapOrder = FIRST_ORDER,
    ) -> None:
        """Of a process that starts.

        Args:
            order: of entries of a secret, and of pulls that end at the same instant.
        """
        self.back_off = back_off
        self.pull_manager = pull_manager
        self._facts, self._puller, self._order = facts, puller, order
        self._previous_errors: dict[str, str] = {}
        self._looks_first = facts.credentials_looked_up_first
        self._looks_first = self._looks_first and not facts.credentials_looked_up_late
        exempt = facts.present_needs_no_credentials and pull_manager is None
        self._looks_first_if_present = self._looks_first and not exempt

    def ensure_images_exist(self, requests: Sequence[Request], now_ns: int) -> list[Attempt]:
        """Make requests one after the other at one instant, and wait until all have returned.

        Each is made when those before wait for something, or are done.
        """
        attempts = []
        for request in requests:
            attempt = self.ensure_image_exists(request, now_ns)
            attempts.append(attempt)
            if attempt.is_pulling and attempt.finished_ns == now_ns:
                self.finish(attempt)
        pulling = [attempt for attempt in attempts if attempt.is_pulling]
        while pulling:
            next_ns = min(attempt.finished_ns for attempt in pulling)
            attempt = self._order.pick([each for each in pulling if each.finished_ns == next_ns])
            pulling.remove(attempt)
            self.finish(attempt)
        return attempts

    def ensure_image_exists(self, request: Request, now_ns: int) -> Attempt:
        """Up to the answer, or to where the runtime pulls.

        Args:
            now_ns: the time; requests come in its order.

        Source: v1.36.2 EnsureImageExists; v1.20.2
        """
        facts, image = self._facts, request.image
        attempt = Attempt(request, f"{request.pod_uid}_{image}", now_ns, now_ns, now_ns)
        try:
            parse_image_name(image, facts)
        except ImageNameError as error:
            message = f"Failed to apply default image tag {quoted(image)}: {error}"
            return attempt.warned(Fate.INVALID_NAME, "InvalidImageName", "InspectFailed", message)
        if not self._image_pull_precheck(attempt):
            return attempt
        present = attempt.image_ref != ""
        try:
            if self._looks_first_if_present if present else self._looks_first:
                self._look_up(attempt)
            if present and not self._must_attempt(attempt, now_ns):
                return attempt
            attempt.image_ref = ""
            if request.policy == NEVER:
                return self._never(attempt)
            if facts.credentials_looked_up_first:
                self._look_up(attempt)
        except UnmarshalError as error:
            attempt.image_ref = ""
            return attempt.ended(Fate.SECRET_UNREADABLE, str(error), str(error))
        return self._pull_image(attempt, now_ns)

    def _image_pull_precheck(self, attempt: Attempt) -> bool:
        """Whether to go on; ``attempt.image_ref`` says then if the image is there.

        Source: v1.36.2 imagePullPrecheck; v1.20.2 EnsureImageExists, shouldPullImage
        """
        request, by_policy = attempt.request, self._facts.policy_checked_before_presence
        if by_policy and request.policy not in (IF_NOT_PRESENT, NEVER):
            return True
        if request.inspect_error:
            named = "" if by_policy else request.image
            message = f"Failed to inspect image {quoted(named)}: {request.inspect_error}"
            attempt.warned(Fate.NOT_INSPECTED, "ImageInspectError", "InspectFailed", message)
            return False
        pulls = request.policy == ALWAYS or (
            request.policy == IF_NOT_PRESENT and not request.image_ref
        )
        if not by_policy and pulls:
            return True
        attempt.image_ref = request.image_ref
        if not request.image_ref and not pulls:
            self._never(attempt)
            return False
        return True

    def _never(self, attempt: Attempt) -> Attempt:
        """Source: v1.36.2 imageNotPresentOnNeverPolicyError; v1.20.2 EnsureImageExists."""
        image = quoted(attempt.request.image)
        message = f"Container image {image} is not present with pull policy of Never"
        return attempt.warned(Fate.NEVER_PULLED, "ErrImageNeverPull", "ErrImageNeverPull", message)

    def _look_up(self, attempt: Attempt) -> Sequence[Credential]:
        """The credentials of the pod's secrets, then the node's; looked up once.

        Source: v1.36.2 makeLookupPullCredentialsFunc; v1.34.9 EnsureImageExists; v1.30.0
            pkg/kubelet/kuberuntime/kuberuntime_image.go PullImage
        """
        found, request = attempt.credentials, attempt.request
        if found is None:
            found = request.credentials
            if request.secrets:
                repo = parse_image_name(request.image, self._facts).repo
                found = [*lookup(request.secrets, repo, self._order), *found]
            attempt.credentials = found
        return found

    def _must_attempt(self, attempt: Attempt, now_ns: int) -> bool:
        """Whether an image that is there has to be pulled all the same; else all is done."""
        request, verified = attempt.request, ""
        if self.pull_manager is not None:
            attempt.check = self.pull_manager.must_attempt_image_pull(
                request.image, request.image_ref, partial(self._look_up, attempt), now_ns
            )
            if attempt.check.pulls:
                return True
            verified = " and can be accessed by the pod"
        image = quoted(request.image)
        message = f"Container image {image} already present on machine{verified}"
        attempt.events.append(f"Normal Pulled {message}")
        if self._facts.pulling_time_finished_if_present:
            attempt.tracked.append("finished")
        told = message if self._facts.policy_checked_before_presence else ""
        attempt.ended(Fate.PRESENT, "", told)
        return False

    def _pull_image(self, attempt: Attempt, now_ns: int) -> Attempt:
        """Hand a request to the puller, unless its back-off has not passed.

        Source: v1.36.2 pullImage; v1.20.2 EnsureImageExists
        """
        image, key, facts = attempt.request.image, attempt.key, self._facts
        if self.pull_manager is not None:
            self.pull_manager.record_pull_intent(image)
        if self.back_off.is_in_back_off_since_update(key, now_ns):
            if self.pull_manager is not None:
                self.pull_manager.record_image_pull_failed(image)
            event = f"Back-off pulling image {quoted(image)}"
            attempt.events.append(f"Normal BackOff {event}")
            cause = self._previous_errors.get(key)
            message = event if cause is None else f"{event}: {cause}"
            return attempt.ended(Fate.BACKED_OFF, "ImagePullBackOff", message)
        self._previous_errors.pop(key, None)
        if facts.pulling_time_started:
            attempt.tracked.append("started")
        attempt.events.append(f"Normal Pulling Pulling image {quoted(image)}")
        attempt.turn_ns, accepted = self._puller.begin(now_ns)
        if not accepted:
            attempt.answer, took_ns = Answer(error=QPS_EXCEEDED), 0
            attempt.fate = Fate.REFUSED
        else:
            took_ns = self._call_runtime(attempt)
        attempt.finished_ns = attempt.turn_ns + took_ns
        self._puller.end(attempt.finished_ns)
        return attempt

    def _call_runtime(self, attempt: Attempt) -> int:
        """Ask the runtime with one credential after the other; how long that takes.

        Source: v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_image.go PullImage; v1.20.2
        """
        attempt.fate = Fate.FAILED
        try:
            credentials: Sequence[Credential | None] = self._look_up(attempt) or (None,)
        except UnmarshalError as error:
            attempt.answer = Answer(error=str(error))
            return 0
        errors, took_ns = [], 0
        for call, credential in enumerate(credentials):
            answer = attempt.request.answer(call, attempt.turn_ns + took_ns)
            attempt.pulls.append("" if credential is None else credential.username)
            took_ns += answer.took_ns
            if not answer.error:
                attempt.fate, attempt.used, attempt.answer = Fate.PULLED, credential, answer
                return took_ns
            errors.append(answer.error)
        attempt.answer = Answer(error=aggregate(errors))
        return took_ns

    def finish(self, attempt: Attempt) -> None:
        """The runtime has answered: what follows at ``attempt.finished_ns``.

        Source: v1.36.2 pullImage, evalCRIPullErr; v1.20.2 EnsureImageExists
        """
        request, outcome, now_ns = attempt.request, attempt.answer, attempt.finished_ns
        assert outcome is not None
        attempt.answer = None
        image, key = request.image, attempt.key
        if outcome.error:
            failed = f"Failed to pull image {quoted(image)}: {outcome.error}"
            attempt.events.append(f"Warning Failed {failed}")
            self.back_off.next(key, now_ns, now_ns)
            attempt.error, attempt.message = eval_cri_pull_err(image, outcome.error, self._facts)
            if self._facts.back_off_says_cause:
                self._previous_errors[key] = f"{attempt.error}: {attempt.message}"
            if self.pull_manager is not None:
                self.pull_manager.record_image_pull_failed(image)
            return
        if self._facts.pulling_time_finished:
            attempt.tracked.append("finished")
        pull_ns, whole_ns = now_ns - attempt.turn_ns, now_ns - attempt.began_ns
        size_bytes = outcome.size_bytes if outcome.image_ref else 0
        pulled = pulled_message(image, pull_ns, whole_ns, size_bytes, self._facts)
        attempt.events.append(f"Normal Pulled {pulled}")
        self.back_off.gc(now_ns)
        attempt.image_ref = outcome.image_ref
        if self.pull_manager is not None:
            self.pull_manager.record_image_pulled(image, outcome.image_ref, attempt.used, now_ns)


def eval_cri_pull_err(image: str, error: str, facts: ImagePullFacts) -> tuple[str, str]:
    """Reason and message of a container whose image could not be pulled.

    Source: v1.36.2 evalCRIPullErr; v1.20.2 EnsureImageExists
    """
    for reason, what in _REGISTRY_ERRORS.items():
        if facts.registry_errors_by_prefix and error.startswith(reason):
            rest = error.removeprefix(reason)
            return reason, f"image pull failed for {image} because {what}{rest}"
    return "ErrImagePull", error


def pulled_message(
    image: str, pull_ns: int, whole_ns: int, size_bytes: int, facts: ImagePullFacts
) -> str:
    """The event of an image that was pulled.

    Args:
        pull_ns: how long the runtime took.
        whole_ns: the same, and the wait for other pulls.
    """
    if facts.pulled_in_milliseconds:
        pull_ns, whole_ns = pull_ns - pull_ns % NS_PER_MS, whole_ns - whole_ns % NS_PER_MS
    whole = format_go_duration(whole_ns)
    text = f"Successfully pulled image {quoted(image)} in "
    if not facts.pulled_says_waiting:
        return text + whole
    text += f"{format_go_duration(pull_ns)} ({whole} including waiting)"
    return f"{text}. Image size: {size_bytes} bytes." if facts.pulled_says_size else text
