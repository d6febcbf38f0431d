"""How a container came to its end, where no decision is recorded: by itself, or by a signal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubeledger.analyze.why.concern import is_about_pod
from kubeledger.analyze.why.target import Target
from kubeledger.kubelet.lifecycle.exits import UNKNOWN_KILLER, how_it_ended, killer_unknown
from kubeledger.model.record import Record
from kubeledger.model.units import format_ts

__all__ = ["ended_by_itself", "last_end", "out_of_memory_before"]

_KINDS = frozenset({"lifecycle.ContainerDied", "lifecycle.ContainerStarted"})
_OOM = "oom.ProcessKilled"
_KILLS = frozenset({"lifecycle.ContainerKilled", _OOM})


def last_end(about: Iterable[Record], target: Target) -> Record | None:
    """The death of a container that did not start again; None for one that runs.

    Args:
        about: records that tell of the target.
        target: what is asked.
    """
    if target.kind != "container":
        return None
    lives = [r for r in about if r.kind in _KINDS and getattr(r.body, "container", None)]
    last = max(lives, key=lambda record: record.seq, default=None)
    return last if last is not None and last.kind == "lifecycle.ContainerDied" else None


def ended_by_itself(end: Record | None, main: Record, decisions: Iterable[Record]) -> str:
    """A clause that says so; empty where something killed it, or the decision tells more."""
    if end is None or end.cause is not None or end.seq < main.seq or is_about_pod(main):
        return ""
    body: Any = end.body
    killed = {getattr(r.body, "container_id", None) for r in decisions if r.kind in _KILLS}
    if body.container_id in killed:
        return ""
    who = f"container {body.namespace}/{body.pod}/{body.container}"
    killer = f", and {UNKNOWN_KILLER}" if killer_unknown(body.exit_code) else ""
    return f"{who} {how_it_ended(body.exit_code)} at {format_ts(end.ts_ns)}{killer}"


def out_of_memory_before(
    about: Iterable[Record], target: Target, main: Record
) -> tuple[str, list[int]]:
    """A clause on a container's own OOM kills before its pod ended, and seqs of first and last.

    They are ends of its processes, which what befell the pod later does not explain.
    """
    if target.kind != "container" or not is_about_pod(main):
        return "", []
    kills = [
        record
        for record in about
        if record.kind == _OOM
        and (record.ts_ns, record.seq) < (main.ts_ns, main.seq)
        and getattr(record.body, "container", None) == target.parts[2]
    ]
    if not kills:
        return "", []
    first, last = kills[0], kills[-1]
    times, when = "once", f"at {format_ts(last.ts_ns)}"
    if len(kills) > 1:
        times, when = f"{len(kills)} times", f"{format_ts(first.ts_ns)} to {format_ts(last.ts_ns)}"
        when = f"from {when}"
    who = "/".join(target.parts)
    clause = f"earlier, the kernel's OOM killer had killed in container {who} {times}, {when}"
    return clause, list(dict.fromkeys((first.seq, last.seq)))
