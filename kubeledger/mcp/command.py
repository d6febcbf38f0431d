"""``kubeledger mcp``: answers for agents, over standard input and output."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path

import click
from click.core import ParameterSource

from kubeledger.cli.fleet_options import known_lake_option
from kubeledger.cli.options import ledger_option, reports_errors, timeout_option
from kubeledger.model.errors import BadQuestionError


@click.command(epilog="Example: kubeledger mcp --ledger /var/tmp/node-a")
@ledger_option
@known_lake_option
@click.option(
    "--redact/--no-redact",
    default=True,
    show_default=True,
    help="Show pseudonyms for names, IDs and addresses, and of log lines only kubelet words.",
)
@click.option(
    "--redact-key",
    envvar="KUBELEDGER_REDACT_KEY",
    metavar="SECRET",
    help="Same secret, same pseudonyms (better as $KUBELEDGER_REDACT_KEY). Default: a random one.",
)
@timeout_option
@click.option(
    "--memory", default="1GB", show_default=True, metavar="SIZE", help="Memory of a query."
)
@reports_errors
def mcp(
    ledger: Path,
    lake: str | None,
    redact: bool,
    redact_key: str | None,
    timeout_s: float,
    memory: str,
) -> None:
    """Answer agents by the Model Context Protocol, over standard input and output.

    Five tools, all of them read-only: overview, why, sql, state, whatif. Answers are typed, name
    the records that prove them, and take about 2,000 tokens unless the agent asks for more. What
    they show are pseudonyms: --no-redact shows names and log lines as they are. A client starts
    it; docs/python.md has its configuration.
    """
    from kubeledger.analyze.redaction import key_of_passphrase
    from kubeledger.analyze.sql.api import connect
    from kubeledger.cli.service import size_of_memory
    from kubeledger.fleet.sealed import scratch_directory

    try:
        from kubeledger.mcp.server import server_of
    except ModuleNotFoundError as error:
        raise BadQuestionError(
            f"this needs the package {error.name}", advice="install it: pip install 'mcp>=2,<3'"
        ) from None
    from secrets import token_bytes

    from kubeledger.mcp.sources import LakeSource, LedgerSource, Source
    from kubeledger.mcp.tools import Tools

    is_given = partial(_is_given, click.get_current_context())
    memory_bytes = size_of_memory(memory)
    opened = partial(connect, timeout_s=timeout_s, memory_limit=memory)
    key = None
    if redact:
        key = key_of_passphrase(redact_key) if redact_key else token_bytes(32)
    with ExitStack() as stack:
        source: Source
        if lake is None or is_given("ledger"):
            source = LedgerSource(ledger, key, opened, stack)
        else:
            scratch = stack.enter_context(scratch_directory(None))
            source = LakeSource(lake, key, opened, scratch, stack)
        server_of(Tools(source, memory_bytes), is_redacted=redact).run("stdio")


def _is_given(context: click.Context, option: str) -> bool:
    """Whether the command line itself has the option."""
    return context.get_parameter_source(option) is ParameterSource.COMMANDLINE
