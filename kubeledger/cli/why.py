"""``kubeledger why``: a headline, dated steps, then their numbered evidence."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path

import click

from kubeledger.cli.complete import complete_targets
from kubeledger.cli.options import (
    instant,
    ledger_option,
    node_option,
    output_option,
    reports_errors,
    time_option,
)
from kubeledger.cli.output import write_document
from kubeledger.cli.screen import paged


@click.command(epilog="Example: kubeledger why web-0")
@click.argument("target", shell_complete=complete_targets)
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@ledger_option
@node_option
@time_option("--at", "As of then", default="Default: the end.")
@click.option("--full", is_flag=True, help="All steps, reasons, evidence and decisions.")
@output_option("table", "json")
@reports_errors
def why(
    target: str,
    sources: tuple[str, ...],
    ledger: Path,
    node: str | None,
    at: str | None,
    full: bool,
    output: str,
) -> None:
    """Say why something is as it is: what happened, when, and the lines that prove it.

    TARGET is a pod's name, POD/CONTAINER, NAMESPACE/POD, a pod's UID, a container ID, an image's
    name or ID, a device, a cgroup path, or `node`; IDs may be cut to six digits. In full it is
    pod/NS/NAME, container/NS/POD/C, image/ID, device/RESOURCE/ID, cgroup/PATH or node/NAME.

    The answer is about the last pod of that name; give a UID for an earlier one. It fits a
    screen; --full prints all reasons, evidence and decisions.
    """
    from kubeledger.analyze.histories.history import span_of_histories
    from kubeledger.analyze.why import answers_to
    from kubeledger.cli.sources import ledger_for
    from kubeledger.cli.verify import histories_for
    from kubeledger.cli.why_output import full_text, screen_size, short_text

    with ExitStack() as stack:
        is_of_node = target.partition("/")[0] == "node"
        if is_of_node and sources:  # SQL counts what happened
            ledger, sources = stack.enter_context(ledger_for(sources, ledger)), ()
        histories = stack.enter_context(histories_for(sources, ledger, node))
        upto_ts_ns = instant(at, partial(span_of_histories, histories))
        found = answers_to(target, histories, upto_ts_ns=upto_ts_ns)
        if is_of_node and at is None:
            from kubeledger.analyze.headlines import besides_on
            from kubeledger.analyze.sql.api import connect
            from kubeledger.analyze.why import with_besides

            with connect(ledger, is_fixed=True, is_held=True) as queryable:
                besides = partial(
                    besides_on, lambda text, given: queryable.sql(text, given).dicts()
                )
                found = [with_besides(each, *besides(each.node)) for each in found]
    if output == "json":
        write_document(found[0] if len(histories) == 1 else found)
        return
    width, height = screen_size()
    with paged(wanted=full):
        for number, answer in enumerate(found):
            text = full_text(answer) if full else short_text(answer, width, height)
            click.echo(("\n" if number else "") + "\n".join(text))
