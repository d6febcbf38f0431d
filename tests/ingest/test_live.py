"""A pipeline that stays open."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kubeledger.ingest.correlate.context import BundleContext
from kubeledger.ingest.live import LivePipeline
from kubeledger.ingest.planning.bundle import ImportOptions, find_bundles
from kubeledger.ingest.planning.node_split import split_by_node
from kubeledger.ingest.planning.plan import make_plan
from kubeledger.ingest.sources.collect import collect
from kubeledger.ingest.sources.documents import Document
from kubeledger.ingest.sources.streams import SourceFile
from kubeledger.model.units import NS_PER_S
from tests.ingest.node_files import pod, write_node


def context_after(tmp_path: Path, statuses: Iterable[dict[str, Any]]) -> BundleContext:
    """What a live pipeline knows when the pod was listed with each status in turn."""
    options, files = ImportOptions(node="node-x"), str(write_node(tmp_path / "node-x"))
    (bundle,) = split_by_node(find_bundles(collect([files], tmp_path), options), options)
    plan = make_plan(bundle, options)
    pipeline = LivePipeline(plan)
    list(pipeline.begin())
    for number, status in enumerate(statuses):
        listed = pod()
        listed["status"] |= status
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps({"kind": "PodList", "items": [listed]}))
        read_ns = plan.timing.last_ts_ns + number * NS_PER_S
        list(pipeline.document(Document(SourceFile(path.name, path), "pod-list", read_ns)))
    return plan.context


def test_statuses_of_a_pod_do_not_pile_up(tmp_path: Path) -> None:
    """The first and the last ones are held of one that changes all the time."""
    context = context_after(tmp_path, ({"message": f"change {n}"} for n in range(50)))
    (known,) = context.pods.values()
    held = [status.get("message") for status in known.statuses]
    assert held == [None, *(f"change {number}" for number in range(34, 50))]


def test_containers_of_a_pod_are_known_to_the_end(tmp_path: Path) -> None:
    """One container restarts all the time, and conditions change between."""
    statuses = (
        {"message": f"{n} {change}", "containerStatuses": [container(n)]}
        for n in range(30)
        for change in ("began", "ready")
    )
    context = context_after(tmp_path, statuses)
    assert set(context.instances) == {"abc", *(f"id{n}" for n in range(30))}
    (known,) = context.pods.values()
    assert len(known.statuses) < 50


def container(number: int) -> dict[str, Any]:
    """The status of a container that was restarted so often."""
    return {"name": "app", "containerID": f"containerd://id{number}", "restartCount": number}
