"""Pulls of images: back-offs, policies, turns, and who may use an image that is there."""

from typing import Any

import msgspec
import pytest

from kubeledger.model.bodies.images import (
    EvictionSignalObserved,
    ImageDeleted,
    PullDecided,
    PullEnded,
    PullRecordRead,
    PullUsers,
)
from kubeledger.model.bodies.ledger import GapObserved, ImportCompleted
from kubeledger.model.bodies.lifecycle import PodConfigChanged, PodListed
from kubeledger.model.record import Body, Evidence
from kubeledger.model.units import NS_PER_S
from kubeledger.verify import Finding, Variant
from kubeledger.verify.rules.pulls import PullVerifier
from tests.verify.container_scenes import WHO, listed, settings
from tests.verify.histories import kubelet_of, nothing_but, outcomes, scene

Step = tuple[float, Body]
NAMES: dict[str, Any] = WHO | {"container": "app", "image": "x/y:1"}
OTHER: dict[str, Any] = {"container": "z", "image": "z:1"}
IMPORTED = ImportCompleted(digest="", accounts=())
LIMITS: dict[str, Any] = {
    "serializeImagePulls": True,
    "maxParallelImagePulls": None,
    "registryPullQPS": 5,
    "registryBurst": 10,
    "imagePullCredentialsVerificationPolicy": "NeverVerifyPreloadedImages",
    "preloadedImagesVerificationAllowlist": None,
}


alone = nothing_but(PullVerifier)


def decided(decision: Any, **names: Any) -> PullDecided:  # noqa: ANN401 # a literal; any field
    return PullDecided(**NAMES | names, decision=decision)


def failed(error: str = "not found", **names: Any) -> PullEnded:  # noqa: ANN401 # any field
    known: dict[str, Any] = {"outcome": "failed", "error": error, "reason": "ErrImagePull"}
    return PullEnded(**NAMES | known | names)


def pulled(pull_ms: int | None = None, whole_ms: int | None = None, **names: Any) -> PullEnded:  # noqa: ANN401 # any field
    known: dict[str, Any] = {"outcome": "pulled", "pull_ms": pull_ms}
    whole_ms = pull_ms if whole_ms is None else whole_ms
    return PullEnded(**NAMES | known | names, whole_ms=whole_ms)


def pod(policy: str | None = "IfNotPresent", **spec: Any) -> PodListed:  # noqa: ANN401 # any field of a spec
    app = {"name": "app", "image": "x/y:1", "imagePullPolicy": policy}
    other = {"name": "z", "image": "z:1", "imagePullPolicy": "Always"}
    return listed(containers=[app, other], **spec)


def judged(
    *steps: Step,
    version: str | None = "1.36.2",
    of: PodListed | None = None,
    limits: dict[str, Any] | None = None,
    variant: Variant | None = None,
) -> list[Finding]:
    """Findings on a history behind a kubelet's start."""
    began = kubelet_of(version)
    of = pod() if of is None else of
    records = scene((0, began), (0, settings(LIMITS | (limits or {}))), (0.5, of), *steps)
    found = outcomes(records) if variant is None else outcomes(records, variant)
    return [outcome for outcome in found if isinstance(outcome, Finding)]


def said(*steps: Step, **about: Any) -> list[str]:  # noqa: ANN401 # as of judged
    return [" and ".join(f.missing) or f.verdict for f in judged(*steps, **about)]


FAILED: tuple[Step, ...] = ((1, decided("pull")), (2, failed()))
AGAIN: tuple[Step, ...] = (*FAILED, (12.5, decided("pull")), (13, failed()))
"""Two failures: the back-off is 20 s."""
LOG = (900.0, IMPORTED)
OK, NO = "match", "impossible"
BEFORE = "pulls of it that failed before, and of which no record is left"
BETWEEN = "whether a pull of it failed meanwhile, of which no record is left"
RECORDS = "the records of pulls at that time (image_manager/)"


@pytest.mark.parametrize(
    ("steps", "last"),
    [
        (FAILED, OK),
        ((*FAILED, (3, decided("back_off"))), OK),
        ((*FAILED, (11.9, decided("back_off"))), OK),
        ((*FAILED, (12.1, decided("back_off"))), NO),
        ((*FAILED, (11.9, decided("pull"))), NO),
        ((*FAILED, (11.9, failed())), NO),
        (AGAIN, OK),
        ((*AGAIN, (32.9, decided("back_off"))), OK),
        ((*AGAIN, (32.9, decided("pull"))), NO),
        ((*AGAIN, (33.1, decided("pull"))), OK),
        # A success forgets nothing.
        ((*AGAIN, (34, pulled()), (35, failed()), (74, decided("back_off"))), OK),
        # Another image, and another pod, have back-offs of their own.
        ((*AGAIN, (14, decided("pull", **OTHER))), OK),
        # After twice the longest back-off it begins again.
        ((*AGAIN, (620, failed()), (631, decided("pull"))), OK),
        ((1, decided("back_off")), NO),
        # Another process knows nothing.
        ((*AGAIN, (20, kubelet_of(pid=2)),
          (20, settings(LIMITS)), (21, decided("pull"))), OK),
    ],
)  # fmt: skip
def test_back_offs(steps: Any, last: str) -> None:  # noqa: ANN401 # one step, or several
    """10 s, doubled by each failure; all of a history that was told as a whole."""
    rows: tuple[Step, ...] = steps if isinstance(steps[0], tuple) else (steps,)
    assert said(*rows)[-1] == last


def test_a_hole_in_the_log_convicts_nobody() -> None:
    """In it the kubelet may have started anew, or another pull have failed."""
    hole = GapObserved(
        stream="kubelet.log",
        reason="the disk was full",
        since_ts_ns=round((1_000 + 27) * NS_PER_S),
        until_ts_ns=round((1_000 + 30) * NS_PER_S),
    )
    lost = "the log's lines that were not recorded (the disk was full)"
    for decision, second in (("pull", 31), ("back_off", 36)):
        steps = (*AGAIN, (26, decided("back_off")), (30, hole), (second, decided(decision)))
        assert said(*steps, LOG)[-1] == lost
        assert said(*(step for step in steps if step[1] is not hole), LOG)[-1] == NO


def test_what_an_event_shows_behind_the_log_may_be_of_another_process() -> None:
    """The log ends, and a list of events, of later, goes on."""
    records = scene((0, kubelet_of("1.36.2")), (0, settings(LIMITS)), (0.5, pod()), *AGAIN,
                    (31, decided("pull")), LOG)  # fmt: skip
    for evidence, verdict in (((), NO), ((Evidence(file="events.json"),), "unverifiable")):
        told = [
            msgspec.structs.replace(each, evidence=evidence) if each.body == AGAIN[0][1] else each
            for each in records
        ]
        found = [each for each in outcomes(told) if isinstance(each, Finding)]
        assert found[-1].verdict == verdict


@pytest.mark.parametrize(
    ("steps", "last"),
    [
        ((*FAILED, (12.9, decided("pull"))), OK),
        ((*FAILED, (11.2, decided("pull"))), NO),
        # An earlier failure may have left no line, and the back-off be longer ...
        ((*FAILED, (14, decided("back_off"))), BEFORE),
        # ... which the next pull shows it was not.
        ((*AGAIN, (32, decided("back_off"))), OK),
        ((*AGAIN, (26, decided("back_off")), (36, decided("back_off"))), NO),
        ((*AGAIN, (36, decided("back_off"))), BETWEEN),
        # The end of a pull that was tried may be lost, and be another failure.
        (
            (*AGAIN, (26, decided("back_off")), (33.1, decided("pull")), (44, decided("back_off"))),
            BETWEEN,
        ),
        ((*AGAIN, (33.1, decided("pull")), (33.2, failed()), (44, decided("back_off"))), OK),
        # Held back by a failure that is lost, and not for longer by the one that is recorded.
        ((*FAILED, (26, decided("back_off")), (40, failed()), (61, decided("pull"))), OK),
        (((1.0, decided("back_off")),), BETWEEN),
    ],
)
def test_what_a_log_may_have_lost(steps: tuple[Step, ...], last: str) -> None:
    assert said(*steps, LOG)[-1] == last


@pytest.mark.parametrize(
    ("policy", "verdicts"),
    [
        ("Always", (OK, OK, NO, NO)),
        ("IfNotPresent", (OK, OK, OK, NO)),
        ("Never", (NO, NO, OK, OK)),
        (None, ("imagePullPolicy",) * 4),
    ],
)
def test_policies(policy: str | None, verdicts: tuple[str, ...]) -> None:
    of = pod(policy)
    held = said(*FAILED, (3, decided("back_off")), of=of)[-1]
    decisions: Any = ("pull", "present", "never")
    pull, present, never = (said((1, decided(each)), of=of)[-1] for each in decisions)
    assert (pull, held, present, never) == verdicts


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("x/y:1", "IfNotPresent"),
        ("x/y", "Always"),
        ("x/y:latest", "Always"),
        ("reg:5000/x/y", "Always"),
        (f"x/y@sha256:{'0' * 64}", "IfNotPresent"),
        (f"x/y:latest@sha256:{'0' * 64}", "Always"),
    ],
)
def test_the_policy_that_a_manifest_leaves_out(image: str, policy: str) -> None:
    """Is that of the API's defaults; an API server's list that has none is none that is known."""
    containers = [{"name": "app", "image": image}]
    present = (1.0, decided("present", image=image))
    manifest = msgspec.structs.replace(listed(containers=containers), listed_by="manifest")
    assert said(present, of=manifest)[-1] == (NO if policy == "Always" else OK)
    assert said(present, of=listed(containers=containers))[-1] == "imagePullPolicy"


def by(second: float) -> dict[str, Any]:
    return {"after_ts_ns": round((1_000 + second) * NS_PER_S)}


@pytest.mark.parametrize(
    ("steps", "last"),
    [
        # The failure was at some time of the 28 s before ...
        (((30, failed(**by(2))), (31, decided("pull"))), OK),
        (((5, failed(**by(3))), (6, decided("pull"))), NO),
        (((30, failed(**by(2))), (39.9, decided("back_off"))), OK),
        # ... and others may have failed with it.
        (((30, failed(**by(2))), (45, decided("back_off"))), BEFORE),
        ((*FAILED, (60, decided("back_off"))), NO),
        ((*FAILED, (60, decided("back_off", **by(3)))), OK),
        ((*FAILED, (60, decided("back_off", **by(12.5)))), NO),
        (((60, decided("never", **by(3))),), NO),
        (((60, failed("pull QPS exceeded", outcome="refused", **by(3))),), OK),
        # A process of which the failure may not be.
        (((30, failed(**by(-5))), (31, decided("pull"))), OK),
    ],
)
def test_what_only_a_status_shows(steps: tuple[Step, ...], last: str) -> None:
    """It is judged in all of the time in which it may have been decided."""
    assert said(*steps)[-1] == last


def test_the_policy_of_an_image_that_a_pod_mounts() -> None:
    mounted = {"image": {"reference": "m:1", "pullPolicy": "Never"}}
    of = pod("Always", volumes=[mounted])
    assert said((1, decided("never", image="m:1")), of=of) == [OK]
    assert said((1, decided("never")), of=of) == [NO]
    assert said((1, decided("pull", image=None)), of=of) == ["the image of the container"]


def test_an_image_that_the_pod_does_not_have() -> None:
    """It may have got it by an update that no list shows; of two lists one shows it."""
    assert said((1, decided("pull", image="z:1"))) == [NO]
    assert said((1, decided("pull", image="z:1")), LOG) == [
        "whether an update gave the pod this image"
    ]
    updated = listed({"image": "z:1", "imagePullPolicy": "Always"})
    assert said((1, updated), (2, decided("pull", image="z:1"))) == [OK]
    assert said((1, decided("pull", container=None))) == [OK]


ADDED: Step = (0.7, PodConfigChanged(**WHO, operation="ADD", source="api"))
UPDATED: Step = (1.5, PodConfigChanged(**WHO, operation="UPDATE", source="api"))
WATCHED = [(at_s, EvictionSignalObserved(signal="memory.available", available=8, capacity=9))
           for at_s in range(0, 900, 10)]  # fmt: skip
ANOTHER: Step = (2, decided("pull", image="z:1"))


@pytest.mark.parametrize(
    ("steps", "verdict"),
    [
        ((ADDED, ANOTHER), NO),
        ((ADDED, UPDATED, ANOTHER), "whether an update gave the pod this image"),
        ((ANOTHER,), "whether an update gave the pod this image"),  # it came before the log
    ],
)
def test_updates_are_logged(steps: tuple[Step, ...], verdict: str) -> None:
    told = sorted([*steps, *WATCHED, LOG], key=lambda step: step[0])
    assert said(*told) == [verdict]


def test_what_is_missing() -> None:
    stranger = {"pod": "other", "pod_uid": None}
    assert said((1, decided("pull", **stranger))) == ["the pod's spec and the pod's UID"]
    assert said((1, decided("pull", container="y"))) == ["a list that shows the container"]
    assert said((1, decided("present")), version="1.99.0") == ["the rules of kubelet 1.99.0"]


def test_the_reason_follows_from_the_error() -> None:
    """Since 1.28 from its first word; the status has other words, and says nothing."""
    special = failed("RegistryUnavailable: down")
    assert said((1, special)) == [NO]
    assert said((1, special), version="1.27.0") == [OK]
    assert said((1, failed("image pull failed for x/y:1 because ..."))) == [OK]


@pytest.mark.parametrize(
    ("limits", "verdicts"),
    [
        ({}, [OK, NO]),
        ({"serializeImagePulls": False}, [OK, OK]),
        ({"serializeImagePulls": False, "maxParallelImagePulls": 1}, [OK, NO]),
        ({"serializeImagePulls": False, "maxParallelImagePulls": 2}, [OK, OK]),
        ({"registryPullQPS": 1, "registryBurst": 1}, [OK, NO]),
    ],
)
def test_pulls_that_ran_together(limits: dict[str, Any], verdicts: list[str]) -> None:
    assert said((10, pulled(5000)), (10.5, pulled(5000, **OTHER)), limits=limits) == verdicts


def test_what_would_have_been_of_two_pulls() -> None:
    steps = ((10, pulled(5000)), (10.5, pulled(5000, **OTHER)))
    parallel = {"serializeImagePulls": False}
    variant = Variant(settings={"serializeImagePulls": True})
    later = judged(*steps, limits=parallel, variant=variant)[-1]
    assert later.expected == {"whole_ms": 9500}
    assert "cannot have run beside another one" in later.why


def test_waiting_for_nothing() -> None:
    steps: Step = (20, pulled(5000, 16_000))
    assert said(steps, limits={"serializeImagePulls": False}) == [NO]
    assert said(steps) == [OK]


@pytest.mark.parametrize(
    ("limits", "verdict"),
    [
        ({}, "all pulls of that time"),
        ({"registryPullQPS": 0}, NO),
        ({"registryPullQPS": 1, "registryBurst": 3}, OK),
        ({"registryPullQPS": 1, "registryBurst": 0}, OK),
        ({"registryPullQPS": None}, "the setting registryPullQPS"),
    ],
)
def test_pulls_that_were_refused(limits: dict[str, Any], verdict: str) -> None:
    before = tuple((9.0 + n / 10, pulled(10, **OTHER)) for n in range(3))
    refused = failed("pull QPS exceeded", outcome="refused")
    found = said(*before, (9.4, refused), limits=limits | {"serializeImagePulls": False})[-1]
    assert found == verdict.removeprefix("the setting ")


SECRET: dict[str, Any] = {"imagePullSecrets": [{"name": "s"}]}


def read(name: str = "x/y", **users: Any) -> PullRecordRead:  # noqa: ANN401 # any field
    of = {name: PullUsers(**users)}
    return PullRecordRead(api_version="v1", image_ref="sha256:1", updated_ts_ns=1, users=of)


@pytest.mark.parametrize(
    ("before", "limits", "version", "verdict"),
    [
        ((), {}, "1.36.2", OK),
        ((), {"imagePullCredentialsVerificationPolicy": "AlwaysVerify"}, "1.36.2", NO),
        ((), {"imagePullCredentialsVerificationPolicy": None}, "1.36.2",
         "imagePullCredentialsVerificationPolicy"),
        ((), {}, "1.34.1", NO),
        ((), {"featureGates": {"KubeletEnsureSecretPulledImages": True}}, "1.34.1", OK),
        ((read(everyone=True),), {}, "1.36.2", OK),
        ((read(secrets=("default/s",)),), {}, "1.36.2", OK),
        ((read(secrets=("default/t",)),), {}, "1.36.2", "the contents of pull secrets"),
        ((read(service_accounts=("default/t",)),), {}, "1.36.2", NO),
        ((read(service_accounts=("default/default",)),), {}, "1.36.2", OK),
        ((read(secrets=("default/t",)),),
         {"imagePullCredentialsVerificationPolicy": "NeverVerify"}, "1.36.2", OK),
        ((read(secrets=("default/t",)), read(everyone=True)), {}, "1.36.2", OK),
    ],
)  # fmt: skip
def test_an_image_that_is_there(
    before: tuple[Body, ...], limits: dict[str, Any], version: str, verdict: str
) -> None:
    steps = (*((1.0, each) for each in before), (2.0, decided("present")))
    assert said(*steps, of=pod(**SECRET), limits=limits, version=version) == [verdict]


ALWAYS = {"imagePullCredentialsVerificationPolicy": "AlwaysVerify"}
GONE = ImageDeleted(image_id="sha256:1", size_bytes=1)


@pytest.mark.parametrize(
    ("after", "limits", "verdict"),
    [
        ((), {}, RECORDS),
        ((), ALWAYS, RECORDS),
        (((9.0, read(everyone=True)),), {}, OK),
        (((9.0, read(secrets=("default/s",))),), {}, RECORDS),
        (((9.0, read("other", everyone=True)),), {}, RECORDS),
        (((5.0, GONE), (9.0, read("other", everyone=True))), ALWAYS, RECORDS),
    ],
)
def test_an_image_that_is_there_by_a_log(
    after: tuple[Step, ...], limits: dict[str, Any], verdict: str
) -> None:
    steps = ((2.0, decided("present")), *after, LOG)
    assert said(*steps, of=pod(**SECRET), limits=limits) == [verdict]


def test_an_image_is_pulled_again_for_a_reason() -> None:
    """It was removed, or the pod may not use it; else there was none."""
    theirs, ours = (read(secrets=(f"default/{name}",)) for name in "ts")
    first: tuple[Step, ...] = ((1, decided("pull")), (2, pulled()))
    again: Step = (60.0, decided("pull"))
    of = pod(**SECRET)
    assert said(*first, again, of=of, version="1.30.0")[-1] == NO
    assert said((2, decided("present")), again, of=of, version="1.30.0")[-1] == NO
    assert said(*first, (3, GONE), again, of=of, version="1.30.0")[-1] == OK
    assert said(*first, (3, theirs), again, of=of)[-1] == OK
    assert said(*first, (3, ours), again, of=of)[-1] == NO
    removed = "whether something else than the kubelet had removed the image"
    assert said(*first, again, LOG, of=of, version="1.30.0")[-1] == removed
    assert said(*first, again, of=pod("Always"), version="1.30.0")[-1] == OK
