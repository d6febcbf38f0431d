"""What an import of some paths would read."""

from collections.abc import Sequence
from pathlib import Path

from kubeledger.ingest.planning.bundle import ImportOptions, find_bundles
from kubeledger.ingest.planning.node_split import split_by_node
from kubeledger.ingest.planning.plan import Plan, make_plan
from kubeledger.ingest.sources.collect import collect


def plan_sources(paths: Sequence[str], spool: Path, options: ImportOptions) -> list[Plan]:
    bundles = split_by_node(find_bundles(collect(paths, spool), options), options)
    return [make_plan(bundle, options) for bundle in bundles]
