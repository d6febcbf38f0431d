"""What the commands of what-if share: which variants are asked for, and files of configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kubeledger.model.errors import BadQuestionError

if TYPE_CHECKING:
    from kubeledger.analyze.whatif.configs import ConfigFile

__all__ = ["read_configs", "variant_options"]

_F = TypeVar("_F", bound=Callable[..., Any])


def variant_options(function: _F) -> _F:
    """``--set --kubelet-version --config``: tuples ``settings``, ``versions`` and ``configs``."""
    for option in reversed(
        (
            click.option(
                "--set",
                "settings",
                multiple=True,
                metavar="KEY=VALUE",
                help="A KubeletConfiguration field, or what a pod asks for (pod/POD/CONTAINER."
                "livenessProbe.failureThreshold=5); KEY=A|B makes two variants. May be repeated.",
            ),
            click.option(
                "--kubelet-version",
                "versions",
                multiple=True,
                metavar="VERSION",
                help="Decide by the rules of this kubelet; several make several variants.",
            ),
            click.option(
                "--config",
                "configs",
                multiple=True,
                metavar="FILE",
                help="A KubeletConfiguration in place of the node's, or - for standard input; "
                "several make several variants.",
            ),
        )
    ):
        function = option(function)
    return function


def read_configs(names: Sequence[str]) -> list[ConfigFile]:
    """The configurations in files, or on standard input (``-``).

    Raises:
        BadInputError: one cannot be read, or is none.
        BadQuestionError: standard input is named twice.
    """
    from kubeledger.analyze.whatif.configs import config_of
    from kubeledger.cli.files import STANDARD_INPUT, is_standard, read_input
    from kubeledger.ingest.sources.streams import DOCUMENT_MAX

    if sum(map(is_standard, names)) > 1:
        raise BadQuestionError(f"{STANDARD_INPUT} can be read once, and is named twice")
    return [
        config_of(STANDARD_INPUT if is_standard(name) else name, read_input(name, DOCUMENT_MAX))
        for name in names
    ]
