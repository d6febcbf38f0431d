"""From an error to a row of the view ``failures``: whose fault it is, and what to do."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal

import duckdb

from kubeledger.fleet.lake import MovedOnError
from kubeledger.fleet.rules import rules_version
from kubeledger.fleet.types import Failure, NodeSpec
from kubeledger.model.errors import KubeledgerError, LedgerUnavailableError
from kubeledger.remote.store import StorageError

Kind = Literal["input", "storage", "resources", "bug"]

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
_REASON_MAX = 500
_PLACE_MAX = 200

_ADVICE: dict[Kind, str] = {
    "resources": "give the workers more disk (below TMPDIR) or memory, or run fewer at once",
    "storage": "what was committed is intact: import again when storage is well",
    "bug": "report it, with the version and what kind of source it is",
}
_OURS = ("resources", "bug")
"""An error's own advice is for the import of one source into one ledger."""


class OtherRulesError(KubeledgerError):
    """The worker is of another version than the run."""

    exit_code: ClassVar[int] = 2


def refuse_other_rules(rules: str) -> None:
    """A worker gives no answer under other rules than those of the run.

    Raises:
        OtherRulesError: it has others.
    """
    if rules != rules_version():
        raise OtherRulesError(
            f"a worker has another kubeledger ({rules_version()}) than this run ({rules})",
            advice="install the same one on all workers, or let them use the same image",
        )


def failure_of(spec: NodeSpec, error: Exception) -> Failure:
    """What to report of a task that failed, in one sentence, without places on the worker."""
    kind = _kind(error)
    advice = error.advice if isinstance(error, KubeledgerError) else ""
    return Failure(
        source=spec.subject,
        kind=kind,
        reason=" ".join(_words(error).split())[:_REASON_MAX],
        advice=_ADVICE[kind] if kind in _OURS else advice or _ADVICE.get(kind, ""),
        ts_ns=spec.started_ns,
    )


def _kind(error: Exception) -> Kind:
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.errno in _NO_ROOM:
            return "resources"
        if isinstance(cause, MemoryError | duckdb.OutOfMemoryException):
            return "resources"
    if isinstance(error, StorageError | MovedOnError):
        return "storage"
    if isinstance(error, OtherRulesError | LedgerUnavailableError | OSError | duckdb.IOException):
        return "resources"
    return "input" if isinstance(error, KubeledgerError) else "bug"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and those that it was raised for, also where they are not to be printed."""
    at: BaseException | None = error
    while at is not None:
        yield at
        at = at.__cause__ or at.__context__


def _words(error: Exception) -> str:
    if isinstance(error, KubeledgerError):
        place = error.place
        if len(place) > _PLACE_MAX:  # a long path is not to push out what is wrong with it
            place = f"{place[: _PLACE_MAX // 2]}…{place[-_PLACE_MAX // 2 :]}"
        return f"{place}: {error.message}" if place else error.message
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"
