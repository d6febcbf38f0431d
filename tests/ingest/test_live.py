"""A pipeline that stays open."""

from __future__ import annotations

import json
from pathlib import Path

from kubeledger.ingest.live import LivePipeline
from kubeledger.ingest.planning.bundle import find_bundles
from kubeledger.ingest.planning.node_split import split_by_node
from kubeledger.ingest.planning.options import ImportOptions
from kubeledger.ingest.planning.plan import make_plan
from kubeledger.ingest.sources.collect import collect
from kubeledger.ingest.sources.documents import Document
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.model.units import NS_PER_S
from tests.ingest.node_files import pod, write_node


def test_statuses_of_a_pod_do_not_pile_up(tmp_path: Path) -> None:
    """The first and the last ones are held of one that changes all the time."""
    options, files = ImportOptions(node="node-x"), str(write_node(tmp_path / "node-x"))
    (bundle,) = split_by_node(find_bundles(collect([files], tmp_path), options), options)
    plan = make_plan(bundle, options)
    pipeline = LivePipeline(plan)
    list(pipeline.begin())
    for number in range(50):
        listed = pod()
        listed["status"]["message"] = f"change {number}"
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps({"kind": "PodList", "items": [listed]}))
        read_ns = plan.timing.last_ts_ns + number * NS_PER_S
        list(pipeline.document(Document(SourceFile(path.name, path), "pod-list", read_ns)))
    (known,) = plan.context.pods.values()
    held = [status.get("message") for status in known.statuses]
    assert held == [None, *(f"change {number}" for number in range(34, 50))]
