"""Write the man pages: ``python -m tests.release.man DIRECTORY``."""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import click
from click_man.core import write_man_pages

from kubeledger import __version__
from kubeledger.cli.main import cli


def loaded(command: click.Command) -> click.Command:
    """A command whose own commands are all imported, for who lists them without asking."""
    if not isinstance(command, click.Group):
        return command
    context = click.Context(command)
    for name in command.list_commands(context):
        own = command.get_command(context, name)
        assert own is not None
        command.add_command(loaded(own), name)
    return command


def write(directory: Path) -> None:
    """A page for each command, dated by ``SOURCE_DATE_EPOCH``."""
    directory.mkdir(parents=True, exist_ok=True)
    date = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), UTC)
    write_man_pages(
        "kubeledger",
        loaded(cli),
        version=__version__,
        target_dir=str(directory),
        date=f"{date:%Y-%m-%d}",
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]))
