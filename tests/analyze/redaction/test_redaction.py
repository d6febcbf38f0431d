import re
from collections.abc import Iterable
from functools import partial
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from kubeledger.analyze.histories.history import (
    History,
    histories_of_ledger,
    histories_of_recording,
)
from kubeledger.analyze.redaction import key_of_passphrase, redacted
from kubeledger.analyze.redaction.pseudonyms import Pseudonyms
from kubeledger.analyze.redaction.settings import in_own_words, shown_setting
from kubeledger.cli.main import cli
from kubeledger.ledger.ledger import Ledger
from kubeledger.ledger.standalone import encode_recording, read_recording
from kubeledger.model.bodies.cgroups import PodResources, PodsStateRead, ResourceAmounts
from kubeledger.model.bodies.lifecycle import KubernetesEvent, PodListed, PodResized
from kubeledger.model.bodies.resourcemanagers import (
    CpuManagerStarted,
    CpuManagerStateRead,
    MemoryBlock,
    MemoryManagerStateRead,
)
from kubeledger.model.record import Body, Record
from kubeledger.model.wire.codec import kind_of
from kubeledger.verify import Finding, Outcome
from tests.analyze.redaction.planted import SECRETS, every_kind, lines_with, parts_of, records_with
from tests.ledger.making import batch, ledger_of
from tests.marks import nightly
from tests.recordings import import_recording
from tests.verify.histories import outcomes, scene
from tests.verify.properties.lies import lies_about, lying
from tests.verify.properties.truths import golden_names, named

KEY = b"a key of some length"
NAMES = {
    "node-a": ("node-a", "filler", "gpu-a", "live-fail", "registry.local", "127.0.0.1", "warmup"),
    "node-b": ("node-b", "filler", "gpu-a", "live-fail", "registry.local", "/opt/lab", "warmup"),
}


@pytest.fixture(scope="module", params=["node-a", "node-b", *nightly("node-e-evictions", "node-f")])
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Ledger, Path]:
    directory = tmp_path_factory.mktemp("redacted")
    ledger, _ = import_recording(request.param, directory / "l")
    out = directory / "r.ledger.jsonl"
    result = CliRunner().invoke(
        cli,
        ["export", "--ledger", str(ledger.path), "--redact", "--out", str(out)],
        env={"KUBELEDGER_REDACT_KEY": "a secret"},
    )
    assert result.exit_code == 0, result.output
    return request.param, ledger, out


def lines(records: Iterable[Record], key: bytes = KEY) -> list[bytes]:
    held = list(records)
    return [*encode_recording(redacted(lambda: held, key))]


def verdicts(history: History) -> list[tuple[object, ...]]:
    return [
        (each.seq, each.ts_ns, each.kind, each.verdict, each.rule, each.inputs, each.inferred)
        if isinstance(each, Finding)
        else (type(each), each.ts_ns, len(each.sides))
        for each in history.verify()
    ]


@pytest.mark.slow
def test_it_verifies_as_before(pair: tuple[str, Ledger, Path]) -> None:
    """The same verdicts, one by one; its own chain is proved by reading it."""
    _, ledger, out = pair
    (before,), (after,) = histories_of_ledger(ledger), histories_of_recording(out)
    assert verdicts(after) == verdicts(before)
    assert len(verdicts(after)) > 200


def test_no_name_is_left(pair: tuple[str, Ledger, Path]) -> None:
    """Nor an ID, an address or a line of the log: nothing that the bodies hold as a name."""
    name, ledger, out = pair
    text = out.read_text()
    assert [known for known in NAMES.get(name, ()) if known in text] == []
    identities = set(re.findall(r"[0-9a-f]{64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        "".join(raw.line.decode() for raw in ledger.raw_lines(name))))  # fmt: skip
    chains = {raw.line[-88:-24].decode() for raw in ledger.raw_lines(name)}
    assert len(identities - chains) > 20
    assert {identity for identity in identities if identity in text} == set()


def test_what_stays(pair: tuple[str, Ledger, Path]) -> None:
    """Numbers, times, kinds, causes, and where in its source a record stands."""
    name, ledger, out = pair
    originals = list(ledger.records(name))
    *records, statement = read_recording(out)
    assert statement.kind == "ledger.RecordsRedacted"
    assert statement.body.records == len(originals)  # type: ignore[attr-defined]  # by its kind
    assert len(records) == len(originals)
    for record, original in zip(records, originals, strict=True):
        for field in ("seq", "ts_ns", "kind", "cause", "role"):
            assert getattr(record, field) == getattr(original, field)
        assert [(e.line, e.offset) for e in record.evidence] == [
            (e.line, e.offset) for e in original.evidence
        ]
        if not isinstance(original.body, PodListed):  # a user's numbers are left out
            assert numbers(record) == numbers(original)


def numbers(record: Record) -> list[int | float]:
    found: list[int | float] = []

    def walk(value: object) -> None:
        if isinstance(value, dict):
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list | tuple):
            for inner in value:
                walk(inner)
        elif isinstance(value, int | float):
            found.append(value)

    walk(msgspec.to_builtins(record.body))
    return found


def test_the_same_key_gives_the_same_pseudonyms(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path / "l", batch(0, 3))
    records = list(ledger.records())
    first, again, other = (lines(records, key) for key in (KEY, KEY, b"another"))
    assert first == again
    assert [kind_of(line) for line in first][-1] == "ledger.RecordsRedacted"
    assert not {one[:60] for one in first} & {one[:60] for one in other}
    outs = [tmp_path / f"{number}.ledger.jsonl" for number in range(2)]
    for out in outs:
        arguments = ["export", "--ledger", str(ledger.path), "--redact", "--out", str(out)]
        assert CliRunner().invoke(cli, arguments).exit_code == 0
    assert outs[0].read_bytes() != outs[1].read_bytes()


def pseudonyms() -> Pseudonyms:
    made = Pseudonyms(KEY)
    made.add_node("worker-7")
    for name in ("web", "shop", "registry.local/shop/web:1.2"):
        made.add(name)
    made.settle()
    return made


UID = "0b0e6f3c-6f1e-4d0c-8c1d-0123456789ab"


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("back-off 5m0s, container=web", r"back-off r-\w{12}, container=r-\w{12}"),
        (f"web-worker-7_shop({UID})", r"r-\w{12}-r-\w{12}_r-\w{12}\([0-9a-f-]{36}\)"),
        ("dial tcp 10.0.0.7:8080: refused", r"dial tcp r-\w{12}:r-\w{12}: refused"),
        ("dial tcp [fe80::1:2]:80", r"dial tcp \[r-\w{12}\]:r-\w{12}"),
        ("pull registry.local/shop/web:1.2 failed", r"pull r-\w{12} failed"),
        ("Node worker-7 is low on memory.", r"Node r-\w{12} is low on memory\."),
        ("default kube-system", "default kube-system"),
        ("route 2001:db8:0:0:1:0:0:7 gone", r"route r-\w{12} gone"),
        ("1.5Gi of 2Gi", r"r-\w{12} of r-\w{12}"),
        ("dial unix /run/acme/containerd.sock: connect", r"dial unix r-\w{12}: connect"),
        ('secret "acme-pw" not found', r'secret "r-\w{12}" not found'),
        ("pull quay.acme.io/team/img@sha256:" + "a" * 64, r"pull r-\w{12}(@sha256:[0-9a-f]{64})?"),
        ("the Acmeifier said no", r"the r-\w{12} said no"),
    ],
)  # fmt: skip
def test_names_in_texts(text: str, form: str) -> None:
    """The words around them stay, and so does the form of what was replaced."""
    clean = pseudonyms().text(text)
    assert re.fullmatch(form, clean), clean


@given(st.from_regex(r"[a-z]{4,9}[0-9]{2}", fullmatch=True), st.sampled_from('/-.:_ "='))
def test_what_no_rule_knows_is_no_part_of_a_text(word: str, mark: str) -> None:
    text = f'Failed to mount {mark}{word}{mark} of volume "{word}" (1.5Gi) for container web{mark}x'
    assert word not in pseudonyms().text(text)


def test_a_message_of_an_unknown_reason_is_replaced_whole() -> None:
    """Its words may be of the kubelet's, and say what another program does all the same."""
    for reason, kept in (("Killing", True), ("AcmeReady", False)):
        body = KubernetesEvent(
            object_kind="Pod", namespace="shop", pod="web", pod_uid=UID, container=None,
            type="Normal", reason=reason, message="Stopping container web", count=1,
        )  # fmt: skip
        record = Record(
            node="worker-7", seq=1, ts_ns=0, role=body.role, kind=body.kind, v=body.v,
            cause=None, evidence=(), body=body,
        )  # fmt: skip
        clean = lines([record])[0].decode()
        assert ("Stopping container r-" in clean) == kept
        assert (f'"{reason}"' in clean) == kept
        assert "Stopping" not in clean or kept


def test_the_same_name_in_a_text_and_alone() -> None:
    made = pseudonyms()
    assert made.text("container web") == f"container {made.name('web')}"
    assert made.text(f"pod{UID}") == "pod" + made.name(UID)
    assert made.cgroup("pod" + UID.replace("-", "_")) == "pod" + made.name(UID).replace("-", "_")
    assert made.name("web-worker-7") == f"{made.name('web')}-{made.name('worker-7')}"


def test_image_ids_keep_their_order() -> None:
    made = Pseudonyms(KEY)
    digests = sorted(f"{number * 7919:064x}" for number in range(50))
    for digest in digests:
        made.add_ordered("images", digest)
    made.settle()
    assert [made.name(digest) for digest in digests] == sorted(map(made.name, digests))
    assert not set(digests) & set(map(made.name, digests))


@given(st.text(max_size=40))
def test_any_text_is_replaced_whole(text: str) -> None:
    """A name of any form gives a pseudonym that shows nothing of it."""
    made = pseudonyms()
    clean = made.name(text)
    assert made.name(text) == clean
    if len(text) > 6:
        assert text not in clean or text in {"default", "kube-system", "localhost"}


def test_a_passphrase_gives_a_key() -> None:
    assert key_of_passphrase("x") == key_of_passphrase("x") != key_of_passphrase("y")


def test_state_files_of_cpus_and_memory() -> None:
    """UIDs and names of containers are keys there; sets of CPUs, nodes and sizes stay."""
    block = MemoryBlock(numa_nodes=(0, 1), type="hugepages-1Gi", size_bytes=77)
    bodies: list[Body] = [
        CpuManagerStateRead(
            policy="static",
            default_cpu_set="0-1",
            checksum=1,
            checksum_ok=True,
            assignments={"secret-uid": {"secret-name": "2-3,5"}},
        ),
        MemoryManagerStateRead(
            policy="Static",
            checksum=1,
            checksum_ok=True,
            assignments={"secret-uid": {"secret-name": (block,)}},
        ),
        CpuManagerStarted(
            policy="static", reserved_cpu_set="0,4", options=("FullPhysicalCPUsOnly",)
        ),
    ]
    records = scene(*((float(at_s), body) for at_s, body in enumerate(bodies)))
    text = b"".join(lines(records)).decode()
    assert "secret" not in text
    for kept in ('"2-3,5"', "hugepages-1Gi", '"numa_nodes":[0,1]', '"0,4"', "FullPhysicalCPUsOnly"):
        assert kept in text


def test_what_a_resize_gave() -> None:
    """Amounts stay, and a container is the same one in a record and in a state file."""
    amounts = {"requests": {"cpu": "250m", "memory": "64Mi", "acme-widgets": "3"}}
    bodies: list[Body] = [
        PodResized(
            namespace="shop",
            pod="web",
            pod_uid="u",
            outcome="allocated",
            resources={"server": amounts},
        ),
        PodsStateRead(
            which="allocated",
            checksum=1,
            checksum_ok=True,
            pods={"u": PodResources(containers={"server": ResourceAmounts(**amounts)})},
        ),
    ]
    records = scene(*((float(at_s), body) for at_s, body in enumerate(bodies)))
    resized, state, *_ = (record.body for record in redacted(lambda: records, KEY))
    assert isinstance(resized, PodResized)
    assert isinstance(state, PodsStateRead)
    (name, given), *_ = (resized.resources or {}).items()
    (pod,) = state.pods.values()
    shown = msgspec.to_builtins(pod.containers[name])["requests"]
    assert given["requests"] == shown
    assert shown["cpu"] == "250m"
    assert shown["memory"] == "64Mi"
    assert not any(word in str(shown) for word in ("server", "acme", "'3'"))


@pytest.mark.parametrize("secret", SECRETS)
def test_what_somebody_wrote_is_replaced_whatever_it_looks_like(secret: str) -> None:
    """Wherever it stands: a number may be a PIN, a date one's birthday."""
    bodies = (*records_with(secret), *every_kind(secret))
    records = scene(*((float(at_s), body) for at_s, body in enumerate(bodies)))
    held = [  # what is hidden of a line does not depend on the record that stands on it
        msgspec.structs.replace(each, evidence=(line,))
        for each, line in zip(records, cycle(lines_with(secret)), strict=False)
    ]
    parts = parts_of(secret) | {"4711471147"}
    assert [
        (record.kind, part)
        for record in redacted(lambda: held, KEY)
        for texts in ["\0".join(texts_of(record))]
        for part in parts
        if part in texts and (record.kind, part) not in KERNELS
    ] == []


KERNELS = {
    (f"cgroups.Cgroup{what}", number)
    for what in ("Observed", "Updated")
    for number in ("4711471147", "4111111111111111")
}
"""Numbers in files of cgroups are the kernel's."""


def texts_of(record: Record) -> list[str]:
    found: list[str] = []

    def walk(value: object) -> None:
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            for name, inner in value.items():
                walk(name)
                walk(inner)
        elif isinstance(value, list | tuple):
            for inner in value:
                walk(inner)

    walk(msgspec.to_builtins(record))
    return found


@pytest.mark.parametrize(
    "name",
    [
        *("scenario/first/3000", "random/3001", "scenario/image-gc/3002", "random/3003"),
        *golden_names()[::9],
    ],
)
def test_histories_of_all_kinds_verify_as_before(name: str) -> None:
    truth = named(name)
    chance = Random(truth.name)
    decisions = [record for record in truth.records if record.role == "decision"]
    lied = [
        lying(truth.records, chance.choice(lies))
        for record in chance.sample(decisions, min(3, len(decisions)))
        if (
            lies := [
                lie for lie in lies_about(record, truth.records, chance) if lie.field != "reason"
            ]
        )
    ]
    for records in (list(truth.records), *lied):
        shown = list(redacted(partial(iter, records), KEY))
        assert sorted(map(verdict, outcomes(shown))) == sorted(map(verdict, outcomes(records)))


def verdict(outcome: Outcome) -> tuple[int, str, str]:
    if isinstance(outcome, Finding):
        return (outcome.seq, outcome.kind, outcome.verdict)
    return (outcome.ts_ns, type(outcome).__name__, "")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Threshold quantity: 100Mi, available: 91Mi. ", "91Mi"),
        ("Pod Node didn't have enough resource: cpu, requested: 3, used: 1, capacity: 4", "3"),
        ("back-off 5m0s restarting failed container=web pod=web_shop(x)", "5m0s"),
        ("Pod ephemeral local storage usage exceeds the total limit of containers 25Mi. ", "25Mi"),
    ],
)  # fmt: skip
def test_the_kubelet_s_own_numbers_stay(text: str, kept: str) -> None:
    clean = in_own_words(text, lambda others: "X" * len(others))
    assert clean is not None
    assert kept in clean
    assert "web" not in clean
    assert in_own_words(f"4711 {text}", str) is None


@pytest.mark.parametrize(
    "path",
    [
        "/kubepods/burstable/pod{uid}/{id}",
        "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{uid_}.slice"
        "/cri-containerd-{id}.scope",
        "/kubelet/kubepods/pod{uid}",
        "/system.slice/containerd.service",
    ],
)
def test_cgroups_of_either_driver(path: str) -> None:
    """What it hangs from is still seen; an ID in it has the pseudonym that it has alone."""
    made, container = pseudonyms(), "ab" * 32
    spelled = {"uid": UID, "uid_": UID.replace("-", "_"), "id": container}
    expected = {
        "uid": made.name(UID),
        "uid_": made.name(UID).replace("-", "_"),
        "id": made.name(container),
    }
    assert made.cgroup(path.format(**spelled)) == path.format(**expected)
    assert "hunter2" not in made.cgroup("/kubepods/hunter2.slice/pod4711")


def test_what_the_api_defines_stays() -> None:
    """Enumerations, possible amounts, keys of every cluster, ports, times of a status."""
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "containers": [{
            "name": "app", "imagePullPolicy": "Always",
            "resources": {"requests": {"cpu": "250m", "nvidia.com/gpu": 2}},
            "livenessProbe": {"httpGet": {"port": "8080", "scheme": "HTTPS"}, "periodSeconds": 7},
        }],
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
        "affinity": {"matchExpressions": [
            {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
        ]},
    }  # fmt: skip
    body = PodListed(
        namespace="shop", pod="web", pod_uid=UID, listed_by="api", spec=spec,
        status={"phase": "Running", "startTime": "2026-11-21T03:06:40Z", "qosClass": "Burstable"},
        labels={"kubernetes.io/os": "linux", "app": "web"},
    )  # fmt: skip
    (record, _) = redacted(lambda: scene((0.0, body)), KEY)
    clean = record.body
    assert isinstance(clean, PodListed)
    assert clean.spec is not None
    named = clean.spec["containers"][0].pop("name")
    assert clean.spec == {
        **spec,
        "containers": [{k: v for k, v in spec["containers"][0].items() if k != "name"}],
    }
    assert named.startswith("r-")
    assert clean.status == body.status
    assert clean.labels["kubernetes.io/os"] == "linux"
    assert clean.labels["app"].startswith("r-")


def test_settings_that_decisions_rest_on_stay() -> None:
    for name, value in {
        "maxPods": 110, "imageMinimumGCAge": "2m0s", "cgroupDriver": "systemd",
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "10%"},
        "systemReserved": {"cpu": "200m", "memory": "1Gi"}, "featureGates": {"MemoryQoS": True},
        "enforceNodeAllocatable": ["pods", "kube-reserved"], "reservedSystemCPUs": "0-1,4",
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
        "crashLoopBackOff": {"maxContainerRestartPeriod": "47s"}, "--v": "4",
        "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
        "shutdownGracePeriodByPodPriority": [{"priority": 1000, "shutdownGracePeriodSeconds": 9}],
    }.items():  # fmt: skip
        assert shown_setting(name, value, lambda _: "X") == value


def test_the_cause_of_an_unready_node_stays() -> None:
    """The kubelet's own words for it, of which none says whose node it is."""
    pseudonyms = Pseudonyms(KEY)
    pseudonyms.settle()
    for cause in (
        "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
        "message:Network plugin returns error: cni plugin not initialized",
        "docker: network plugin is not ready: cni config uninitialized",
        "PLEG is not healthy: pleg has yet to be successful",
    ):
        assert pseudonyms.text(cause) == cause
