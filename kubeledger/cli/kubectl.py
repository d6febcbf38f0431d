"""``kubectl kubeledger``: the commands as a plugin of kubectl, with kubectl's own words.

``kubectl kubeledger why pod/web -n prod`` asks a ledger or a bundle that is named; where none is,
the pod's node is asked through the API server, as ``collect --via raw`` does, and what it gives is
imported for this one answer.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import msgspec
from click.core import ParameterSource

from kubeledger.model.errors import BadInputError, BadQuestionError, KubeledgerError

_KINDS = {
    alias: kind
    for kind, aliases in {"pod": ("pod", "pods", "po"), "node": ("node", "nodes", "no")}.items()
    for alias in aliases
}
_LIVE = frozenset(
    {"completeness", "get", "ls", "sql", "state", "timeline", "verify", "whatif", "why"}
)
"""Commands that answer about a ledger, and can do so about one that is made for them."""

_OPTIONS = {"-n": "namespace", "--namespace": "namespace", "--context": "context"}
_TIMEOUT_S = 60


class Asked(msgspec.Struct, frozen=True):
    """A command line without kubectl's own options.

    Attributes:
        words: for ``kubeledger``.
        namespace, context: as kubectl takes them; empty: not given.
    """

    words: tuple[str, ...]
    namespace: str = ""
    context: str = ""

    @property
    def command(self) -> str:
        """The command's name; empty for none."""
        return self.words[0] if self.words else ""


def run() -> None:
    """Entry point of ``kubectl-kubeledger``."""
    from kubeledger.cli.main import run as run_command

    with ExitStack() as stack:
        try:
            asked = asked_of(sys.argv[1:])
            words = list(asked.words)
            if asked.command in _LIVE and not _is_sourced(words):
                ledger = stack.enter_context(live_ledger(_node_of(asked), asked.context))
                words += ["--ledger", str(ledger)]
        except KubeledgerError as error:
            click.echo(f"error: {error.message}", err=True)
            if error.advice:
                click.echo(f"hint: {error.advice}", err=True)
            sys.exit(error.exit_code)
        sys.argv = ["kubectl kubeledger", *words]
        run_command("kubectl kubeledger")


def asked_of(args: Sequence[str]) -> Asked:
    """What a command line asks for: ``why pod/web -n prod`` is ``why pod/prod/web``.

    Raises:
        BadQuestionError: an option of kubectl's without its value.
    """
    words: list[str] = []
    given: dict[str, str] = {}
    rest = iter(args)
    for word in rest:
        option, equals, value = word.partition("=")
        if word == "--":
            words += [word, *rest]
        elif option not in _OPTIONS:
            words.append(word)
        elif equals or (value := next(rest, "")):
            given[_OPTIONS[option]] = value
        else:
            raise BadQuestionError(f"{option} has no value", advice=f"write {option} NAME")
    asked = Asked(tuple(words), **given)
    if asked.command == "why":
        return msgspec.structs.replace(asked, words=tuple(_why(words, asked.namespace)))
    if asked.command == "get" and asked.namespace:
        return msgspec.structs.replace(asked, words=(*words, "--namespace", asked.namespace))
    return asked


def _why(words: Sequence[str], namespace: str) -> list[str]:
    """``pod web``, ``po/web`` and ``web`` as ``why`` has them, with the namespace."""
    if len(words) < 2 or words[1].startswith("-"):
        return list(words)
    target, rest = words[1], list(words[2:])
    if target in _KINDS and rest and not rest[0].startswith("-") and not _is_source(*words[1:3]):
        target = f"{target}/{rest.pop(0)}"
    kind, slash, name = target.partition("/")
    if slash and kind in _KINDS:
        is_short = _KINDS[kind] == "pod" and "/" not in name
        where = f"{namespace}/" if namespace and is_short else ""
        target = name if is_short and not where else f"{_KINDS[kind]}/{where}{name}"
    elif namespace and not slash and target != "node":
        target = f"{namespace}/{target}"
    return [words[0], target, *rest]


def _is_source(target: str, word: str) -> bool:
    """``why node BUNDLE`` asks about a bundle: no node's name has a slash, or is a file here."""
    return target == "node" and ("/" in word or Path(word).exists())


def _is_sourced(words: Sequence[str]) -> bool:
    """Whether a command line names a ledger or files, or is not one that can be run."""
    from kubeledger.cli.main import cli

    if os.environ.get("KUBELEDGER"):
        return True
    command = cli.get_command(click.Context(cli), words[0])
    assert command is not None
    try:
        context = command.make_context(words[0], list(words[1:]), resilient_parsing=True)
    except (click.ClickException, click.exceptions.Exit):
        return True
    if {"-h", "--help"} & {*words}:
        return True
    ledger = context.get_parameter_source("ledger")
    return bool(context.params.get("sources")) or ledger is ParameterSource.COMMANDLINE


def _node_of(asked: Asked) -> str:
    """The node that a question is about."""
    words = asked.words
    for option, value in zip(words, (*words[1:], ""), strict=True):
        if option == "--node" and value:
            return value
        if option.startswith("--node="):
            return option.removeprefix("--node=")
    target = words[1] if asked.command == "why" and len(words) > 1 else ""
    kind, _, name = target.partition("/")
    if kind == "node" and name:
        return name
    if not target or target == "node":
        raise BadQuestionError(
            "which node?", advice="name it with --node NAME, or a ledger with --ledger DIR"
        )
    *inside, pod = target.removeprefix("pod/").split("/")
    namespace = ["--namespace", inside[0]] if inside else []
    path = "jsonpath={.spec.nodeName}"
    found = _kubectl("get", "pod", pod, *namespace, "-o", path, context=asked.context)
    if not found:
        raise BadInputError(f"pod {pod} is on no node yet", advice="the scheduler decides first")
    return found


def _kubectl(*args: str, context: str) -> str:
    """What kubectl prints."""
    command = ["kubectl", *(("--context", context) if context else ()), *args]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
    except FileNotFoundError:
        raise BadInputError(
            "kubectl is not installed on this machine", advice="name a ledger with --ledger DIR"
        ) from None
    except subprocess.TimeoutExpired:
        raise BadInputError(f"no answer within {_TIMEOUT_S} s: {shlex.join(command)}") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        raise BadInputError(said[-1], advice=f"it was asked by {shlex.join(command)}")
    return done.stdout.strip()


@contextmanager
def live_ledger(node: str, context: str = "") -> Iterator[Path]:
    """A ledger of what the API server and the node's kubelet tell now; thrown away at the end.

    Raises:
        KubeledgerError: nothing can be had, or it cannot be imported.
    """
    from kubeledger.ingest.api import import_sources
    from kubeledger.ledger.ledger import Ledger
    from kubeledger.record.collecting import Request, collect_into

    click.echo(f"asking node {node} through the API server", err=True)
    with TemporaryDirectory(prefix="kubeledger-") as scratch:
        archive = Path(scratch) / f"{node}.tar.gz"
        with archive.open("wb") as file:
            collect_into(Request(node, "raw", context=context), file)
        ledger = Path(scratch) / "ledger"
        import_sources([str(archive)], Ledger.create(ledger), keep=False)
        yield ledger


def complete() -> None:
    """Entry point of ``kubectl_complete-kubeledger``: kubectl asks it, and reads lines."""
    from click.shell_completion import ShellComplete

    from kubeledger.cli.main import cli

    words = sys.argv[1:]
    found = ShellComplete(cli, {}, "kubectl kubeledger", "").get_completions(
        words[:-1], words[-1] if words else ""
    )
    for each in found:
        click.echo(f"{each.value}\t{each.help}" if each.help else each.value)
    click.echo(":4")  # no names of files besides
