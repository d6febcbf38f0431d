"""Pulls in the state: what fails, by pod, and who may use which image."""

from typing import Any

import msgspec

from kubeledger.model.bodies.images import PullDecided, PullEnded, PullRecordRead, PullUsers
from kubeledger.model.bodies.lifecycle import PodTerminated
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.record import Body
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.node.reducer import evolve
from kubeledger.replay.node.state import NodeState, document
from tests.verify.container_scenes import WHO, listed
from tests.verify.histories import scene

NAMES: dict[str, Any] = WHO | {"container": "app", "image": "x/y:1"}
FAILED = PullEnded(**NAMES, outcome="failed", error="not found", reason="ErrImagePull")
HELD = PullDecided(**NAMES, decision="back_off")
PULLED = PullEnded(**NAMES, outcome="pulled")
INTENT = PullRecordRead(api_version="v1beta1", image="x/y:1")
RECORD = PullRecordRead(
    api_version="v1beta1", image_ref="sha256:a", users={"x/y": PullUsers(secrets=("shop/s",))}
)


def pulls(*steps: tuple[float, Body]) -> dict[str, Any]:
    """What the state says of pulls behind some records."""
    state = NodeState()
    for record in scene((0, listed()), *steps):
        evolve(state, record)
    found: dict[str, Any] = document(state, ["pulls"])["pulls"]
    return found


def test_what_fails_stands_there_until_it_is_pulled() -> None:
    """By pod and image, with how often and why."""
    found = pulls((1, FAILED), (12, FAILED), (13, HELD))["failing"]["u-1"]["x/y:1"]
    at = {"failed_ts_ns": 1_012 * NS_PER_S, "held_back_ts_ns": 1_013 * NS_PER_S}
    assert found == at | {"failures": 2, "reason": "ErrImagePull", "error": "not found"}
    assert pulls((1, FAILED), (33, PULLED))["failing"] == {}
    assert pulls((33, PULLED))["failing"] == {}


def test_it_ends_with_pod_and_process() -> None:
    """Both forget it; a pod that nothing shows has none."""
    ended = PodTerminated(**WHO)
    other = KubeletStarted(pid=2, kubelet_version="1.36.2", version_source="log", restart=True)
    assert pulls((1, FAILED), (2, ended))["failing"] == {}
    assert pulls((1, FAILED), (2, other))["failing"] == {}
    stranger = msgspec.structs.replace(FAILED, pod_uid="u-2", pod="q")
    assert pulls((1, stranger))["failing"] == {}


def test_a_uid_that_becomes_known_takes_over() -> None:
    """What stood under the name stands under the UID."""
    nameless = msgspec.structs.replace(listed(), pod_uid=None)
    without = msgspec.structs.replace(FAILED, pod_uid=None)
    state = NodeState()
    for record in scene((0, nameless), (1, without), (2, listed())):
        evolve(state, record)
    assert list(state.imagepull.failing) == ["u-1"]


def test_files_of_pulls() -> None:
    """Who may use an image; what is to be pulled, until that has ended."""
    found = pulls((1, RECORD), (2, INTENT))
    assert found["pulled"]["sha256:a"]["users"]["x/y"]["secrets"] == ("shop/s",)
    assert found["pulling"] == {"x/y:1": 1_002 * NS_PER_S}
    assert pulls((2, INTENT), (3, FAILED))["pulling"] == {}
