"""The grammar of targets, and which decisions are about one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.analyze.why import parse_target
from kubeledger.analyze.why.concern import concerns, is_image, weight_of
from kubeledger.model.bodies.eviction import PodPreempted
from kubeledger.model.bodies.lifecycle import PodAdmitted, PodRejected
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.record import Body
from tests.verify.histories import scene


@pytest.mark.parametrize(
    ("text", "kind", "parts"),
    [
        ("pod/default/web-0", "pod", ("default", "web-0")),
        ("container/default/web-0/app", "container", ("default", "web-0", "app")),
        ("image/sha256:ab", "image", ("sha256:ab",)),
        ("image/docker.io/library/busybox:1", "image", ("docker.io/library/busybox:1",)),
        ("device/example.com/gpu/gpu-0", "device", ("example.com/gpu", "gpu-0")),
        ("device/gpu/gpu-0", "device", ("gpu", "gpu-0")),
        ("cgroup/kubepods/burstable", "cgroup", ("kubepods/burstable",)),
        ("cgroup//kubepods/", "cgroup", ("kubepods",)),
    ],
)
def test_forms(text: str, kind: str, parts: tuple[str, ...]) -> None:
    target = parse_target(text)
    assert (target.kind, target.parts) == (kind, parts)
    assert parse_target(str(target)) == target


@given(st.text())
def test_any_text_is_a_target_or_a_bad_question(text: str) -> None:
    try:
        target = parse_target(text)
    except BadQuestionError:
        return
    assert all(target.parts)


def test_images_by_prefix() -> None:
    """Six digits at least; with or without the algorithm on either side."""
    known = "sha256:0123456789abcdef"
    for asked, same in (
        ("sha256:0123456789abcdef", True), ("0123456789abcdef", True), ("012345", True),
        ("sha256:012345", True), ("01234", False), ("123456", False), ("0123456789abcdef0", False),
    ):  # fmt: skip
        assert is_image(parse_target(f"image/{asked}"), known) is same


def test_pods_by_name_and_by_uid() -> None:
    """A record without a name is found by its UID; a preemptor is no victim."""
    target = parse_target("pod/default/web")
    uids = frozenset({"u1"})
    admitted: Any = PodAdmitted
    for body, about in (
        (admitted(namespace="default", pod="web", pod_uid="u9"), True),
        (admitted(namespace="other", pod="web", pod_uid="u1"), False),
        (preempted("web", "critical"), True),
        (preempted("filler", "web"), False),
    ):
        (record,) = scene((0, body))
        assert concerns(target, record, uids) is about


def preempted(victim: str, preemptor: str) -> Body:
    return PodPreempted(
        victim_namespace="default", victim_pod=victim, victim_uid=None,
        preemptor_namespace="default", preemptor_pod=preemptor, preemptor_uid=None,
        insufficient=(), evicted=True,
    )  # fmt: skip


def test_a_refusal_explains_more_than_a_later_admission() -> None:
    """An end outweighs what came before and after it; of two of a kind, the later."""
    pod: dict[str, Any] = {"namespace": "default", "pod": "web", "pod_uid": None}
    refused = PodRejected(**pod, reason="OutOfcpu", message="")
    records = scene(
        (0, PodAdmitted(**pod)), (1, refused), (2, refused), (3, PodAdmitted(**pod))
    )  # fmt: skip
    assert max(records, key=weight_of).seq == 3


def test_containers_share_what_ends_their_pod() -> None:
    target = parse_target("container/default/web/app")
    pod: dict[str, Any] = {"namespace": "default", "pod": "web", "pod_uid": None}
    ended, admitted = scene(
        (0, PodRejected(**pod, reason="OutOfcpu", message="")), (1, PodAdmitted(**pod))
    )
    assert concerns(target, ended, frozenset())
    assert not concerns(target, admitted, frozenset())
