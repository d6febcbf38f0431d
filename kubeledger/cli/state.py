"""``kubeledger state`` and ``get``: the node's state at any instant, whole or in kubectl's way."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from kubeledger.cli.complete import complete_objects, complete_parts, complete_resources
from kubeledger.cli.options import (
    instant,
    ledger_option,
    node_option,
    option,
    output_option,
    reports_errors,
    time_option,
)
from kubeledger.cli.output import printable, write_document
from kubeledger.cli.screen import paged, screen_width
from kubeledger.model.errors import BadQuestionError

_RESOURCES = {
    alias: name
    for name, aliases in {
        "pods": ("pods", "pod", "po"),
        "devices": ("devices", "device", "dev"),
        "images": ("images", "image"),
        "probes": ("probes", "probe"),
    }.items()
    for alias in aliases
}


@click.command(epilog="Example: kubeledger get pods -n default --at +10m -o wide")
@click.argument("resource", metavar="pods|devices|images|probes", shell_complete=complete_resources)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_objects)
@ledger_option
@node_option
@option("-n --namespace NS", "Only this namespace. Default: all.")
@option("-A --all-namespaces", "All namespaces, as without -n.")
@time_option("--at", "As of then", default="Default: the last record.")
@output_option("table", "wide", "yaml", "json")
@reports_errors
def get(
    resource: str,
    names: tuple[str, ...],
    ledger: Path,
    node: str | None,
    namespace: str | None,
    all_namespaces: bool,
    at: str | None,
    output: str,
) -> None:
    """Show a node's pods, devices, images or probes at any instant, as kubectl would.

    NAME is a pod's name (for probes: that of their pod), a device, or an image ID or its beginning;
    `pod/NAME` and `NAMESPACE/NAME` work, too. Everything comes from the state that `kubeledger
    state` shows. Ages count up to --at, or the last record: a pod's from its creation or, where
    that is not recorded, from the first record about it.
    """
    from kubeledger.cli.files import warn_of_losses
    from kubeledger.cli.get_rows import TABLES, matches, not_known
    from kubeledger.ledger.ledger import Ledger
    from kubeledger.replay import state_at

    word, slash, name = resource.partition("/")
    asked = _RESOURCES.get(word.lower())
    if asked is None:
        raise BadQuestionError(
            f"the node has no {resource!r}", advice="ask for pods, devices, images or probes"
        )
    names = (name, *names) if slash else names
    opened = Ledger.open(ledger)
    ts_ns = instant(at, partial(opened.span, node))
    warn_of_losses(opened, node)
    state = state_at(opened, node, ts_ns=ts_ns)
    now_ns = ts_ns if ts_ns is not None else state.latest_ts_ns or 0
    table = TABLES[asked]
    items = table.items(
        state,
        lambda kinds: (
            each for each in opened.records(state.node, kinds=kinds) if each.ts_ns <= now_ns
        ),
    )
    why_none = "" if items else not_known(asked, state)
    if namespace is not None and not all_namespaces:
        items = [item for item in items if item.get("namespace", namespace) == namespace]
    found = [item for item in items if not names or any(matches(item, each) for each in names)]
    for each in names:
        if not any(matches(item, each) for item in found):
            known = ", ".join(list(dict.fromkeys(str(item["name"]) for item in items))[:8])
            raise BadQuestionError(
                f"{asked} {each!r} not found", advice=f"there are: {known}" if known else ""
            )
    if output in ("yaml", "json"):
        _write_objects(found if len(names) != 1 or len(found) != 1 else found[0], output)
    elif found:
        table.write(found, now_ns, output)
    else:
        where = f" in {namespace} namespace" if namespace and not all_namespaces else ""
        click.echo(printable(why_none or f"No resources found{where}."), err=True)


def _write_objects(found: dict[str, object] | list[dict[str, object]], output: str) -> None:
    document = {"apiVersion": "v1", "kind": "List", "items": found}
    shown = document if isinstance(found, list) else found
    if output == "json":
        write_document(shown, indent=4)
        return
    import yaml

    yaml.safe_dump(shown, sys.stdout, sort_keys=False, allow_unicode=False)


@click.command(epilog="Example: kubeledger state --at +5m --only pods,devices -o json")
@ledger_option
@node_option
@time_option("--at", "Instant", default="Default: the last record.")
@option("--seq N", "State after record N, in place of --at.", type=int)
@option(
    "--only PART,...",
    "Parts to show: kubelet, machine, settings, pods, devices, claims, resources, cpus, "
    "memory, topology, probes, images, pulls, cgroups, preemptions, counts.",
    shell_complete=complete_parts,
)
@output_option("table", "wide", "json")
@reports_errors
def state(
    ledger: Path, node: str | None, at: str | None, seq: int | None, only: str | None, output: str
) -> None:
    """Rebuild the node's state at any instant.

    Pods with their containers, devices by holder, probe workers, images, cgroups and settings, as
    the records up to that instant show them. Tables fit the screen;
    `-o wide` has all columns. With `-o json` the same records give the same bytes.
    """
    from kubeledger.cli.files import warn_of_losses
    from kubeledger.cli.state_tables import write_tables
    from kubeledger.ledger.ledger import Ledger
    from kubeledger.replay import state_at
    from kubeledger.replay.node.state import canonical_json

    parts = _parts(only)
    opened = Ledger.open(ledger)
    ts_ns = instant(at, partial(opened.span, node))
    warn_of_losses(opened, node)
    rebuilt = state_at(opened, node, ts_ns=ts_ns, seq=seq)
    if rebuilt.seq == 0:
        when = f"record {seq}" if at is None else at
        click.echo(
            f"{rebuilt.node} has no record at {when} or before; the state is empty", err=True
        )
    if output == "json":
        sys.stdout.buffer.write(canonical_json(rebuilt, parts))
    else:
        with paged():
            write_tables(rebuilt, parts, screen_width() if output == "table" else None)


def _parts(only: str | None) -> list[str]:
    """Names given with ``--only``, each known; all when it is not given."""
    from kubeledger.replay.node.state import PARTS

    if only is None:
        return list(PARTS)
    names = [name.strip() for name in only.split(",") if name.strip()]
    unknown = [name for name in names if name not in PARTS]
    if unknown or not names:
        asked = ", ".join(unknown) or repr(only)
        raise BadQuestionError(
            f"no such part of the state: {asked}", advice=f"the parts are {', '.join(PARTS)}"
        )
    return names
