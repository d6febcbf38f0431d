"""Which configuration files of a bundle a kubelet process can have read."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubeledger.ingest.correlate.settings import SettingsSources, Statement, effective_settings
from kubeledger.replay.node.snapshot_time import time_in_name

__all__ = ["agrees", "fits", "fitting_files"]


def fitting_files(
    files: Sequence[Statement], logged: SettingsSources, begun_ns: int, *, is_only: bool
) -> list[Statement]:
    """The files that a process can have read, in their order.

    Args:
        files: configuration documents, drop-ins among them.
        logged: what the process itself shows.
        begun_ns: when it started, or the log of it begins.
        is_only: no other process is in the bundle, so the files are this one's, whatever
            it says itself. Else a file is another's that contradicts it, and nobody knows
            whose it is when it shows nothing.
    """
    drop_ins = [statement for statement in files if _is_drop_in(statement)]
    bases = _in_force([statement for statement in files if not _is_drop_in(statement)], begun_ns)
    named = [statement for statement in bases if _base_name(statement) == _config_flag(logged)]
    bases = named or bases
    if is_only:
        return [*bases, *drop_ins]
    if not logged.has_any:
        return []
    fitting = [base for base in bases if fits([base, *drop_ins], logged)]
    if bases:
        return [*fitting, *drop_ins] if fitting else []
    return drop_ins if fits(drop_ins, logged) else []


def _is_drop_in(statement: Statement) -> bool:
    return statement.evidence.file.endswith(".conf")


def _base_name(statement: Statement) -> str:
    return statement.evidence.file.rpartition("/")[2]


def _config_flag(logged: SettingsSources) -> str | None:
    flag = logged.flags.get("config")
    return None if flag is None else str(flag.value).rpartition("/")[2]


def _in_force(bases: list[Statement], begun_ns: int) -> list[Statement]:
    """Of copies of one file at several times the one that lay there when the process began."""
    chosen: dict[str, tuple[tuple[bool, int], Statement]] = {}
    kept = []
    for statement in bases:
        ts_ns = time_in_name(statement.evidence.file)
        if ts_ns is None:
            kept.append(statement)
            continue
        # The last before it, else the first after it.
        rank = (ts_ns <= begun_ns, ts_ns if ts_ns <= begun_ns else -ts_ns)
        name = _base_name(statement)
        if name not in chosen or rank > chosen[name][0]:
            chosen[name] = (rank, statement)
    return kept + [statement for _, statement in chosen.values()]


def fits(files: list[Statement], logged: SettingsSources) -> bool:
    """Whether nothing that the process reports about itself says otherwise than the files."""
    without = effective_settings(logged).conflicts
    with_files = effective_settings(msgspec.structs.replace(logged, files=files)).conflicts
    return {*map(_field, with_files)} <= {*map(_field, without)}


def agrees(logged: SettingsSources, answer: Statement) -> bool:
    """Whether an answer at ``/configz`` can be that of the process that shows these settings.

    A process answers the same as long as it runs.
    """
    files = [logged.full] if logged.full is not None else []
    rest = msgspec.structs.replace(logged, dump=None, served=None, files=files)
    without = effective_settings(rest).conflicts
    with_answer = effective_settings(msgspec.structs.replace(rest, served=answer)).conflicts
    return {*map(_field, with_answer)} <= {*map(_field, without)}


def _field(conflict: str) -> str:
    return conflict.partition(":")[0]
