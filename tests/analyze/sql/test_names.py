"""Pods that may have been meant."""

from __future__ import annotations

import pytest

from kubeledger.analyze.sql.listing import similar_pods
from kubeledger.model.bodies.lifecycle import PodAdmitted
from kubeledger.model.record import Record

PODS = ("default/gpu-a-node-b", "default/web-7d9f-xk2", "kube-system/web", "default/db-0")


def records() -> list[Record]:
    return [
        Record(
            node="node-b",
            seq=seq,
            ts_ns=seq,
            role="decision",
            kind=PodAdmitted.kind,
            v=PodAdmitted.v,
            cause=None,
            evidence=(),
            body=PodAdmitted(
                namespace=pod.partition("/")[0], pod=pod.partition("/")[2], pod_uid=str(seq)
            ),
        )
        for seq, pod in enumerate(PODS, 1)
    ]


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("default/gpu-a", ["default/gpu-a-node-b"]),
        ("gpu-a", ["default/gpu-a-node-b"]),
        ("default/web", ["kube-system/web", "default/web-7d9f-xk2"]),
        ("default/db-1", ["default/db-0"]),
        ("default/db-0", []),
        ("nope", []),
        ("", []),
    ],
)
def test_similar(asked: str, meant: list[str]) -> None:
    """A static pod by its manifest's name, a deployment's, another namespace, a slip."""
    assert similar_pods(records(), asked) == meant
