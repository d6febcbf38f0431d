"""What explains the end of a container: its own, or what befell its pod."""

import re

import msgspec
import pytest

from kubeledger.analyze.histories.history import history_of_reader
from kubeledger.analyze.why import explain, parse_target
from kubeledger.model.bodies.eviction import PodPreempted, PodSpared, ProcessKilled
from kubeledger.model.bodies.lifecycle import PodEvicted
from kubeledger.model.record import Body, Evidence, Record
from tests.verify.container_scenes import began, died, killed, listed, restarted, started
from tests.verify.histories import reader, scene

HARD = "The node was low on resource: memory. Threshold quantity: 1Gi, available: 900Mi. "
SOFT = "The node was low on resource: memory. Threshold quantity: 2Gi, available: 1100Mi. "
OUT = ProcessKilled(
    namespace="default", pod="p", pod_uid="u-1", container="app", container_id="c1",
    reason="container_limit",
)  # fmt: skip
EVICTED = PodEvicted(
    namespace="default", pod="p", pod_uid="u-1", resource="memory", message=None, evicted=True
)
PREEMPTED = PodPreempted(
    victim_namespace="default", victim_pod="p", victim_uid="u-1", preemptor_namespace=None,
    preemptor_pod=None, preemptor_uid=None, insufficient=(), evicted=True,
)  # fmt: skip
KILLED = killed(reason="evicted", message="Stopping container app")
AGAIN = restarted("c2", "c1")
ALONE = "container default/p/app ended by itself with exit code 3 at "
OUT_OF_MEMORY = "container default/p/app was OOM-killed at "
GONE = "pod default/p was evicted at "


@pytest.mark.parametrize(
    ("story", "begins", "holds"),
    [
        ([OUT, died("c1", 137), EVICTED], OUT_OF_MEMORY, ": its memory limit was reached"),
        ([EVICTED, KILLED, died("c1", 137)], GONE, "; after that, container default/p/app was k"),
        ([EVICTED, OUT, died("c1", 137)], GONE, ""),
        ([PREEMPTED, KILLED, EVICTED], "pod default/p was preempted at ", ""),
        ([msgspec.structs.replace(PREEMPTED, evicted=False), EVICTED], GONE, ""),
        ([died("c1", 3), started("c2"), AGAIN, EVICTED], GONE, ""),
        (
            [died("c1", 3), started("c2"), AGAIN, died("c2", 3), EVICTED],
            "container default/p/app was started again at ",
            f"; at last, {ALONE}",
        ),
    ],
)
def test_the_end_of_a_container(story: list[Body], begins: str, holds: str) -> None:
    """Its own end counts where it came before what befell the pod, and it did not start again."""
    steps = [(3.0 + number, body) for number, body in enumerate(story)]
    records: list[Record] = scene(*began(), (1, listed()), (2, started("c1")), *steps)
    history = history_of_reader("node-t", "node-t", reader(records))
    found = explain(history, parse_target("container/default/p/app"))
    assert found is not None
    assert found.sentence.startswith(begins)
    assert holds in found.sentence


def _shown(message: str | None) -> Body:
    status = {"reason": "Evicted", "message": message} if message else {"phase": "Running"}
    return msgspec.structs.replace(listed(), status=status)


@pytest.mark.parametrize(
    ("status", "begins", "ends"),
    [
        (SOFT, "00:16:43", "; it was chosen again at 1970-01-01T00:16:44Z, and {failed}."),
        (None, "00:16:43", "; it was chosen again at 1970-01-01T00:16:44Z, and {failed}."),
        (HARD, "00:16:44", "; {failed}; before, it was chosen at 1970-01-01T00:16:43Z."),
    ],
)
@pytest.mark.parametrize(
    "line",
    [
        'eviction_manager.go:1] "Eviction manager: pod failed to evict" err="timeout" pod="p"',
        "eviction_manager.go:1] eviction manager: pod p_default(u-1) failed to evict timeout",
        '{"msg":"Eviction manager: pod failed to evict","err":"timeout","pod":"p"}',
    ],
)
def test_which_attempt_ended_the_pod(status: str | None, begins: str, ends: str, line: str) -> None:
    """The one whose message its status bears, else the first; and what came of the others."""
    soft = msgspec.structs.replace(EVICTED, message=SOFT)
    hard = msgspec.structs.replace(EVICTED, message=HARD, evicted=False)
    records = scene(*began(), (1, listed()), (3, soft), (4, hard), (9, _shown(status)))
    failed = (Evidence(file="kubelet.log", text=line),)
    records = [
        msgspec.structs.replace(r, evidence=failed) if r.body is hard else r for r in records
    ]
    history = history_of_reader("node-t", "node-t", reader(records))
    found = explain(history, parse_target("pod/default/p"))
    assert found is not None
    assert found.sentence.startswith(f"pod default/p was evicted at 1970-01-01T{begins}Z")
    failure = "the eviction manager gave up waiting for its end: timeout"
    assert found.sentence.endswith(ends.format(failed=failure))


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"resource": "ephemeral-storage"}, "the node was low on ephemeral-storage."),
        ({"signal": "nodefs.available", "resource": "x"}, "the node was low on nodefs.available."),
        ({}, "what the node was low on is not recorded."),
        (
            {"signal": "emptydirfs.limit", "threshold_kind": "local_storage"},
            "it used more local storage than its limit.",
        ),
    ],
)
def test_for_what_a_pod_was_evicted(known: dict[str, str], said: str) -> None:
    """Where no message says it: what the record has, or that it has nothing."""
    bare = msgspec.structs.replace(EVICTED, **{"resource": None, "evicted": None, **known})
    records: list[Record] = scene(*began(), (3, bare))
    found = explain(
        history_of_reader("node-t", "node-t", reader(records)), parse_target("pod/default/p")
    )
    assert found is not None
    assert re.fullmatch(rf"pod default/p was evicted at \S+Z: {re.escape(said)}", found.headline)


def test_a_pod_that_was_spared() -> None:
    spared = PodSpared(namespace="default", pod="p", pod_uid="u-1")
    records: list[Record] = scene(*began(), (1, listed()), (2, started("c1")), (3, spared))
    found = explain(
        history_of_reader("node-t", "node-t", reader(records)), parse_target("pod/default/p")
    )
    assert found is not None
    assert "was to be evicted, and was spared at " in found.headline
    assert found.headline.endswith(": it is critical.")


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_start_that_failed(goes_on: bool) -> None:
    ended = {"containerID": "x://c1", "finishedAt": "2026-01-01T00:00:03Z", "exitCode": 128}
    now = {"lastState": {"terminated": ended}} if goes_on else {"state": {"terminated": ended}}
    entry = {"name": "app", "containerID": f"x://{'c2' if goes_on else 'c1'}"} | now
    shown = msgspec.structs.replace(listed(), status={"containerStatuses": [entry]})
    again: list[tuple[float, Body]] = [(4, started("c2")), (4, AGAIN)] if goes_on else []
    records: list[Record] = scene(*began(), (3, died("c1", 128)), *again, (5, shown))
    history = history_of_reader("node-t", "node-t", reader(records))
    found = explain(history, parse_target("pod/default/p"))
    assert found is not None
    texts = [step.text for step in found.steps]
    assert [text for text in texts if "could not be started" in text] == [
        f"app could not be started{' at first' * goes_on}: exit code 128"
    ]
