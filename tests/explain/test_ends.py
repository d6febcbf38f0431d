"""What explains the end of a container: its own, or what befell its pod."""

from __future__ import annotations

import pytest

from kubeledger.explain import explain, parse_target
from kubeledger.lifecycle.records import PodEvicted
from kubeledger.machine import Body, Record
from kubeledger.oom.records import ProcessKilled
from kubeledger.replay.histories import history_of_reader
from tests.verify.histories import reader, scene
from tests.verify.life_scenes import began, died, killed, listed, restarted, started

OUT = ProcessKilled(
    namespace="default", pod="p", pod_uid="u-1", container="app", container_id="c1",
    reason="container_limit",
)  # fmt: skip
EVICTED = PodEvicted(
    namespace="default", pod="p", pod_uid="u-1", resource="memory", message=None, evicted=True
)
KILLED = killed(reason="evicted", message="Stopping container app")
AGAIN = restarted("c2", "c1")
ALONE = "container default/p/app ended by itself with exit code 3 at "
OUT_OF_MEMORY = "the kernel's OOM killer killed a process in container default/p/app at "
GONE = "pod default/p was evicted at "


@pytest.mark.parametrize(
    ("story", "begins", "holds"),
    [
        ([OUT, died("c1", 137), EVICTED], OUT_OF_MEMORY, "the container's limit of memory"),
        ([EVICTED, KILLED, died("c1", 137)], GONE, "; after that, container default/p/app was k"),
        ([EVICTED, OUT, died("c1", 137)], GONE, ""),
        (
            [OUT, OUT, EVICTED, KILLED],
            GONE,
            "; earlier, the kernel's OOM killer had killed in container default/p/app 2 times, "
            "from 1970-01-01T00:16:43Z to 1970-01-01T00:16:44Z",
        ),
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
