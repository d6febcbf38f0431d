"""Kills of pods that are stopped as a whole: cause, words and seconds."""

from typing import Any

import msgspec
import pytest

from kubeledger.model.bodies.lifecycle import PodAdmitted, PodRejected, PodTerminating
from kubeledger.verify import registry
from kubeledger.verify.rules.shutdowns import ShutdownVerifier
from tests.verify.container_scenes import (
    WHO,
    Step,
    added,
    began,
    judged,
    killed,
    listed,
    started,
    verdicts,
)
from tests.verify.histories import outcomes, scene

HOOKED = {"lifecycle": {"postStart": {"exec": {"command": ["false"]}}}}


def ending(reason: Any, grace_s: int | None = None) -> PodTerminating:  # noqa: ANN401 # a reason
    return PodTerminating(
        namespace="default", pod="p", pod_uid="u-1", reason=reason, grace_period_s=grace_s
    )


@pytest.mark.parametrize(
    ("source", "again", "uid", "says"),
    [
        ("api", "ADD", "u-2", "the pod was deleted"),
        ("file", "REMOVE", "u-2", "the static pod's manifest was removed"),
        ("file", "ADD", "u-2", "the static pod's manifest was changed"),
        ("file", "ADD", "u-1", "the static pod's manifest was changed"),
    ],
)
def test_a_static_pod_whose_manifest_changed(source: str, again: str, uid: str, says: str) -> None:
    """Another pod of the name, or the same UID again, comes in its place."""
    gone, new = (msgspec.structs.replace(added(how), source=source) for how in ("REMOVE", again))
    new = msgspec.structs.replace(new, pod_uid=uid)
    kill = killed(reason="pod_deleted", message="Stopping container app", grace_period_s=30)
    steps: list[Step] = [(1, listed()), (1.1, added()), (2, started("c1"))]
    steps += [(10, gone), (10.0001, ending("removed", 30)), (10.0002, new), (10.1, kill)]
    (finding, *_), _ = judged(*steps)
    assert finding.verdict == "match"
    assert says in finding.why


@pytest.mark.parametrize(("hook", "verdict"), [(HOOKED, "match"), ({}, "impossible")])
def test_a_failed_post_start_hook(hook: dict[str, Any], verdict: str) -> None:
    kill = killed(reason="post_start_hook", message="FailedPostStartHook", grace_period_s=30)
    steps: list[Step] = [(1, listed(hook)), (1.1, added()), (2, started("c1")), (3, kill)]
    assert verdicts(*steps) == [verdict]


@pytest.mark.parametrize(
    ("first", "later", "count"),
    [
        ("refused", None, 0),
        ("refused", "refused", 1),
        ("refused", "stopped", 1),
        ("stopped", None, 1),
        ("refused", "kubelet", 0),
    ],
)
def test_a_pod_that_is_let_in_while_the_node_shuts_down(
    monkeypatch: pytest.MonkeyPatch, first: str, later: str | None, count: int
) -> None:
    """Of a shutdown that only a refusal shows no line may tell that it was cancelled."""
    monkeypatch.setattr(registry, "verifiers_for", lambda kinds: (ShutdownVerifier,))
    other: Any = {"namespace": "default", "pod": "other", "pod_uid": "u-9"}
    message = "Pod was rejected as the node is shutting down."
    (_, kubelet), *_ = began()
    signs = {
        "refused": PodRejected(**other, reason="NodeShutdown", message=message),
        "stopped": PodTerminating(**other, reason="shutdown", grace_period_s=7),
        "kubelet": msgspec.structs.replace(kubelet, pid=2),
    }
    steps: list[Step] = [*began(), (1, signs[first]), (5, added()), (5.1, PodAdmitted(**WHO))]
    steps += [] if later is None else [(9, signs[later]), (10, signs["refused"])]
    found = [each.why for each in outcomes(scene(*steps)) if "is let in" in each.why]
    assert len(found) == count
