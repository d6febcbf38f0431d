"""Pods as config sources and pod lists show them, and their end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kubeledger.ingest.correlate.survey import fill_context
from kubeledger.ingest.sources.documents import Document, DocumentContents
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.model.bodies.lifecycle import PodConfigChanged, PodListed, PodTerminated
from tests.ingest.pod_world import (
    at,
    facts_of,
    ingest_lines,
    klog,
    know_pod,
    of,
    pod_list,
    values,
    world,
)

UID_A = "aaaaaaaa-0000-4000-8000-00000000000a"
UID_B = "bbbbbbbb-0000-4000-8000-00000000000b"


def _pod(name: str, uid: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": uid, **more.pop("metadata", {})},
        "spec": more.pop("spec", {}),
        "status": more.pop("status", {"phase": "Running"}),
    }


@pytest.mark.parametrize("operation", ["ADD", "UPDATE", "DELETE", "REMOVE", "RECONCILE"])
def test_a_fact_for_each_pod_of_a_free_text_line(operation: str) -> None:
    """A fact for each pod of a free text line."""
    pods = f"a_shop({UID_A}), b_shop({UID_B})"
    if operation == "UPDATE":
        pods = pods.replace(")", "):DeletionTimestamp=2026-11-21T10:00:00Z")
    line = klog("10:00:00.000000", "kubelet.go", f'SyncLoop ({operation}, "api"): "{pods}"')
    bodies = of(ingest_lines(world(), [line]), PodConfigChanged)
    assert [values(body, "pod", "pod_uid", "operation", "source") for body in bodies] == [
        ("a", UID_A, operation, "api"),
        ("b", UID_B, operation, "api"),
    ]


@pytest.mark.parametrize(
    "pods",
    [
        '["shop/a","shop/b"]',
        '[{"name":"a","namespace":"shop"},{"name":"b","namespace":"shop"}]',
        "[shop/a shop/b]",
    ],
)
def test_structured_lists_of_all_versions(pods: str) -> None:
    """Structured lists of all versions."""
    context = world()
    know_pod(context, "a", UID_A, namespace="shop")
    line = klog("10:00:00.000000", "kubelet.go", f'"SyncLoop ADD" source="file" pods={pods}')
    bodies = of(ingest_lines(context, [line]), PodConfigChanged)
    assert [values(body, "pod", "pod_uid") for body in bodies] == [("a", UID_A), ("b", None)]


def test_an_empty_list_is_no_fact() -> None:
    """An empty list is no fact."""
    lines = [
        klog("10:00:00.000000", "kubelet.go", 'SyncLoop (ADD, "api"): ""'),
        klog("10:00:00.000000", "kubelet.go", '"SyncLoop ADD" source="file" pods=[]'),
    ]
    assert ingest_lines(world(), lines) == []


def test_a_changed_manifest_is_another_pod_of_that_name() -> None:
    """A changed manifest is another pod of that name."""

    def named(clock: str, uid: str) -> str:
        message = f'"Generated pod name" pod="shop/a" podUID="{uid}" source="/a.yaml"'
        return klog(clock, "common.go", message)

    log = [
        named("10:00:00.000000", "1" * 32),
        klog("10:00:00.100000", "kubelet.go", '"SyncLoop ADD" source="file" pods=["shop/a"]'),
        named("10:00:20.000000", "2" * 32),
        klog("10:00:20.100000", "kubelet.go", '"SyncLoop REMOVE" source="file" pods=["shop/a"]'),
        klog("10:00:20.200000", "kubelet.go", '"SyncLoop ADD" source="file" pods=["shop/a"]'),
    ]
    bodies = of(ingest_lines(world(), log), PodConfigChanged)
    assert [values(body, "operation", "pod_uid") for body in bodies] == [
        ("ADD", "1" * 32),
        ("REMOVE", "1" * 32),
        ("ADD", "2" * 32),
    ]


def test_pod_lists_tell_changes_only() -> None:
    """Pod lists tell changes only."""
    first = _pod("a", UID_A, metadata={"creationTimestamp": "2026-11-21T09:00:00Z"})
    changed = {**first, "status": {"phase": "Failed"}}
    lists = [
        pod_list("10:00:00", first),
        pod_list("10:00:15", first),
        pod_list("10:00:30", changed, _pod("b", UID_B)),
        pod_list("10:00:45"),
    ]
    bodies = of(ingest_lines(world(), "", lists), PodListed)
    assert [values(body, "pod", "gone") for body in bodies[:3]] == [
        ("a", False),
        ("a", False),
        ("b", False),
    ]
    assert {values(body, "pod", "gone", "spec", "status") for body in bodies[3:]} == {
        ("a", True, None, None),
        ("b", True, None, None),
    }
    assert bodies[0].created_ts_ns == at("09:00:00")


def test_lists_of_different_kinds_do_not_mix() -> None:
    """Lists of different kinds do not mix."""
    lists = [
        pod_list("10:00:00", _pod("a", UID_A)),
        pod_list("10:00:01", _pod("a", UID_A), listed_by="api"),
        pod_list("10:00:02", {"metadata": {"name": "m"}}, listed_by="manifest", complete=False),
        pod_list("10:00:03", listed_by="manifest", complete=False),
    ]
    bodies = of(ingest_lines(world(), "", lists), PodListed)
    assert [values(body, "listed_by", "namespace", "gone") for body in bodies] == [
        ("kubelet", "shop", False),
        ("api", "shop", False),
        ("manifest", "default", False),
    ]
    assert bodies[2].status is None


def test_a_pod_ends_once() -> None:
    """A pod ends once."""
    done = f'Pod "a_shop({UID_A})" has completed, ignoring remaining sync work: '
    log = [
        klog("10:00:00.000000", "kubelet.go", f'SyncLoop (DELETE, "api"): "a_shop({UID_A})"'),
        klog("10:00:01.000000", "kubelet.go", done + "sync"),
        klog("10:00:02.000000", "kubelet.go", done + "reconcile"),
        klog(
            "10:00:03.000000",
            "status_manager.go",
            f'Pod "a_shop({UID_A})" fully terminated and removed from etcd',
        ),
    ]
    (fact,) = facts_of(ingest_lines(world(), log), PodTerminated)
    assert fact.ts_ns == at("10:00:01")
    assert fact.cause is not None
    assert isinstance(fact.cause.body, PodConfigChanged)


def test_a_pod_that_ended_before_the_kubelet_does_not_end_again() -> None:
    """A pod that ended before the kubelet does not end again."""
    message = f'Pod "a_shop({UID_A})" has completed, ignoring remaining sync work: create'
    assert ingest_lines(world(), [klog("10:00:00.000000", "kubelet.go", message)]) == []


def test_the_end_in_structured_logs() -> None:
    """The end in structured logs."""
    message = (
        f'"Pod is terminated and will need no more status updates" pod="shop/a" podUID="{UID_A}"'
    )
    (body,) = of(
        ingest_lines(world(), [klog("10:00:00.000000", "kubelet.go", message)]), PodTerminated
    )
    assert values(body, "namespace", "pod", "pod_uid") == ("shop", "a", UID_A)


def test_a_name_is_not_that_of_a_pod_created_later(tmp_path: Path) -> None:
    """Only the last pod of a name is listed; the kubelet's events name the one before it."""
    listed = {**_pod("web", UID_B), "kind": "Pod", "apiVersion": "v1"}
    listed["metadata"]["creationTimestamp"] = "2026-11-21T10:30:00Z"
    event = {
        "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "web", "uid": UID_A},
        "source": {"component": "kubelet"},
        "firstTimestamp": "2026-11-21T10:00:00Z",
        "reason": "Pulled",
    }
    documents = []
    for kind, entry, form in (("Pod", listed, "pod-list"), ("Event", event, "events")):
        text = json.dumps({"kind": f"{kind}List", "apiVersion": "v1", "items": [entry]})
        (tmp_path / f"{form}.json").write_text(text)
        source = SourceFile(f"{form}.json", tmp_path / f"{form}.json")
        documents.append(Document(source, form, at("11:00:00.000000")))
    times = ("09:00:00.000000", "10:10:00.000000", "10:29:30.000000", "10:40:00.000000")
    for given, expected in ((documents, [UID_A, UID_A, UID_A, UID_B]),
                            (documents[:1], [None, None, UID_B, UID_B])):  # fmt: skip
        context = world()
        assert fill_context(context, given, DocumentContents()) == {}
        assert [context.uid_of("shop", "web", at(time)) for time in times] == expected
