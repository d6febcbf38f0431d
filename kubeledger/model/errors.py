"""Errors of kubeledger, by whose fault they are.

The command line prints ``message`` and ``advice`` and exits with ``exit_code``
(docs: the exit codes of the public contract). Errors of a kubelet algorithm are
no exceptions that leave a decider: they become decisions.
"""

from __future__ import annotations

from typing import ClassVar


class KubeledgerError(Exception):
    """Root of all errors that reach a user.

    Attributes:
        message: what is wrong, in one sentence.
        advice: what the user can do about it; empty when there is nothing.
        file: path of the file at fault, if any.
        line: 1-based line in ``file``, if known.
        offset: byte offset in ``file``, if known.
    """

    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        message: str,
        *,
        advice: str = "",
        file: str | None = None,
        line: int | None = None,
        offset: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice
        self.file = file
        self.line = line
        self.offset = offset

    @property
    def place(self) -> str:
        """Where the fault is: ``file:line``, ``file@offset`` or the empty string."""
        if self.file is None:
            return ""
        if self.line is not None:
            return f"{self.file}:{self.line}"
        if self.offset is not None:
            return f"{self.file}@{self.offset}"
        return self.file

    def __str__(self) -> str:
        """Place, message and advice in one line."""
        text = f"{self.place}: {self.message}" if self.place else self.message
        return f"{text} ({self.advice})" if self.advice else text


class BadQuestionError(KubeledgerError):
    """The command was asked something that makes no sense (usage)."""

    exit_code = 2


class RecordsDroppedError(BadQuestionError):
    """What was asked for was dropped by a policy; what dropped it is named."""


class OutputError(KubeledgerError):
    """What was to be written cannot be, where the user wants it: no ledger is at fault."""

    exit_code = 2


class BadInputError(KubeledgerError):
    """A file given by the user cannot be used; nothing of it was half-written."""

    exit_code = 3


class DamagedLedgerError(KubeledgerError):
    """The ledger itself is damaged or of a version this program does not know."""

    exit_code = 4


class LedgerBusyError(KubeledgerError):
    """Another process holds the writer lock of the ledger."""

    exit_code = 4


class LedgerUnavailableError(KubeledgerError):
    """The ledger cannot be written or read now (disk full, read-only, no permission).

    What was acknowledged before is intact.
    """

    exit_code = 4


def reason_of(error: Exception) -> str:
    """What the operating system says was wrong, else what the error itself says."""
    return getattr(error, "strerror", None) or str(error)
