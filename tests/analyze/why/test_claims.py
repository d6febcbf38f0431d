"""What is told of a pod's resource claims, and of its resizes in place."""

from typing import Any

import msgspec
import pytest

from kubeledger.analyze.histories.history import History, history_of_reader
from kubeledger.analyze.why import explain, parse_target
from kubeledger.model.bodies.devicemanager import ClaimPrepared, ClaimReleased
from kubeledger.model.bodies.images import ImageDeleted
from kubeledger.model.bodies.lifecycle import (
    KubernetesEvent,
    PodAdmitted,
    PodListed,
    PodResized,
    PodTerminating,
)
from kubeledger.model.record import Body
from tests.analyze.why.test_stages import POD, answer, failed, started
from tests.verify.histories import reader, scene

SHARED: dict[str, Any] = {**POD, "claim": "gpus", "claim_uid": "c-1"}
PREPARED = ClaimPrepared(**SHARED, drivers={"gpu.example.com": ()})
UNPREPARED = ClaimReleased(**SHARED, unprepared=True, inferred=True)
REASON = "FailedPrepareDynamicResources"


def listed(*claims: str) -> PodListed:
    """A list shows which claims the pod names: the first itself, others by templates."""
    named = [{"name": "own", "resourceClaimName": claim} for claim in claims[:1]]
    made = [{"name": "made", "resourceClaimName": claim} for claim in claims[1:]]
    spec = {"resourceClaims": [*named, *({"name": "made"} for _ in made)]}
    return PodListed(**POD, spec=spec, status={"resourceClaimStatuses": made}, listed_by="kubelet")


def told(*bodies: Body) -> str:
    found = answer(PodAdmitted(**POD), *bodies)
    return "\n".join([found.headline, *(step.text for step in found.steps)])


def test_a_pod_that_a_claim_holds_up_names_it() -> None:
    named = failed("resources", REASON, "ResourceClaim gpus: not allocated", about="gpus")
    cause = "ResourceClaim gpus: not allocated"
    assert f"its resource claim gpus cannot be prepared ({cause})" in told(named)
    unnamed = failed("resources", REASON, "DRA driver gpu.example.com is not registered")
    says = "cannot be prepared: DRA driver gpu.example.com is not registered"
    assert f"its resource claim {says}" in told(unnamed)
    assert f"its resource claim gpus, nets {says}" in told(listed("gpus", "nets"), unnamed)


@pytest.mark.parametrize(
    ("bodies", "says"),
    [
        ([PREPARED], "had its claim gpus prepared: by gpu.example.com"),
        ([PREPARED, started(), UNPREPARED], "had its claim gpus unprepared while it ran: the end "
         "of another pod that names the claim unprepares it (kubernetes#140212)"),
        ([PREPARED, started(), PodTerminating(**POD, reason="deleted", grace_period_s=0),
          UNPREPARED], "gave back its claim gpus"),
        ([PREPARED, started(), ClaimReleased(**SHARED, unprepared=False)],
         "gave back its claim gpus: other pods hold it"),
        ([PodResized(**POD, outcome="allocated", resources={"app": {"requests": {"cpu": "1"}}})],
         "was given what a resize in place asks for: app requests cpu 1"),
        ([PodResized(**POD, outcome="deferred", message="No room.")],
         "had its resize in place deferred: No room."),
        ([PodResized(**POD, outcome="allocated", reason="Error", message="too low")],
         "cannot be given what its resize in place was allocated: too low"),
    ],
)  # fmt: skip
def test_steps(bodies: list[Body], says: str) -> None:
    assert says in told(*bodies)


# The removal of the sandbox image, and the pods that it held up.


def history() -> History:
    """An image goes, then a pod fails three times, then another one."""

    def failed(pod: str) -> KubernetesEvent:
        return KubernetesEvent(
            object_kind="Pod", namespace="ns", pod=pod, pod_uid=pod, type="Warning",
            reason="FailedCreatePodSandBox", message="failed to get sandbox image",
        )  # fmt: skip

    steps = [
        (0, PodAdmitted(namespace="ns", pod="p", pod_uid="p")),
        (1, ImageDeleted(image_id="sha256:aaaaaaaaaaaa", size_bytes=1, pass_="age")),
        *((at_s, failed("p")) for at_s in (2, 3, 4)),
        (5, failed("q")),
    ]
    records = [
        msgspec.structs.replace(
            record, cause=2 if isinstance(record.body, KubernetesEvent) else None
        )
        for record in scene(*steps)
    ]
    return history_of_reader("node-t", "node-t", reader(records))


@pytest.mark.parametrize(
    ("target", "reported"),
    [
        ("image/sha256:aaaaaaaaaaaa", "(4 times), which held up ns/p, ns/q."),
        ("image/sha256:aaaaaaaaaaaa", ": it was unused for longer than imageMaximumGCAge"),
        ("pod/ns/p", "its sandbox could not be made from 1970-01-01T00:16:42Z on (3 times), for"),
    ],
)
def test_both_ends_are_reported(target: str, reported: str) -> None:
    """Of the image whom it held up, of the pod what was missing; the records are evidence."""
    found = explain(history(), parse_target(target))
    assert found is not None
    assert reported in found.sentence
    assert {2, 3} <= {piece.seq for piece in found.evidence}


def test_as_of_a_time_before() -> None:
    found = explain(history(), parse_target("pod/ns/p"), upto_ts_ns=1_001 * 10**9)
    assert found is not None
    assert "sandbox" not in found.sentence
