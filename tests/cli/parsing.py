"""Command lines of docs and manifests, parsed as the command line does."""

import click

from kubeledger.cli.main import cli


def parse(arguments: list[str]) -> None:
    command: click.Command = cli
    context: click.Context | None = None
    while isinstance(command, click.Group):
        context = click.Context(command, parent=context, info_name=command.name)
        found = command.get_command(context, arguments[0])
        assert found is not None, arguments
        command, arguments = found, arguments[1:]
    command.make_context(command.name, arguments, parent=context)
