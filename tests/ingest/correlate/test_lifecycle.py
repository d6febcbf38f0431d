"""Pods as config sources and pod lists show them, and their end."""

import json
from pathlib import Path
from typing import Any

from kubeledger.ingest.correlate.survey import fill_context
from kubeledger.ingest.sources.documents import Document, DocumentContents
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.model.bodies.lifecycle import PodListed
from tests.ingest.feeding import at, bodies
from tests.ingest.pod_world import ingest_lines, pod_list, values, world
from tests.ingest.scenes import A as UID_A
from tests.ingest.scenes import B as UID_B
from tests.ingest.scenes import played_out

ONE, TWO = "1" * 32, "2" * 32
WORDS = {
    "generated": 'common.go "Generated pod name" pod="shop/a" podUID="{1}" source="/a.yaml"',
    "over": 'kubelet.go "Pod is terminated and will need no more status updates" pod="shop/a" '
    'podUID="{a}"',
    "over_of": 'kubelet.go "Pod is terminated and will need no more status updates" pod="{1}" '
    'podUID="{a}"',
    "done": 'kubelet.go Pod "{A}" has completed, ignoring remaining sync work: {1}',
}
OPERATIONS = "\n".join(
    f"""a fact for each pod of a line of free text: {operation}
    0 kubelet.go SyncLoop ({operation}, "api"): "{{A}}{since}, {{B}}{since}"
    = PodConfigChanged pod=a pod_uid=a operation={operation} source=api
    = PodConfigChanged pod=b pod_uid=b operation={operation} source=api"""
    for operation in ("ADD", "UPDATE", "DELETE", "REMOVE", "RECONCILE")
    for since in [":DeletionTimestamp=2026-11-21T10:00:00Z" * (operation == "UPDATE")]
)
LISTS = "\n".join(
    f"""structured lists of all versions: {pods}
    ~ spec c
    0 kubelet.go "SyncLoop ADD" source="file" pods={pods}
    = PodConfigChanged pod=a pod_uid=a
    = PodConfigChanged pod=b pod_uid=None"""
    for pods in (
        '["shop/a","shop/b"]',
        '[{"name":"a","namespace":"shop"},{"name":"b","namespace":"shop"}]',
        "[shop/a shop/b]",
    )
)

SCENES = f"""{OPERATIONS}
{LISTS}
an empty list is no fact
    0 kubelet.go SyncLoop (ADD, "api"): "" | 0 kubelet.go "SyncLoop ADD" source="file" pods=[]
    = !PodConfigChanged
a changed manifest is another pod of that name
    0 generated {ONE} | .1 Add file | 20 generated {TWO} | 20.1 Remove file | 20.2 Add file
    = PodConfigChanged operation=ADD pod_uid={ONE}
    = PodConfigChanged operation=REMOVE pod_uid={ONE}
    = PodConfigChanged operation=ADD pod_uid={TWO}
a pod ends once
    0 delete {{A}} | 1 done sync | 2 done reconcile
    3 status_manager.go Pod "{{A}}" fully terminated and removed from etcd
    = PodTerminated @1 <PodConfigChanged
a UID has one name
    0 kubelet.go SyncLoop (ADD, "api"): "{{A}}, {{B}}" | 1 over_of shop/b | 2 over_of shop/b
    = FindingReported @1 finding=lines_disagree
    = !FindingReported @2
a name that is nobody else's may be hidden, or cut
    0 kubelet.go SyncLoop (ADD, "api"): "{{A}}, {{B}}" | 1 over_of hidden/hidden | 2 over
    = !FindingReported
a pod that ended before the kubelet does not end again
    0 done create
    = !PodTerminated
the end in structured logs
    0 over
    = PodTerminated namespace=shop pod=a pod_uid=a
"""

test_scene = played_out(SCENES, WORDS)


def _pod(name: str, uid: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": uid, **more.pop("metadata", {})},
        "spec": more.pop("spec", {}),
        "status": more.pop("status", {"phase": "Running"}),
    }


def test_lists_of_different_kinds_do_not_mix() -> None:
    lists = [
        pod_list("10:00:00", _pod("a", UID_A)),
        pod_list("10:00:01", _pod("a", UID_A), listed_by="api"),
        pod_list("10:00:02", {"metadata": {"name": "m"}}, listed_by="manifest", complete=False),
        pod_list("10:00:03", listed_by="manifest", complete=False),
    ]
    found = bodies(ingest_lines(world(), "", lists), PodListed)
    assert [values(body, "listed_by", "namespace", "gone") for body in found] == [
        ("kubelet", "shop", False),
        ("api", "shop", False),
        ("manifest", "default", False),
    ]
    assert found[2].status is None


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
