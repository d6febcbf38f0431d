import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.correlate.node import NodeAssembler
from kubeledger.ingest.correlate.registers import Registers
from kubeledger.ingest.sources.items import Fact, KubeletConfigFile
from kubeledger.model.bodies.node import SettingsObserved
from kubeledger.model.record import Evidence
from tests.ingest.pieces import feed_items, feed_log, klog, not_understood

DATA = Path(__file__).parents[2] / "data" / "settings"
VERSIONS = ("1.20.2", "1.36.2")


def start_log(version: str) -> str:
    """What a kubelet of that version logged of its settings when it started."""
    return (DATA / f"kubelet-{version}.log").read_text(encoding="utf-8")


def config(version: str) -> dict[str, Any]:
    """The configuration file it was started with."""
    text = (DATA / f"kubelet-{version}.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))


def config_item(document: dict[str, Any], file: str = "kubelet-config.yaml") -> KubeletConfigFile:
    return KubeletConfigFile(1, document, Evidence(file=file))


def without(log: str, *texts: str) -> str:
    """The log without the entries (continuation lines included) that hold one of the texts."""
    kept: list[str] = []
    skipping = False
    for line in log.splitlines(keepends=True):
        if line[:1] in "IWEF" and line[1:5].isdigit():
            skipping = any(text in line for text in texts)
        if not skipping:
            kept.append(line)
    return "".join(kept)


def observed(facts: Iterable[Fact]) -> list[SettingsObserved]:
    return [fact.body for fact in facts if isinstance(fact.body, SettingsObserved)]


def settings_of(
    log: str, *files: KubeletConfigFile, version: str | None = None
) -> SettingsObserved:
    assembler = NodeAssembler(Registers(BundleContext(node="n", kubelet_version=version)))
    facts = [*feed_items(assembler, files), *feed_log(assembler, log), *assembler.finish(9)]
    (body,) = observed(facts)
    return body


def values(body: SettingsObserved) -> dict[str, Any]:
    """Field -> decoded value, flags without a field left out."""
    return {
        field: json.loads(setting.value)
        for field, setting in body.settings.items()
        if not field.startswith("--")
    }


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("known", [True, False], ids=["version known", "version not known"])
def test_real_start(version: str, known: bool) -> None:
    """All four sources of a real start agree, and every field of the file is as written."""
    document = config(version)
    body = settings_of(
        start_log(version), config_item(document), version=version if known else None
    )
    assert body.conflicts == ()
    found = values(body)
    for field, value in document.items():
        if field in {"authentication", "authorization", "logging"}:
            assert {**found[field], **value}.keys() == found[field].keys()
        elif field not in {"apiVersion", "kind"}:
            assert (found[field], body.settings[field].source) == (value, "config")
    assert found["cgroupRoot"] == "/"
    assert body.settings["cgroupRoot"].source == "log"
    assert found["evictionSoft"] == {}
    assert found["cpuCFSQuotaPeriod"] == "100ms"
    assert body.settings["oomScoreAdj"].source == "default"
    assert body.settings["--hostname-override"].source == "flag"


def test_a_dump_that_lost_lines_contradicts_nothing() -> None:
    """Two lost braces, of which one closed a field and one opened another, leave it valid JSON."""
    lines = start_log("1.36.2").splitlines(keepends=True)
    item = config_item(config("1.36.2"))
    closing = next(n for n, line in enumerate(lines) if '"EvictionHard": {' in line)
    closing = next(n for n in range(closing, len(lines)) if lines[n].strip() == "},")
    opening = [n for n in range(closing, len(lines)) if re.search(r'^\s*"\w+": \{$', lines[n])]
    assert opening
    for second in opening:
        lost = {closing - 1, closing, second}  # its last entry has no comma
        log = "".join(line for n, line in enumerate(lines) if n not in lost)
        assert settings_of(log, item, version="1.36.2").conflicts == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_without_file_and_dump_defaults_are_no_settings(version: str) -> None:
    """A flag at its default says nothing when there was a file; NodeConfig still does."""
    found = settings_of(without(start_log(version), "KubeletConfiguration"), version=version)
    assert "imageGCHighThresholdPercent" not in found.settings
    assert found.settings["topologyManagerPolicy"].source == "log"
    assert json.loads(found.settings["topologyManagerPolicy"].value) == "best-effort"
    assert json.loads(found.settings["kubeReserved"].value) == {"cpu": "100m", "memory": "256Mi"}
    assert json.loads(found.settings["evictionHard"].value) == config(version)["evictionHard"]
    assert json.loads(found.settings["enforceNodeAllocatable"].value) == ["pods"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_kubelet_without_a_file(version: str) -> None:
    """Then the flags' defaults are the settings, the command line's own ones among them."""
    log = without(start_log(version), "KubeletConfiguration", "Config: ", "nodeConfig")
    log = re.sub('FLAG: --config="[^"]*"', 'FLAG: --config=""', log)
    found = settings_of(log + klog("server.go", "Started kubelet"), version=version)
    assert found.settings["imageGCHighThresholdPercent"].value == "85"
    assert found.settings["imageGCHighThresholdPercent"].source == "default"
    assert json.loads(found.settings["authorization"].value)["mode"] == "AlwaysAllow"
    assert found.settings["readOnlyPort"].value == "10255"


def test_defaults_of_a_file_are_other_ones() -> None:
    """Authentication is off on the command line and on in a file that does not name it."""
    log = klog("flags.go", 'FLAG: --authorization-mode="AlwaysAllow"') + klog(
        "flags.go", 'FLAG: --config="/etc/kubelet.yaml"'
    )
    with_file = settings_of(log, config_item({"maxPods": 5}), version="1.20.2")
    assert json.loads(with_file.settings["authorization"].value) == {"mode": "Webhook"}
    unknown = settings_of(log, config_item({"maxPods": 5}))
    assert json.loads(unknown.settings["authorization"].value) == {"mode": "Webhook"}


@pytest.mark.parametrize(
    ("version", "flag", "text", "source"),
    [
        ("1.20.2", "event-qps", "5", "default"),
        ("1.20.2", "event-qps", "50", "flag"),
        ("1.36.2", "event-qps", "50", "default"),
        ("1.36.2", "event-qps", "5", "flag"),
        (None, "event-qps", "5", "default"),
        (None, "event-qps", "50", "default"),
        (None, "event-qps", "7", "flag"),
    ],
)
def test_defaults_of_versions(version: str | None, flag: str, text: str, source: str) -> None:
    lines = klog("flags.go", f'FLAG: --{flag}="{text}"') + klog("flags.go", 'FLAG: --config=""')
    setting = settings_of(lines, version=version).settings["eventRecordQPS"]
    assert (setting.value, setting.source) == (text, source)


@pytest.mark.parametrize(
    ("flag", "text", "field", "value"),
    [
        ("max-pods", "33", "maxPods", 33),
        ("eviction-hard", "memory.available<1Gi", "evictionHard", {"memory.available": "1Gi"}),
        ("kube-reserved", "cpu=1,memory=2Gi", "kubeReserved", {"cpu": "1", "memory": "2Gi"}),
        ("qos-reserved", "memory=50%", "qosReserved", {"memory": "50%"}),
        ("cluster-dns", "[10.0.0.10,fd00::10]", "clusterDNS", ["10.0.0.10", "fd00::10"]),
        ("minimum-image-ttl-duration", "1m30s", "imageMinimumGCAge", "1m30s"),
        ("cpu-cfs-quota", "false", "cpuCFSQuota", False),
        ("enforce-node-allocatable", "[]", "enforceNodeAllocatable", []),
        ("manifest-url-header", "a:b,a:c", "staticPodURLHeader", {"a": ["b", "c"]}),
        ("register-with-taints", "gpu=yes:NoSchedule,solo=:NoExecute", "registerWithTaints",
         [{"key": "gpu", "value": "yes", "effect": "NoSchedule"},
          {"key": "solo", "value": "", "effect": "NoExecute"}]),
        ("reserved-memory", "0:hugepages-2Mi=4Mi,memory=1Gi,1:memory=1Gi", "reservedMemory",
         [{"numaNode": 0, "limits": {"hugepages-2Mi": "4Mi", "memory": "1Gi"}},
          {"numaNode": 1, "limits": {"memory": "1Gi"}}]),
        ("reserved-memory", "what?", "reservedMemory", "what?"),
    ],
)  # fmt: skip
def test_flags_that_were_given(flag: str, text: str, field: str, value: object) -> None:
    """They are read as their kind, and win over the file."""
    line = klog("flags.go", f'FLAG: --{flag}="{text}"')
    body = settings_of(line, config_item({field: None, "maxPods": 7}), version="1.36.2")
    assert json.loads(body.settings[field].value) == value
    assert body.settings[field].source == "flag"
    assert body.conflicts == ()


def test_feature_gates_of_flag_and_file_are_merged() -> None:
    """A gate of the command line wins, the file's others stay."""
    line = klog("flags.go", 'FLAG: --feature-gates="A=true,B=false"')
    body = settings_of(line, config_item({"featureGates": {"B": True, "C": True}}))
    assert json.loads(body.settings["featureGates"].value) == {"A": True, "B": False, "C": True}


def test_a_flag_has_its_field_from_some_version_on() -> None:
    line = klog("flags.go", 'FLAG: --container-runtime-endpoint="unix:///run/x.sock"')
    old = settings_of(line, version="1.20.2").settings
    new = settings_of(line, version="1.36.2").settings
    assert old["--container-runtime-endpoint"].value == '"unix:///run/x.sock"'
    assert "containerRuntimeEndpoint" not in old
    assert new["containerRuntimeEndpoint"].source == "flag"


def test_go_quoting_in_flags() -> None:
    line = klog("flags.go", r'FLAG: --node-labels="a=\"b\\c\""')
    assert settings_of(line).settings["--node-labels"].value == r'"a=\"b\\c\""'


def test_a_file_cannot_set_some_durations_to_zero() -> None:
    """The defaults are taken then; a flag sets them."""
    zero = {"evictionPressureTransitionPeriod": "0s", "imageMinimumGCAge": "0", "maxPods": 0}
    given = settings_of("", config_item(zero), version="1.36.2").settings
    assert given["maxPods"].value == "0"
    assert given.get("imageMinimumGCAge") is None or given["imageMinimumGCAge"].value != '"0"'
    line = klog("flags.go", 'FLAG: --eviction-pressure-transition-period="0s"')
    body = settings_of(line, config_item({"imageMinimumGCAge": "1m"}), version="1.36.2")
    assert body.settings["evictionPressureTransitionPeriod"].value == '"0s"'


def test_a_younger_file_differs_from_the_dump() -> None:
    document = {
        **config("1.36.2"),
        "imageGCHighThresholdPercent": 70,
        "imageMinimumGCAge": "10000ms",
    }
    body = settings_of(start_log("1.36.2"), config_item(document), version="1.36.2")
    (conflict,) = body.outdated
    assert conflict.startswith("imageGCHighThresholdPercent: the configuration says 70")
    assert body.conflicts == ()
    assert body.settings["imageGCHighThresholdPercent"].value == "5"
    # The same time in another notation is none.
    assert body.settings["imageMinimumGCAge"].value == '"10000ms"'


TOPOLOGY = {
    "1.20.2": (klog("topology_manager.go",
                    "[topologymanager] Creating topology manager with best-effort policy per "
                    "container scope"),
               klog("container_manager_linux.go",
                    "[topologymanager] Initializing Topology Manager with best-effort policy and "
                    "container-level scope")),
    "1.36.2": (klog("topology_manager.go",
                    '"Creating topology manager with policy per scope" '
                    'topologyPolicyName="best-effort" topologyScopeName="container"', pid=30095),),
}  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_the_topology_manager_tells_what_it_runs_with(version: str) -> None:
    """It says the same as the rest, or it is said that it does not."""
    assembler = NodeAssembler(Registers(BundleContext(node="n", kubelet_version=version)))
    begun = [
        *feed_items(assembler, [config_item(config(version))]),
        *feed_log(assembler, start_log(version)),
    ]
    (first,) = observed(begun)
    for line in TOPOLOGY[version]:
        assert observed(feed_log(assembler, line)) == []
    for line in TOPOLOGY[version]:
        for lie, field in (
            (line.replace("best-effort", "restricted"), "topologyManagerPolicy"),
            (line.replace("container-level", "pod-level"), "topologyManagerScope"),
            (line.replace("per container scope", "per pod scope"), "topologyManagerScope"),
            (line.replace('Name="container"', 'Name="pod"'), "topologyManagerScope"),
        ):
            if lie == line:
                continue
            facts = list(feed_log(assembler, lie))
            (body,) = observed(facts)
            assert body.settings == first.settings
            (conflict,) = body.conflicts
            assert conflict.startswith(f"{field}: ")
            assert "start says" in conflict
            assert lie.strip() in [piece.text for piece in facts[0].evidence]
            (reported,) = observed(feed_log(assembler, line))
            assert reported == first


def test_a_topology_manager_that_alone_tells_its_settings() -> None:
    """Nothing else does; two lines of it that differ are a conflict."""
    one, other = TOPOLOGY["1.20.2"]
    body = settings_of(one + other + klog("server.go", "Started kubelet"))
    reported = {"topologyManagerPolicy": "best-effort", "topologyManagerScope": "container"}
    assert values(body) == reported
    assert body.conflicts == ()
    body = settings_of(
        one + other.replace("best-effort", "none") + klog("server.go", "Started kubelet")
    )
    (conflict,) = body.conflicts
    assert conflict == (
        'topologyManagerPolicy: the topology manager\'s start says "best-effort", the container '
        'manager\'s start says "none"'
    )


def test_a_word_in_a_value_is_no_other_value() -> None:
    """A page put something into the text of one source: no kubelet runs with it."""
    one, other = TOPOLOGY["1.20.2"]
    started = klog("server.go", "Started kubelet")
    for damaged in ("best-<br>effort", "best- effort"):
        for lines in ((one.replace("best-effort", damaged), other),
                      (one, other.replace("best-effort", damaged))):  # fmt: skip
            body = settings_of("".join(lines) + started)
            assert body.conflicts == ()
    flag = klog("flags.go", 'FLAG: --resolv-conf="/etc/res    olv.conf"')
    body = settings_of(flag, config_item({"resolvConf": "/etc/resolv.conf"}))
    assert values(body)["resolvConf"] == "/etc/resolv.conf"
    for text, differs in (
        ("unix:///run/con<br>tainerd.sock", 0),
        ("unix:///run/k3s/containerd.sock", 1),
    ):
        sides = (
            {"containerRuntimeEndpoint": each} for each in ("unix:///run/containerd.sock", text)
        )
        files = (
            config_item(each, name) for each, name in zip(sides, ("a.yaml", "b.yaml"), strict=True)
        )
        assert len(settings_of("", *files).conflicts) == differs
    base = config_item({"maxPods": 5})
    assert settings_of("", base, config_item({"maxPods": "<br>5"}, "old.yaml")).conflicts == ()
    for shown, differs in (("2m0s", 0), ("<dur>", 0), ("3m0s", 1)):
        a, b = ({"authentication": {"webhook": {"cacheTTL": each}}} for each in ("2m0s", shown))
        body = settings_of("", config_item(a, "a.yaml"), config_item(b, "b.yaml"))
        assert len(body.conflicts) == differs


def test_drop_ins_replace_and_files_contradict() -> None:
    """``*.conf`` files are merged over the rest; two files that disagree are a conflict."""
    base = config_item({"maxPods": 5, "evictionHard": {"a": "1", "b": "2"}})
    drop_in = config_item({"maxPods": 6, "evictionHard": {"b": None}}, "conf.d/10-x.conf")
    other = config_item({"maxPods": 7}, "old.yaml")
    merged = settings_of("", base, drop_in)
    assert values(merged) == {"maxPods": 6, "evictionHard": {"a": "1"}}
    assert merged.conflicts == ()
    assert len(settings_of("", base, other).conflicts) == 1


def test_a_drop_in_alone_says_nothing_of_the_rest() -> None:
    """The file that it is laid over is not there; one that the kubelet names is the file itself."""
    flags = ("config-dir", "/etc/conf.d"), ("max-pods", "110")
    log = "".join(klog("flags.go", f'FLAG: --{name}="{text}"') for name, text in flags)
    for config, known in (("/etc/kubelet.yaml", {}), ("/etc/10-x.conf", {"maxPods": 110})):
        given = klog("flags.go", f'FLAG: --config="{config}"')
        drop_in = config_item({"podPidsLimit": 6}, "conf.d/10-x.conf")
        found = settings_of(log + given, drop_in, version="1.35.0")
        assert {n: v for n, v in values(found).items() if n in ("podPidsLimit", "maxPods")} == {
            "podPidsLimit": 6, **known,
        }  # fmt: skip


def test_unknown_fields_of_a_file_are_kept() -> None:
    """A field of a later version is taken as it is."""
    body = settings_of(
        "", config_item({"kind": "KubeletConfiguration", "later": {"b": 1, "a": []}})
    )
    assert body.settings["later"].value == '{"a":[],"b":1}'
    assert list(body.settings) == ["later"]


@pytest.mark.parametrize(
    ("lines", "field", "value"),
    [
        (klog("server.go",
              '"Using cgroup driver setting received from the CRI runtime" cgroupDriver="systemd"'),
         "cgroupDriver", "systemd"),
        (klog("server.go",
              'After cpu setting is overwritten, KubeReserved="map[cpu:0 memory:256Mi]", '
              'SystemReserved="map[cpu:2]"'), "kubeReserved", {"cpu": "0", "memory": "256Mi"}),
        (klog("server.go",
              '"After cpu setting is overwritten" kubeReserved={"memory":"256Mi"} '
              'systemReserved={"cpu":"2"}'), "systemReserved", {"cpu": "2"}),
    ],
)  # fmt: skip
def test_lines_that_replace_a_setting(lines: str, field: str, value: object) -> None:
    """The kubelet says that it uses something else than it was told."""
    body = settings_of(lines, config_item({field: "told"}))
    assert json.loads(body.settings[field].value) == value
    assert body.settings[field].source == "log"
    assert body.conflicts == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_two_processes_in_one_log(version: str) -> None:
    """Each has its settings, at the end of its start; flags of one are not the other's."""
    first = start_log(version)
    pid = first.split()[2]
    second = first.replace(f" {pid} ", " 99999 ").replace('--max-pods="110"', '--max-pods="20"')
    second = without(second, "KubeletConfiguration", "Node Config")
    assembler = NodeAssembler(Registers(BundleContext(node="n", kubelet_version=version)))
    end = klog("server.go", "Started kubelet", pid=99999)
    one, two = observed(feed_log(assembler, first + second + end))
    assert (one.settings["maxPods"].value, one.settings["maxPods"].source) == ("40", "config")
    assert (two.settings["maxPods"].value, two.settings["maxPods"].source) == ("20", "flag")


@pytest.mark.parametrize("pids", [(1, 2), (1, 1)], ids=["other process", "same or no process"])
def test_processes_that_log_little(pids: tuple[int, int]) -> None:
    """At verbosity 0 every start has its NodeConfig and the lines before it."""
    config_line = "Creating Container Manager object based on Node Config: {CgroupDriver:cgroupfs }"
    first = klog("container_manager_linux.go", config_line, pid=pids[0])
    driver = '"Using cgroup driver setting received from the CRI runtime" cgroupDriver="systemd"'
    second = klog("server.go", driver, pid=pids[1]) + first.replace("cgroupfs", "systemd").replace(
        f" {pids[0]} container", f" {pids[1]} container"
    )
    assembler = NodeAssembler(Registers(BundleContext(node="n")))
    one, two = observed(feed_log(assembler, first + second))
    assert values(one) == {"cgroupDriver": "cgroupfs"}
    assert values(two) == {"cgroupDriver": "systemd"}


def test_half_a_dump_is_not_read() -> None:
    """A log cut in the middle of the dump still gives the rest."""
    log = start_log("1.20.2")
    cut = log[: log.index("HTTPCheckFrequency")] + "\n"
    body = settings_of(cut, config_item({"maxPods": 5}), version="1.20.2")
    assert body.settings["maxPods"].value == "5"
    assert "enableSystemLogHandler" not in body.settings


@pytest.mark.parametrize("version", VERSIONS)
def test_every_line_of_a_start_is_understood(version: str) -> None:
    assert (
        not_understood(NodeAssembler(Registers(BundleContext(node="n"))), start_log(version)) == 0
    )


@pytest.mark.parametrize(
    ("version", "file", "expected"),
    [
        ("1.36.2", {}, {"maxContainerRestartPeriod": "5m0s"}),
        ("1.36.2", {"crashLoopBackOff": {"maxContainerRestartPeriod": "20s"}},
         {"maxContainerRestartPeriod": "20s"}),
        ("1.20.2", {}, None),
    ],
)  # fmt: skip
def test_a_default_without_a_flag(
    version: str, file: dict[str, Any], expected: dict[str, Any] | None
) -> None:
    """The greatest restart period has a default in the file's own format only."""
    log = without(start_log(version), "KubeletConfiguration")
    found = settings_of(log, config_item(config(version) | file), version=version)
    setting = found.settings.get("crashLoopBackOff")
    assert (None if setting is None else json.loads(setting.value)) == expected
