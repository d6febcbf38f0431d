"""What is allocated to pods, in the files of all versions: a recorded one, and broken ones."""

import json
from pathlib import Path
from typing import Any, Literal

import pytest

from kubeledger.kubelet.allocation.reducer import HANDLERS, AllocationState
from kubeledger.kubelet.allocation.state import read_pods_state
from kubeledger.kubelet.kube.containermanager import MalformedCheckpointError
from kubeledger.kubelet.kube.gotypes import fnv1a32, typed
from kubeledger.model.bodies.cgroups import PodResources, PodsStateRead, ResourceAmounts
from tests.kubelet.reducing import evolver
from tests.replay.strategies import record

RECORDED = Path(__file__).parents[2] / "data/managers/v1.35.0.allocated_pods_state.json"
ONE_CPU = {"requests": {"cpu": "1"}}


def packed(content: object) -> dict[str, Any]:
    """A file since 1.32."""
    text = json.dumps(content)
    return {"data": text, "checksum": fnv1a32(typed("string", text))}


def test_a_recorded_file() -> None:
    """Of kubelet 1.35.0, whose checksum fits."""
    body = read_pods_state(json.loads(RECORDED.read_text()), "allocated")
    assert body.checksum_ok is True
    assert len(body.pods) > 5
    given = [each for pod in body.pods.values() for each in pod.containers.values()]
    assert any(each.requests and "cpu" in each.requests for each in given)


@pytest.mark.parametrize(
    ("data", "pods", "fits"),
    [
        (packed({"entries": {"u": {"ContainerResources": {"c": ONE_CPU}}}}),
         {"u": PodResources(containers={"c": ResourceAmounts(requests={"cpu": "1"})})}, True),
        (packed({"entries": {"u": {"ContainerResources": None, "PodLevelResources": ONE_CPU}}}),
         {"u": PodResources(containers={}, pod_level=ResourceAmounts(requests={"cpu": "1"}))},
         True),
        (packed({"allocationEntries": {"u": {"c": {"limits": {"memory": "1Gi"}}}}}),
         {"u": PodResources(containers={"c": ResourceAmounts(limits={"memory": "1Gi"})})}, True),
        ({"allocationEntries": {"u": {"c": {"cpu": "1"}}}, "resizeStatusEntries": {"u": "Deferred"},
          "checksum": 7},
         {"u": PodResources(containers={"c": ResourceAmounts(requests={"cpu": "1"})})}, None),
        (packed({}), {}, True),
        (packed({}) | {"checksum": 1}, {}, False),
    ],
    ids=["1.33", "1.36", "1.32", "1.27", "empty", "checksum"],
)  # fmt: skip
def test_forms_of_all_versions(
    data: dict[str, Any], pods: dict[str, PodResources], fits: bool | None
) -> None:
    """What pods have; whether the checksum fits."""
    body = read_pods_state(data, "actuated")
    assert (body.pods, body.checksum_ok) == (pods, fits)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ([], "the state is not a JSON object"),
        ({"data": "{"}, "the checksum is not"),
        ({"data": "{", "checksum": 1}, "data is not JSON"),
        ({"data": 1, "checksum": 1}, "data is not a string"),
        (packed({"entries": {"u": []}}), "an entry is not a JSON object"),
        (packed({"entries": {"u": {"ContainerResources": {"c": 1}}}}), "resources is not"),
        (packed({"entries": {"u": {"ContainerResources": {"c": {"limits": {"cpu": 1}}}}}}),
         "cpu is not a string"),
        (packed({"entries": {"u": {"ContainerResources": {"c": {"limits": {"cpu": "much"}}}}}}),
         "cpu is not a quantity"),
    ],
)  # fmt: skip
def test_a_broken_file_is_named(data: object, problem: str) -> None:
    with pytest.raises(MalformedCheckpointError, match=problem):
        read_pods_state(data, "allocated")


# -- State files of allocations: what a later one gives and takes ----------------------------------

evolve = evolver(HANDLERS)
PODS = {"u": PodResources(containers={})}


def read(
    which: Literal["allocated", "actuated"], ok: bool | None, pods: dict[str, PodResources]
) -> PodsStateRead:
    return PodsStateRead(which=which, pods=pods, checksum=7, checksum_ok=ok)


@pytest.mark.parametrize("ok", [True, None, False])
def test_a_damaged_file_changes_nothing(ok: bool | None) -> None:
    """It counts as read; its pods count unless its checksum is wrong."""
    state = evolve(
        AllocationState(allocated={"old": PODS["u"]}), record(1, read("allocated", ok, PODS))
    )
    assert (state.file_read_ts_ns, state.file_checksum_ok) == (10**9, ok)
    assert set(state.allocated) == ({"old"} if ok is False else {"u"})


def test_what_the_runtime_was_told_stands_apart() -> None:
    """The second file is not the one whose reading is noted."""
    state = evolve(AllocationState(), record(1, read("actuated", True, PODS)))
    assert (state.actuated, state.allocated) == (PODS, {})
    assert (state.file_read_ts_ns, state.file_checksum_ok) == (None, None)
