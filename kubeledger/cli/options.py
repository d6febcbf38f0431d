"""What commands share: options, TIME, and how an error reaches the user.

    @click.command
    @ledger_option
    @node_option
    @output_option("table", "json")
    @reports_errors
    def state(ledger: Path, node: str | None, output: str) -> None: ...

``reports_errors`` stands anywhere below ``click.command``; it adds ``--debug`` and keeps it
from the function.
"""

from __future__ import annotations

import errno
import functools
import math
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from kubeledger.analyze.clock import TIME_HELP, Span, parse_time
from kubeledger.cli.complete import complete_kinds, complete_nodes, complete_pods
from kubeledger.cli.output import printable
from kubeledger.model.errors import BadQuestionError, KubeledgerError, OutputError, reason_of
from kubeledger.model.patterns import regex

BUG_EXIT_CODE = 70
"""Exit code of an error that is ours (EX_SOFTWARE of sysexits)."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
DEFAULT_LEDGER = ".kubeledger"

_PARAMETER = regex(r"[a-z_]+")

_F = TypeVar("_F", bound=Callable[..., Any])


def option(words: str, help_: str, **more: Any) -> Callable[[_F], _F]:  # noqa: ANN401 # click's
    """An option as its help shows it: its names, the parameter if that is another, its METAVAR.

    One with neither METAVAR nor type is a flag; a default is shown.
    """
    names = [word for word in words.split() if word.startswith("-") or _PARAMETER.fullmatch(word)]
    shown = [word for word in words.split() if word not in names]
    if shown:
        more["metavar"] = shown[0]
    elif not more.keys() & {"type", "default"}:
        more["is_flag"] = True
    if "default" in more:
        more.setdefault("show_default", True)
    return click.option(*names, help=help_, **more)


class Seconds(click.FloatRange):
    """A number of seconds: one that ends, and no ``nan``."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 - as in the base
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """As ``click.FloatRange``, but for what is not a number."""
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        return found


ledger_option = option(
    "--ledger DIR",
    "Directory of the ledger.",
    envvar="KUBELEDGER",
    default=DEFAULT_LEDGER,
    show_default=f"$KUBELEDGER, else ./{DEFAULT_LEDGER}",
    type=click.Path(path_type=Path, readable=False),
)
"""``--ledger DIR``, passed as ``ledger: Path``; it need not exist."""

node_option = option(
    "--node NAME", "Node to look at, where the ledger holds several.", shell_complete=complete_nodes
)
"""``--node NAME``, passed as ``node: str | None``."""

pod_option = option(
    "--pod POD", "NAMESPACE/NAME, NAME or UID of a pod.", shell_complete=complete_pods
)
"""``--pod POD``, passed as ``pod: str | None``."""

kinds_option = option(
    "--kind kinds GLOB",
    "Kind of record, e.g. 'images.*' or 'Pod*'. May be given several times.",
    multiple=True,
    shell_complete=complete_kinds,
)
"""``--kind GLOB``, passed as ``kinds: tuple[str, ...]``."""

output_file = click.Path(path_type=Path, readable=False, dir_okay=False, allow_dash=True)
"""A file to be written, or ``-``."""

timeout_option = option(
    "--timeout timeout_s SECONDS",
    "Longest time a query may take.",
    type=Seconds(min=0, min_open=True),
    default=60.0,
)
"""``--timeout SECONDS``, passed as ``timeout_s: float``."""

memory_option = option(
    "--memory SIZE", "Memory for data and query, e.g. 2GB; the rest goes to a temporary directory."
)
"""``--memory SIZE``, passed as ``memory: str | None``."""


class _Renamed(click.Option):
    """An option whose further names are former ones, which its help leaves out."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """As click, of the first name."""
        names, self.opts = self.opts, self.opts[:1]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = names


def kubelet_options(function: _F) -> _F:
    """How a kubelet is asked, passed as ``kubelet``, ``token``, ``ca`` and ``insecure``."""
    file = click.Path(path_type=Path)
    url = "Ask the kubelet, e.g. https://127.0.0.1:10250."
    for each in (
        option("--insecure", "Do not check the kubelet's certificate."),
        click.option(
            *("--ca", "--ca-file", "ca"),
            cls=_Renamed,
            type=file,
            metavar="FILE",
            help="Authority of the kubelet's certificate.",
        ),
        click.option(
            *("--token", "--token-file", "token"),
            cls=_Renamed,
            type=file,
            metavar="FILE",
            help="Token for the kubelet, read each time.",
        ),
        option("--kubelet URL", url),
    ):
        function = each(function)
    return function


def options_as(
    name: str, kind: type[tuple[Any, ...]], options: Sequence[Callable[[Any], Any]]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Options whose values are passed as one ``NamedTuple``, whose fields have their names."""

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def wrapper(**values: Any) -> None:  # noqa: ANN401 - click's values
            fields: tuple[str, ...] = kind._fields  # type: ignore[attr-defined] # NamedTuple's
            given = kind(**{field: values.pop(field) for field in fields})
            function(**{name: given}, **values)

        command: Callable[..., None] = wrapper
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


class Redact(NamedTuple):
    """What ``--redact`` and ``--redact-key`` ask for.

    Attributes:
        redact: show pseudonyms for names.
        redact_key: the user's secret, if any.
    """

    redact: bool
    redact_key: str | None

    @property
    def key(self) -> bytes | None:
        """The key of the user's secret, or one that nobody will ever know; None: as it is.

        Raises:
            BadQuestionError: a secret without ``--redact``.
        """
        import secrets

        from kubeledger.analyze.redaction import key_of_passphrase

        source = click.get_current_context().get_parameter_source("redact_key")
        if not self.redact and source is ParameterSource.COMMANDLINE:
            raise BadQuestionError(
                "--redact-key is given without --redact", advice="give --redact, too"
            )
        if not self.redact:
            return None
        return key_of_passphrase(self.redact_key) if self.redact_key else secrets.token_bytes(32)


redact_options = options_as(
    "redact",
    Redact,
    [
        option(
            "--redact",
            "Replace names, IDs and addresses with pseudonyms; drop most words of log lines.",
        ),
        option(
            "--redact-key SECRET",
            "Same secret, same pseudonyms (better as $KUBELEDGER_REDACT_KEY). "
            "Default: a random one.",
            envvar="KUBELEDGER_REDACT_KEY",
        ),
    ],
)
"""``--redact`` and ``--redact-key``, passed as ``redact: Redact``."""


def output_option(*formats: str) -> Callable[[_F], _F]:
    """``-o FORMAT``, passed as ``output: str``; the first of ``formats`` is the default."""
    return option(
        "-o --output", "Form of the output.", type=click.Choice(formats), default=formats[0]
    )


def time_option(name: str, help_: str, *, default: str = "") -> Callable[[_F], _F]:
    """An option that takes a TIME, passed as text; for :func:`instant`."""
    after = f" {default}" if default else ""
    return click.option(*name.split(), metavar="TIME", help=f"{help_}: {TIME_HELP}.{after}")


def instant(text: str | None, span: Span) -> int | None:
    """The time that an option says, ns; None where it is not given.

    Raises:
        BadQuestionError: as ``parse_time``.
    """
    return None if text is None else parse_time(text, span)


def reports_errors(function: _F) -> _F:
    """Turn an error of a command into one or two lines on stderr and an exit code.

    A :class:`KubeledgerError` prints ``error: place: message`` and ``hint: advice`` and exits
    with its own code. Anything else that is not click's is a bug of ours: one line, exit code
    70; its traceback with ``--debug``.
    """

    @option("--debug", "Show the traceback of an error.")
    @functools.wraps(function)
    def wrapper(*args: object, debug: bool, **kwargs: object) -> object:
        try:
            return function(*args, **kwargs)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except KubeledgerError as error:
            _show(error, debug=debug)
            sys.exit(error.exit_code)
        except Exception as error:
            if type(error) is RuntimeError and str(error) == "Query interrupted":  # by Ctrl-C
                raise KeyboardInterrupt from None
            if _is_full(error):
                _show(_no_room(error), debug=debug)
                sys.exit(OutputError.exit_code)
            if debug:
                traceback.print_exc()
            else:
                hint = "(run with --debug for the traceback)"
                click.echo(printable(f"bug in kubeledger: {_one_line(error)} {hint}"), err=True)
            sys.exit(BUG_EXIT_CODE)

    # The wrapper takes what the function takes, and --debug, which click passes by name.
    return wrapper  # type: ignore[return-value] # see above


def _is_full(error: Exception) -> bool:
    """No room below standard output, or for what is kept aside meanwhile."""
    return isinstance(error, OSError) and error.errno in _FULL


def _no_room(error: Exception) -> OutputError:
    reason = reason_of(error)
    return OutputError(
        f"output cannot be written: {reason.lower()}",
        advice="free some space for the output, and for temporary files ($TMPDIR)",
    )


def _show(error: KubeledgerError, *, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    place = f"{error.place}: " if error.place else ""
    click.secho("error: ", err=True, fg="red", bold=True, nl=False)
    click.echo(printable(f"{place}{error.message}"), err=True)
    if error.advice:
        click.echo(printable(f"hint: {error.advice}"), err=True)


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
