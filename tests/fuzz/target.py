"""What a target of the fuzzer is, and what every input must leave as it was."""

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from kubeledger.ingest.klog.account import Account
from kubeledger.model.errors import KubeledgerError
from tests.fuzz.mutators import Mutator


class InvariantError(AssertionError):
    """Something that must always hold did not."""


class Target(msgspec.Struct, frozen=True):
    """One reader of foreign bytes.

    Attributes:
        name: as it stands on the command line.
        seeds: inputs to begin with; read when the target is used.
        mutate: changes one input.
        run: reads it; returns normally or raises a ``KubeledgerError``, nothing else.
        share: how often it is drawn in a run over all targets, against the others.
    """

    name: str
    seeds: Callable[[], Sequence[bytes]]
    mutate: Mutator
    run: Callable[[bytes], object]
    share: int = 1

    def attempt(self, data: bytes) -> str:
        """Read one input; how it ended.

        Raises:
            BaseException: what no input may lead to.
        """
        try:
            self.run(data)
        except KubeledgerError as error:
            holds(bool(error.message), "an error without a message")
            # It may quote what a user wrote, and no more than that.
            fits = len(str(error)) < 20_000 + 10 * len(data)
            holds(fits, "an error message of any length")
            return "refused"
        return "read"


def holds(condition: bool, what: str) -> None:
    """Raise unless it holds.

    Raises:
        InvariantError: it does not.
    """
    if not condition:
        raise InvariantError(what)


def account_holds(account: Account) -> None:
    total = account.understood + account.noise + account.not_understood
    what = (
        f"{account.lines} lines, but {account.understood} understood, {account.noise} noise and "
        f"{account.not_understood} not understood"
    )
    holds(account.lines == total and min(account.understood, account.noise) >= 0, what)


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A directory for one input, in memory where there is such a place."""
    memory = Path("/dev/shm")
    usable = memory.is_dir() and os.access(memory, os.W_OK)
    return tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory if usable else None)


def contents(directory: Path) -> dict[str, bytes]:
    """All regular files below a directory."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
