"""``kubeledger fleet whatif``: every node's observations, decided under other settings."""

from __future__ import annotations

import sys

import click

from kubeledger.cli.fleet_options import Running, engine_options, lake_option
from kubeledger.cli.options import output_option, reports_errors
from kubeledger.cli.whatif import read_configs, variant_options

_FAILED = 1


@click.command(epilog="Example: kubeledger fleet whatif --lake /data/lake --set 'maxPods=110|250'")
@lake_option
@variant_options
@engine_options
@click.option("--full", is_flag=True, help="All nodes, also those where nothing changes.")
@output_option("table", "json", "jsonl", "csv")
@reports_errors
def whatif(
    lake: str,
    settings: tuple[str, ...],
    versions: tuple[str, ...],
    configs: tuple[str, ...],
    full: bool,
    output: str,
    running: Running,
) -> None:
    """Replay the observations of all nodes under other settings, and count what changes.

    Counted are pods evicted, processes killed for memory, containers killed by liveness and
    startup probes, pods preempted, pods refused and images deleted: as recorded, and as they
    surely would have been under each variant. What follows a change was observed in a world
    in which the recorded decision had been taken: it is counted as untrusted, and what lacks an
    input as unknown. `kubeledger whatif` of one node shows each decision and why.

    The table has the nodes that change most; --full and the other forms have all, with a row a
    node and variant. A node that cannot be asked is a row with the reason; then the exit code
    is 1.
    """
    from kubeledger.cli.fleet_options import ask_lake
    from kubeledger.cli.fleet_whatif_output import Answer, write_answers
    from kubeledger.fleet.lake import Lake
    from kubeledger.fleet.types import Failure, NodeSpec
    from kubeledger.fleet.whatif import WhatifSpec, variant_names, whatif_node

    documents = tuple(read_configs(configs))
    names = variant_names(settings, versions, documents)
    place = Lake.open(lake)
    nodes = {key: head.summary for key, head in place.heads().items()}

    def spec_of(task: NodeSpec) -> WhatifSpec:
        return WhatifSpec(task=task, settings=settings, versions=versions, configs=documents)

    asked = ask_lake(
        place, nodes, whatif_node, spec_of, lambda spec: spec.task, "replaying", running
    )
    answers = [Answer(nodes[key], answer) for key, answer in asked]
    write_answers(names, answers, output, full=full)
    if any(isinstance(each.answer, Failure) for each in answers):
        sys.exit(_FAILED)
