"""Settings as users write them, and their combinations."""

from typing import Any

import pytest

from kubeledger.analyze.whatif import parse_variants
from kubeledger.analyze.whatif.variants import parse_setting
from kubeledger.model.errors import BadQuestionError


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("maxPods=10", [10]),
        ("maxPods=10|20", [10, 20]),
        ("imageMinimumGCAge=10s", ["10s"]),
        ('imageMinimumGCAge="10s"', ["10s"]),
        ("reservedSystemCPUs=0", ["0"]),
        ("systemReserved.cpu=1", ["1"]),
        ("evictionHard.memory.available=5%", ["5%"]),
        ('evictionHard={"memory.available":"5%"}', [{"memory.available": "5%"}]),
        ("evictionSoft=null", [{}]),
        ("featureGates.MemoryQoS=true|false", [True, False]),
        ("memoryThrottlingFactor=0.9", [0.9]),
        ("topologyManagerPolicy=none|restricted", ["none", "restricted"]),
        ("cgroupRoot=", [""]),
        ("cgroupRoot=a=b", ["a=b"]),
        ("--maximum-dead-containers=5", ["5"]),
        ("--node.ip=1", ["1"]),
        ("someFieldOfTomorrow=5", [5]),
    ],
)
def test_values(text: str, values: list[Any]) -> None:
    recorded = {"--maximum-dead-containers", "--node.ip", "someFieldOfTomorrow"}
    key, alternatives = parse_setting(text, recorded)
    assert key == text.partition("=")[0]
    assert [value for _, value in alternatives] == values


@pytest.mark.parametrize(
    "text", ["", "maxPods", "=1", "maxpods=1", "--v=1", "maxPods.=1", "evictionHard.=1", "maxPods="]
)
def test_no_settings(text: str) -> None:
    with pytest.raises(BadQuestionError):
        parse_setting(text)


def test_entries_go_into_what_is_recorded() -> None:
    """Other entries of the table stay; a configuration file lies between."""
    recorded = {"evictionHard": {"nodefs.available": "10%", "memory.available": "100Mi"}}
    settings = [parse_setting("evictionHard.memory.available=5%")]
    (variant,) = parse_variants(settings, recorded=recorded)
    assert variant.settings == {
        "evictionHard": {"nodefs.available": "10%", "memory.available": "5%"}
    }
    (variant,) = parse_variants(settings, (), [("c.yaml", {"evictionHard": {}})], recorded)
    assert variant.settings == {"evictionHard": {"memory.available": "5%"}}
    assert variant.name == "evictionHard.memory.available=5% c.yaml"
    assert recorded["evictionHard"]["memory.available"] == "100Mi"


def test_nothing_and_nonsense() -> None:
    with pytest.raises(BadQuestionError, match="nothing is changed"):
        parse_variants([])
    with pytest.raises(BadQuestionError, match=r"9\.9"):
        parse_variants([], ["9.9"])
    with pytest.raises(BadQuestionError, match="must be less than"):
        parse_variants([parse_setting("imageGCHighThresholdPercent=3")],
                       recorded={"imageGCLowThresholdPercent": 4})  # fmt: skip


STATIC = {
    "memoryManagerPolicy": "Static",
    "kubeReserved": {"memory": "1Gi"},
    "systemReserved": {"memory": "1Gi"},
    "evictionHard": {"memory.available": "100Mi"},
    "topologyManagerPolicy": "restricted",
    "cpuManagerPolicy": "static",
}


@pytest.mark.parametrize(
    ("setting", "version", "reason"),
    [
        ('reservedMemory=[{"numaNode":0,"limits":{"memory":"2148Mi"}}]', None, ""),
        ('reservedMemory=[{"numaNode":0,"limits":{"memory":"2Gi"}}]', None,
         'the total amount "2Gi" of type "memory" is not equal to the value "2148Mi"'),
        ("systemReserved.memory=2Gi", None, "is not equal to"),
        ("evictionHard.memory.available=5%", None, ""),
        ('reservedMemory=[{"numaNode":0}]', None, ""),
        ("topologyManagerPolicyOptions.prefer-closest-numa-nodes=true", "1.32.0", ""),
        ("topologyManagerPolicyOptions.max-allowable-numa-nodes=7", "1.32.0",
         "should not be less than 8"),
        ("topologyManagerPolicyOptions.max-allowable-numa-nodes=9", "1.30.1",
         'unknown Topology Manager Policy option: "max-allowable-numa-nodes"'),
        ("topologyManagerPolicyOptions.max-allowable-numa-nodes=9", None, ""),
        ("featureGates.TopologyManagerPolicyOptions=false", "1.32.0", ""),
        ("cpuManagerPolicyOptions.full-pcpus-only=maybe", "1.32.0", "bad value for option"),
        ("cpuManagerPolicyOptions.full-pcpus-only=true", "1.32.0", ""),
    ],
)  # fmt: skip
def test_what_managers_do_not_start_with(setting: str, version: str | None, reason: str) -> None:
    recorded: dict[str, Any] = STATIC | {
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "2148Mi"}}]
    }
    settings = [parse_setting(setting)]
    if not reason:
        assert parse_variants(settings, recorded=recorded, version=version)
        return
    with pytest.raises(BadQuestionError, match=reason):
        parse_variants(settings, recorded=recorded, version=version)
