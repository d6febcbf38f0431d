"""The command group: names and one-line helps here, the commands in files of their own."""

from __future__ import annotations

import atexit
import gc
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import NoArgsIsHelpError

from kubeledger import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


_NAME_WIDTH = 12
"""Of all sections, so that their columns stand below one another."""


class LazyGroup(click.Group):
    """A group that imports a command only when it is asked for.

    Attributes:
        table: name -> (module:attribute in this package, one-line help), in the order of the help.
        sections: title -> names; all in one where there are none.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 # click's
        table: Mapping[str, tuple[str, str]],
        sections: Mapping[str, Iterable[str]] | None = None,
        **kwargs: Any,  # noqa: ANN401 # click's
    ) -> None:
        super().__init__(*args, **kwargs)
        self.table = table
        self.sections = sections or {"Commands": table}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command; None for an unknown name."""
        entry = self.table.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry[0].partition(":")
        command = getattr(import_module(f"kubeledger.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click; of a name that is no command's, those that it may stand for are named."""
        name = args[0]
        if name not in self.table and name[:1].isalnum():
            from difflib import get_close_matches

            if near := get_close_matches(name, self.table):
                words = f"no such command {name!r}: did you mean {' or '.join(near)}?"
                raise click.UsageError(words, ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of commands, without importing any, and options."""
        from click.shell_completion import CompletionItem

        names = [
            CompletionItem(name, help=text)
            for name, (_, text) in self.table.items()
            if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any."""
        for title, names in self.sections.items():
            with formatter.section(title):
                rows = [(name.ljust(_NAME_WIDTH), self.table[name][1]) for name in names]
                formatter.write_dl(rows)


INTERRUPTED_EXIT_CODE = 130
"""Of Ctrl-C: 128 and the number of the signal."""

CLOSED_PIPE_EXIT_CODE = 141
"""Where the reader of the output has gone: 128 and the number of SIGPIPE."""

GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Take in": {
        "demo": ("cli.demo:demo", "Run the main job end to end on a bundled recording."),
        "import": ("cli.import_:import_", "Take in a node's files and append records."),
        "collect": ("cli.collect:collect", "Gather what a node left, for an import."),
        "record": ("cli.record:record", "Record this node while it runs."),
        "probe": ("cli.probe:probe", "Make a pod's probes as its kubelet makes them."),
        "simulate": ("cli.simulate:simulate", "Run a node that you do not have."),
    },
    "Look": {
        "ls": ("cli.ls:ls", "List records."),
        "show": ("cli.ls:show", "Show one record with its evidence, causes and effects."),
        "state": ("cli.state:state", "Rebuild the node's state at any instant."),
        "get": ("cli.state:get", "Show pods, devices, images or probes, as kubectl would."),
        "timeline": ("cli.timeline:timeline", "Draw what happened as one HTML file."),
        "ui": ("cli.timeline:ui", "Show the timeline in a browser, and ask it questions."),
    },
    "Ask": {
        "why": ("cli.why:why", "Say why: what happened, when, and the lines that prove it."),
        "sql": ("cli.sql:sql", "Ask read-only SQL over the ledger, or run a shipped query."),
        "whatif": ("cli.whatif:whatif", "Decide again under other settings or versions."),
        "verify": ("cli.verify:verify", "Decide recorded decisions again, and compare."),
        "diff": ("cli.diff:diff", "Compare two histories, or a node at two instants."),
        "completeness": (
            "cli.completeness:completeness",
            "Say what evidence there is, and what is missing.",
        ),
        "mcp": ("mcp.command:mcp", "Answer agents, by the Model Context Protocol."),
    },
    "Keep and hand on": {
        "audit": ("cli.audit:audit", "Check hash chain, checkpoints and cgroup values."),
        "export": ("cli.export:export", "Write records for other programs and tests."),
        "index": ("cli.compact:index", "Write records as Parquet, for SQL over long ledgers."),
        "compact": ("cli.compact:compact", "Seal and compress what is still open."),
        "ship": ("cli.record:ship", "Store sealed segments elsewhere, as they are sealed."),
        "restore": ("cli.record:restore", "Make a ledger of what was shipped."),
    },
    "Fleet": {"fleet": ("cli.fleet:fleet", "Take in, verify and ask many nodes at once.")},
    "Against the real kubelet": {
        "decide": ("cli.decide:decide", "Decide cases as the real kubelet decides."),
        "judge": ("cli.decide:judge", "Judge claimed outcomes: is each a kubelet's?"),
    },
}
"""section of the help -> name -> (module:attribute in this package, one-line help)."""

COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}


_COLLECT_AFTER = 200_000
"""New objects, after which reference cycles are looked for: commands make many, and few cycles."""

_MAY_ABANDON = ("kubeledger.analyze.sql.api", "kubeledger.record.shipping")


class ClosedPipeError(Exception):
    """Nobody reads what a command writes; click would end with 1, a finding's code."""


@contextmanager
def _closed_pipes() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise ClosedPipeError from None


class _Commands(LazyGroup):
    """All commands; what they write may go into a closed pipe."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:  # noqa: ANN401 # click's
        """As click; its help may go into a closed pipe."""
        from kubeledger.cli.screen import color_wanted

        with _closed_pipes():
            return super().make_context(*args, color=color_wanted(), **kwargs)

    def invoke(self, ctx: click.Context) -> object:
        """As click; what a command writes may go into a closed pipe."""
        with _closed_pipes():
            return super().invoke(ctx)


_EPILOG = """\b
Example: kubeledger import /path/to/node && kubeledger sql --run preemptions

\b
Completion of commands, pods, kinds and queries, in this shell:
  bash  eval "$(_KUBELEDGER_COMPLETE=bash_source kubeledger)"
  zsh   eval "$(_KUBELEDGER_COMPLETE=zsh_source kubeledger)"
  fish  _KUBELEDGER_COMPLETE=fish_source kubeledger | source
"""


@click.group(
    cls=_Commands,
    table=COMMANDS,
    sections=GROUPS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_EPILOG,
)
@click.version_option(__version__, prog_name="kubeledger")
def cli() -> None:
    """Flight recorder, replay engine and SQL forensics lab for the kubelet's decisions."""


def run(name: str = "kubeledger") -> None:
    """Entry point of the ``kubeledger`` script, and of others that call it by another name.

    A closed pipe ends it quietly with 141 and an interrupt with 130, as shells have it: neither
    is a finding, nor means that nothing was found.
    """
    for stream in ("stdout", "stderr"):
        if getattr(sys, stream) is None:  # closed by the caller: what is written goes nowhere
            setattr(sys, stream, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 # for good
    gc.set_threshold(_COLLECT_AFTER, *gc.get_threshold()[1:])
    codes = [0]
    atexit.register(_leave, codes)  # the first one that is registered is called last
    codes[0] = _run(name)
    sys.exit(codes[0])


def _run(name: str) -> int:
    try:
        code = _ended(name)
        sys.stdout.flush()
    except (ClosedPipeError, BrokenPipeError):
        _drop_output()
        return CLOSED_PIPE_EXIT_CODE
    except OSError as error:
        # Only the flush raises others: commands report theirs.
        _drop_output()
        reason = (error.strerror or str(error)).lower()
        click.echo(f"error: output cannot be written: {reason}", err=True)
        return click.UsageError.exit_code
    return code


def _ended(name: str) -> int:
    """How the command ends."""
    try:
        ended = cli.main(prog_name=name, standalone_mode=False)
    except click.ClickException as error:
        _show(error)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED_EXIT_CODE
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return ended if isinstance(ended, int) else 0


def _show(error: click.ClickException) -> None:
    """As errors of kubeledger are shown, and not as click has it."""
    from kubeledger.cli.output import printable
    from kubeledger.cli.screen import color_wanted

    if isinstance(error, NoArgsIsHelpError):
        error.show()  # the whole help
        return
    context = error.ctx if isinstance(error, click.UsageError) else None
    message = error.format_message().removesuffix(".")
    click.secho("error: ", err=True, fg="red", bold=True, nl=False, color=color_wanted())
    click.echo(printable(f"{message[:1].lower()}{message[1:]}"), err=True)
    if context is not None:
        hint = _placed(error, context) or f"{context.command_path} --help"
        click.echo(printable(f"hint: {hint}"), err=True)


def _placed(error: click.ClickException, context: click.Context) -> str:
    """How to write an option that was given before its command; empty for any other error."""
    if not isinstance(error, click.NoSuchOption) or context.command is not cli:
        return ""
    words = sys.argv[1:]
    for place, word in enumerate(words):
        command = cli.get_command(context, word)
        if command is None:
            continue
        options = {name: param for param in command.params for name in param.opts}
        last = options.get(words[place - 1]) if place else None
        if isinstance(last, click.Option) and not last.is_flag:
            continue  # a value that is written like a command
        if error.option_name in options:
            again = ["kubeledger", word, *words[place + 1 :], *words[:place]]
            return f"options follow the command: {shlex.join(again)}"
        return ""
    return ""


def _drop_output() -> None:
    """Discard what is still to be written, or Python reports it when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError, ValueError):  # no file of the system
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _leave(codes: list[int]) -> None:
    """End at once where a query or a call to storage continues that hears no interrupt."""
    modules = [sys.modules.get(name) for name in _MAY_ABANDON]
    if any(module is not None and module.abandoned() for module in modules):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(codes[0])
