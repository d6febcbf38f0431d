"""Files of ``image_manager/``, imported from a node's directory."""

import json
from pathlib import Path

import pytest

from kubeledger.ingest.api import import_sources
from kubeledger.kubelet.imagepull.readings import read_image_manager_record
from kubeledger.ledger.ledger import Ledger
from kubeledger.model.bodies.images import PullRecordRead, PullUsers
from kubeledger.model.bodies.ledger import FindingReported
from kubeledger.model.record import Record
from kubeledger.model.units import parse_ts
from tests.ingest.node_files import snapshot_time, write_node

GROUP = "kubelet.config.k8s.io"
INTENT = {"kind": "ImagePullIntent", "apiVersion": f"{GROUP}/v1alpha1", "image": "x/y:1"}
PULLED = {
    "kind": "ImagePulledRecord",
    "apiVersion": f"{GROUP}/v1beta1",
    "lastUpdatedTime": "2026-11-21T02:00:00Z",
    "imageRef": "sha256:1",
    "credentialMapping": {"x/y": {"kubernetesSecrets": [{"uid": "u", "namespace": "shop",
                                                         "name": "s", "credentialHash": "secret"}],
                                  "kubernetesServiceAccounts": [{"uid": "u", "namespace": "shop",
                                                                 "name": "a"}]},
                          "docker.io/library/busybox": {"nodePodsAccessible": True}},
}  # fmt: skip
READ = PullRecordRead(
    api_version=f"{GROUP}/v1beta1",
    image_ref="sha256:1",
    updated_ts_ns=parse_ts("2026-11-21T02:00:00Z"),
    users={
        "x/y": PullUsers(secrets=("shop/s",), service_accounts=("shop/a",)),
        "docker.io/library/busybox": PullUsers(everyone=True),
    },
)


def imported(directory: Path, files: dict[str, str]) -> list[Record]:
    """Records of a node with these files."""
    node = write_node(directory / "node-x")
    for name, text in files.items():
        path = node / "snapshots" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    ledger = Ledger.create(directory / "ledger")
    import_sources([str(node)], ledger)
    return list(ledger.records())


def test_records_and_intents_of_each_version_when_they_have_changed(tmp_path: Path) -> None:
    """At the time of their snapshot, and without what their credentials are."""
    first, second = (f"{snapshot_time(at)}/image_manager" for at in (5, 15))
    pulled = json.dumps(PULLED)
    files = {
        f"{first}/pulled/sha256-1": pulled,
        f"{second}/pulled/sha256-1": pulled,
        f"{second}/pulling/sha256-2": json.dumps(INTENT),
    }
    records = [r for r in imported(tmp_path, files) if isinstance(r.body, PullRecordRead)]
    intent = PullRecordRead(api_version=f"{GROUP}/v1alpha1", image="x/y:1")
    assert [(r.ts_ns, r.body) for r in records] == [
        (parse_ts("2026-11-21T03:01:05Z"), READ),
        (parse_ts("2026-11-21T03:01:15Z"), intent),
    ]


@pytest.mark.parametrize(
    ("text", "finding", "says"),
    [
        (json.dumps(PULLED)[:-9], "half_written", "not whole"),
        (json.dumps(PULLED | {"apiVersion": f"{GROUP}/v1"}), "malformed", f"'{GROUP}/v1' is not"),
        (json.dumps(PULLED | {"lastUpdatedTime": "today"}), "malformed", "lastUpdatedTime"),
        (json.dumps(INTENT | {"images": []}), "malformed", "`images`"),
    ],
)
def test_what_is_no_record_is_named(tmp_path: Path, text: str, finding: str, says: str) -> None:
    name = f"{snapshot_time(5)}/image_manager/pulled/sha256-1"
    records = imported(tmp_path, {name: text})
    assert not any(isinstance(record.body, PullRecordRead) for record in records)
    (found,) = (
        record
        for record in records
        if isinstance(record.body, FindingReported) and record.body.finding == finding
    )
    assert isinstance(found.body, FindingReported)
    assert says in found.body.message
    assert name in f"{found.body} {found.evidence}"


def test_a_record_of_nobody() -> None:
    """A pull that ended while no kubelet ran."""
    bare = {key: PULLED[key] for key in ("kind", "apiVersion", "imageRef")}
    assert read_image_manager_record(json.dumps(bare).encode()) == PullRecordRead(
        api_version=f"{GROUP}/v1beta1", image_ref="sha256:1"
    )
