"""The removal of the sandbox image, and the pods that it held up."""

from __future__ import annotations

import msgspec
import pytest

from kubeledger.analyze.histories.history import History, history_of_reader
from kubeledger.analyze.why import explain, parse_target
from kubeledger.model.bodies.images import ImageDeleted
from kubeledger.model.bodies.lifecycle import KubernetesEvent, PodAdmitted
from tests.verify.histories import reader, scene


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
