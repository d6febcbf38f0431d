"""All lines about one pod are lost, and other sources still show it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubeledger.analyze.histories.sources import open_histories
from kubeledger.model.bodies.lifecycle import PodConfigChanged, PodListed
from kubeledger.model.bodies.node import KubeletStarted
from kubeledger.model.record import Body
from kubeledger.model.units import NS_PER_S
from kubeledger.verify.evidence.sync_loop import PodsWithoutAdd
from kubeledger.verify.finding import Finding
from tests.recordings import extract
from tests.verify.histories import scene


def start(*, whole: bool = True) -> KubeletStarted:
    return KubeletStarted(pid=1, kubelet_version="1.36.2", version_source="log", from_start=whole)


def comes(pod: str, uid: str | None = None) -> PodConfigChanged:
    return PodConfigChanged(namespace="ns", pod=pod, pod_uid=uid, operation="ADD", source="api")


def shown(
    pod: str, uid: str | None = "u", phase: str = "Running", created_s: int | None = None
) -> PodListed:
    """The kubelet's own list shows a pod."""
    return PodListed(
        namespace="ns", pod=pod, pod_uid=uid, spec={}, status={"phase": phase},
        listed_by="kubelet", created_ts_ns=None if created_s is None else created_s * NS_PER_S,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ([(0, start()), (1, comes("a")), (20, shown("a")), (20, shown("b"))], ["ns/b"]),
        ([(0, start()), (1, comes("a", "u")), (20, shown("a", "u")), (30, comes("b"))], []),
        ([(0, start()), (15, comes("a")), (20, shown("b", created_s=1_015))], ["ns/b"]),
        ([(0, start()), (15, comes("a")), (20, shown("b", created_s=1_016))], []),  # the log ends
        ([(0, start()), (20, shown("b"))], []),  # it tells of no pod: its verbosity is low
        ([(0, start(whole=False)), (1, comes("a")), (20, shown("b"))], []),
        ([(0, start()), (1, comes("a")), (20, shown("b", phase="Failed"))], []),
        ([(0, start()), (1, comes("a")), (5, shown("b"))], []),  # of the process before
        ([(0, start()), (1, comes("b")), (50, start()), (51, comes("a")), (70, shown("b"))],
         ["ns/b"]),
    ],
)  # fmt: skip
def test_pods_of_which_a_log_does_not_tell(
    steps: list[tuple[float, Body]], found: list[str]
) -> None:
    """Only where the log begins with the process, and tells of others."""
    pods = PodsWithoutAdd()
    for record in scene(*steps):
        pods.note(record)
    assert [pod.name for pod in pods.found()] == found


@pytest.mark.parametrize(("node", "pod"), [("node-a", "gpu-a"), ("node-b", "filler-a-node-b")])
def test_without_the_lines_of_a_pod_nothing_is_impossible(
    node: str, pod: str, tmp_path: Path
) -> None:
    """Not the writes for it, nor what others were let in or killed for beside it."""
    root = extract(node, tmp_path)
    log = root / "kubelet.log"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(line for line in lines if pod.encode() not in line))
    with open_histories([str(root)]) as histories:
        (history,) = histories
        outcomes = list(history.verify())
    findings = [outcome for outcome in outcomes if isinstance(outcome, Finding)]
    assert len(findings) == len(outcomes)
    assert [finding for finding in findings if finding.verdict == "impossible"] == []
    assert sum(finding.verdict == "match" for finding in findings) > 180
