"""How a container came to its end, where nobody decided it: it ended by itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubeledger.explain.concern import is_about_pod
from kubeledger.explain.target import Target
from kubeledger.machine import Record
from kubeledger.units import format_ts
from kubeledger.verify import Reader

__all__ = ["ended_by_itself", "last_end"]

_KINDS = frozenset({"lifecycle.ContainerDied", "lifecycle.ContainerStarted"})
_KILLS = frozenset({"lifecycle.ContainerKilled", "oom.ProcessKilled"})


def last_end(read: Reader, target: Target, upto_ts_ns: int | None) -> Record | None:
    """The death of a container that did not start again; None for one that runs."""
    if target.kind != "container":
        return None
    last: Record | None = None
    for record in read(_KINDS):
        body: Any = record.body
        names = (body.namespace, body.pod, body.container)
        if names != target.parts or (upto_ts_ns is not None and record.ts_ns > upto_ts_ns):
            continue
        if last is None or record.seq > last.seq:
            last = record
    return last if last is not None and last.kind == "lifecycle.ContainerDied" else None


def ended_by_itself(end: Record | None, main: Record, decisions: Iterable[Record]) -> str:
    """A clause that says so; empty where something killed it, or the decision tells more."""
    if end is None or end.cause is not None or end.seq < main.seq or is_about_pod(main):
        return ""
    body: Any = end.body
    killed = {getattr(r.body, "container_id", None) for r in decisions if r.kind in _KILLS}
    if body.container_id in killed:
        return ""
    code = "" if body.exit_code is None else f" with exit code {body.exit_code}"
    who = f"container {body.namespace}/{body.pod}/{body.container}"
    return f"{who} ended by itself{code} at {format_ts(end.ts_ns)}"
