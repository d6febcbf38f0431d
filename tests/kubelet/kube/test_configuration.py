"""Values that a kubelet takes for a field, and those that it refuses."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.analyze.whatif.settings import refusal
from kubeledger.ingest.messages.settings_flags import FLAGS
from kubeledger.ingest.messages.settings_text import parse_flag
from kubeledger.kubelet.kube.configuration import FIELDS, problem
from kubeledger.model.bodies.node import SettingsObserved
from tests.verify.histories import recorded

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=5,
)

CASES: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "imageGCHighThresholdPercent": ((0, 85, 100), (-1, 101, True, "85", 85.0, None)),
    "imageMinimumGCAge": (("0s", "2m0s", "1h"), ("-1s", 5, "5", "soon", None, "9" * 40 + "h")),
    "cpuCFSQuotaPeriod": (("100ms", "1ms", "1s", "1us"), ("0s", "2s", "100")),
    "maxPods": ((0, 110), (-1, 2**31, "110")),
    "podPidsLimit": ((-1, 0, 4096), (1.5, 2**63)),
    "oomScoreAdj": ((-1000, 1000), (-1001, 1001)),
    "memoryThrottlingFactor": ((0.8, 1, 1.0), (0, 1.1, -1, "0.8", True, float("nan"))),
    "evictionHard": (
        ({}, {"memory.available": "100Mi", "nodefs.inodesFree": "5%"}, {"pid.available": "100%"}),
        ({"memory": "1Gi"}, {"memory.available": "101%"}, {"memory.available": "-5%"},
         {"memory.available": 5}, {"memory.available": "x%"}, [], "memory.available<5%"),
    ),
    "evictionSoftGracePeriod": (
        ({"memory.available": "1m30s"},),
        ({"memory.available": "-1s"}, {"memory.available": 90}),
    ),
    "systemReserved": (({"cpu": "200m", "memory": "512Mi"},), ({"cpu": "x"}, {"cpu": "-1"}, 5)),
    "qosReserved": (({"memory": "50%"},), ({"memory": "50"}, {"memory": "101%"}, {"cpu": "5%"})),
    "featureGates": (({"MemoryQoS": True},), ({"MemoryQoS": "true"}, [], True)),
    "topologyManagerPolicy": (("none", "single-numa-node"), ("None", "strict", "", 1)),
    "enforceNodeAllocatable": ((["pods"], []), ("pods", [1])),
    "cgroupsPerQOS": ((True, False), ("true", 1, None)),
}  # fmt: skip
"""Field -> values taken, values refused."""


@pytest.mark.parametrize("field", CASES)
def test_values(field: str) -> None:
    taken, refused = CASES[field]
    assert {str(value): problem(field, value) for value in taken if problem(field, value)} == {}
    assert [value for value in refused if not problem(field, value)] == []


def test_every_field_of_a_flag_is_known_and_takes_its_default() -> None:
    for row in FLAGS:
        field, *below = row.field.split(".")
        assert field in FIELDS
        for _, text in row.defaults:
            value: Any = parse_flag(row.kind, text)
            for name in reversed(below):
                value = {name: value}
            accepted = {"tlsMinVersion", "failCgroupV1"} if value == "" else set()
            assert field in accepted or problem(field, value) == "", (row.flag, text, value)


@pytest.mark.parametrize("name", ["node-a", "node-b"])
def test_what_real_kubelets_ran_with_is_taken(name: str) -> None:
    """All settings of the recordings, alone and together."""
    for record in recorded(name):
        if isinstance(record.body, SettingsObserved):
            settings = {n: msgspec.json.decode(s.value) for n, s in record.body.settings.items()}
            assert {n: problem(n, v) for n, v in settings.items() if problem(n, v)} == {}
            assert refusal(settings, {}) == ""
            unknown = {n for n in settings if not n.startswith("--")} - FIELDS.keys()
            assert unknown <= {"dynamicKubeletConfigDir"}


@given(field=st.sampled_from(sorted(FIELDS)), value=JSON)
def test_any_value_has_an_answer(field: str, value: Any) -> None:  # noqa: ANN401 # any JSON value
    """A reason to be read after the field's name, or none."""
    reason = problem(field, value)
    assert reason == "" or reason.split()[0] in {"must", "has", "entry"}


@given(changed=st.dictionaries(st.sampled_from(sorted(FIELDS)), JSON, max_size=3),
       before=st.dictionaries(st.sampled_from(sorted(FIELDS)), JSON, max_size=6))  # fmt: skip
def test_any_settings_have_an_answer(changed: dict[str, Any], before: dict[str, Any]) -> None:
    """However odd the recorded ones are."""
    assert isinstance(refusal(changed, before), str)


@pytest.mark.parametrize(
    ("changed", "before", "reason"),
    [
        ({"imageGCHighThresholdPercent": 80}, {"imageGCLowThresholdPercent": 80}, "less than"),
        ({"imageGCLowThresholdPercent": 90}, {"imageGCHighThresholdPercent": 85}, "less than"),
        ({"imageGCLowThresholdPercent": 80}, {"imageGCHighThresholdPercent": 85}, ""),
        ({"imageGCLowThresholdPercent": 80}, {}, ""),
        ({"maxPods": 5}, {"imageGCHighThresholdPercent": 1, "imageGCLowThresholdPercent": 2}, ""),
        ({"imageMaximumGCAge": "1m"}, {"imageMinimumGCAge": "2m0s"}, "greater than"),
        ({"imageMaximumGCAge": "0s"}, {"imageMinimumGCAge": "2m0s"}, ""),
        ({"imageMaximumGCAge": "3m"}, {"imageMinimumGCAge": "2m0s"}, ""),
        ({"evictionSoft": {"memory.available": "5%"}}, {}, "needs a grace period"),
        ({"evictionSoft": {"memory.available": "0%"}}, {}, ""),
        ({"evictionSoft": {"memory.available": "5%"}},
         {"evictionSoftGracePeriod": {"memory.available": "1m"}}, ""),
        ({"enforceNodeAllocatable": ["pod"]}, {}, "is not one of"),
        ({"enforceNodeAllocatable": ["none", "pods"]}, {}, "cannot be combined with others"),
        ({"enforceNodeAllocatable": ["system-reserved"]}, {"systemReservedCgroup": ""},
         "needs systemReservedCgroup"),
        ({"cgroupsPerQOS": False}, {"enforceNodeAllocatable": ["pods"]}, "needs cgroupsPerQOS"),
        ({"cgroupsPerQOS": False}, {"enforceNodeAllocatable": []}, ""),
        ({"reservedSystemCPUs": "0"}, {"kubeReservedCgroup": "/kube"}, "exclude each other"),
        ({"reservedSystemCPUs": "0"}, {"kubeReservedCgroup": ""}, ""),
    ],
)  # fmt: skip
def test_settings_that_exclude_each_other(
    changed: dict[str, Any], before: dict[str, Any], reason: str
) -> None:
    found = refusal(changed, before)
    assert reason in found
    assert bool(found) == bool(reason)
