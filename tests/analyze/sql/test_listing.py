"""Filters of ``ls``, chains of ``show``, and summaries of every kind."""

from pathlib import Path
from string import Formatter

import msgspec
import pytest

from kubeledger.analyze.sql.listing import (
    Filter,
    list_records,
    pods_of,
    selection,
    show_record,
    similar_pods,
)
from kubeledger.analyze.summaries import TEMPLATES, subject_of, summary_of
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.lifecycle import PodAdmitted
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.record import Record
from kubeledger.model.wire.catalogue import BODY_TYPES
from tests.analyze.sql.fixture_ledger import RECORDS, START_NS, whole_story, write_ledger

SECOND_NS = 1_000_000_000


@pytest.mark.parametrize(
    ("wanted", "seqs"),
    [
        (Filter(), list(range(1, RECORDS + 1))),
        (Filter(kinds=("images.*",)), [28, 29, 30, 31, 32, 33, 34, 35, 36]),
        (Filter(kinds=("PodRejected",)), [37]),
        (
            Filter(kinds=("Pod*", "node.KubeletStarted")),
            [1, 5, 9, 12, 37, 39, 43, 49, 50, 51, 52, *range(55, 60), 64],
        ),
        (Filter(kinds=("nothing",)), []),
        (Filter(pod="default/train"), [5, 6, 9, 10]),
        (Filter(pod="train"), [5, 6, 9, 10]),
        (Filter(pod="u-train"), [5, 6, 9, 10]),
        (Filter(pod="other/train"), []),
        (Filter(pod="serve"), [7, 8, 12, 13, 14, 39, 40]),
        (Filter(pod="kube-system/critical"), [39]),
        (Filter(container="main"), [6, 7, 8, 38]),
        (Filter(container="main", pod="serve"), [7, 8]),
        (Filter(since_ns=START_NS + 44 * SECOND_NS), list(range(44, RECORDS + 1))),
        (Filter(until_ns=START_NS + 2 * SECOND_NS), [1, 2]),
        (Filter(node="node-a", kinds=("*.KubeletStarted",)), [1]),
    ],
)
def test_filter(ledger: Path, wanted: Filter, seqs: list[int]) -> None:
    assert [record.seq for record in list_records(Ledger.open(ledger), wanted)] == seqs


def test_the_lines_that_name_a_pod_are_all_of_its_records(ledger: Path) -> None:
    opened = Ledger.open(ledger)
    records = list(opened.records())
    names = {name for record in records for name in pods_of(record.body)}
    assert len(names) > 5
    for name in sorted(names | {each.rpartition("/")[2] for each in names}):
        wanted = Filter(pod=name)
        expected = list(filter(selection(opened, wanted), records))
        assert list(list_records(opened, wanted)) == expected


def test_unknown_node(ledger: Path) -> None:
    with pytest.raises(BadQuestionError):
        list(list_records(Ledger.open(ledger), Filter(node="nope")))


def test_chain_of_a_kill(ledger: Path) -> None:
    """Up to the tick, down to the restart."""
    shown = show_record(Ledger.open(ledger), 20)
    assert shown.record.kind == "lifecycle.ContainerKilled"
    assert [record.seq for record in shown.causes] == [19, 18]
    assert [record.seq for record in shown.effects] == [21, 23]
    first = show_record(Ledger.open(ledger), 18)
    assert [record.seq for record in first.effects] == [19, 20, 21, 23]


def test_which_node(tmp_path: Path) -> None:
    ledger = Ledger.open(write_ledger(tmp_path, whole_story("a") + whole_story("b")[:3]))
    with pytest.raises(BadQuestionError, match="several nodes: a, b"):
        show_record(ledger, 2)
    assert show_record(ledger, 2, "b").record.node == "b"
    assert show_record(ledger, 20).record.node == "a"
    with pytest.raises(BadQuestionError, match="no record 99"):
        show_record(ledger, 99)


def test_every_kind_has_a_template_over_its_own_fields() -> None:
    """A field that a body does not have would read ``?`` for ever."""
    missing, gone = sorted(BODY_TYPES.keys() - TEMPLATES), sorted(TEMPLATES.keys() - BODY_TYPES)
    assert not missing, f"add to TEMPLATES of analyze/summaries.py what each says: {missing}"
    assert not gone, f"no such kind, take it out of TEMPLATES of analyze/summaries.py: {gone}"
    for kind, template in TEMPLATES.items():
        fields = {field.encode_name for field in msgspec.structs.fields(BODY_TYPES[kind])}
        used = {name.partition("#")[0] for _, name, _, _ in Formatter().parse(template) if name}
        assert used <= fields, kind


@pytest.mark.parametrize(
    ("kind", "body", "summary"),
    [
        ("devicemanager.DevicesAllocated", {"device_ids": ["a", "b"], "resource": "x/gpu"},
         "got a, b of x/gpu"),
        ("prober.ProbeExecuted",
         {"probe_type": "liveness", "result": "failure", "output": "no\n  file"},
         "liveness failure: no file"),
        ("prober.ProbeExecuted", {"probe_type": "liveness", "result": "success", "output": None},
         "liveness success"),
        ("devicemanager.DevicesReported", {"resource": "x/gpu", "healthy": 3, "total": 4},
         "x/gpu: devices reported, 3 of 4 healthy"),
        ("devicemanager.DevicesReported", {"resource": "x/gpu", "healthy": None, "total": None},
         "x/gpu: devices reported"),
        ("images.ImagesDetected", {"images": [{}, {}]}, "2 images listed"),
        ("images.ImageDeleted", {"image_id": "i", "size_bytes": None}, "i deleted"),
        ("lifecycle.ContainerDied", {"exit_code": None}, "container died"),
        ("lifecycle.ContainerDied", {"exit_code": 137}, "container died, exit code 137"),
        ("oom.OutOfMemory", {"cgroup": "kubepods/podu"}, "out of memory in kubepods/podu"),
        ("preemption.PreemptionFailed", {"error": None}, "no victims found"),
        ("lifecycle.RestartBackedOff", {"back_off_s": None}, "restart put off for ? s"),
        ("unknown.Kind", {}, ""),
    ],
)  # fmt: skip
def test_summary(kind: str, body: dict[str, object], summary: str) -> None:
    assert summary_of(kind, body) == summary


@pytest.mark.parametrize(
    ("body", "subject"),
    [
        ({"namespace": "n", "pod": "p", "container": "c"}, "n/p/c"),
        ({"namespace": "n", "pod": "p", "container": None}, "n/p"),
        ({"namespace": None, "pod": None, "pod_uid": "u", "resource": "r"}, "u"),
        ({"victim_namespace": "n", "victim_pod": "v", "preemptor_pod": "p"}, "n/v"),
        ({"image_id": "i"}, "i"),
        ({"settings": {}}, ""),
    ],
)
def test_subject(body: dict[str, object], subject: str) -> None:
    assert subject_of(body) == subject


# Pods that may have been meant.

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
