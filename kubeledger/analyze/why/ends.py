"""How a container ended, where no decision is recorded: by itself, or by a signal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubeledger.analyze.why.concern import is_about_pod
from kubeledger.analyze.why.target import Target
from kubeledger.kubelet.lifecycle.exits import UNKNOWN_KILLER, how_it_ended, killer_unknown
from kubeledger.model.record import Record
from kubeledger.model.units import format_ts

__all__ = ["ended_by_itself", "last_end"]

_KINDS = frozenset({"lifecycle.ContainerDied", "lifecycle.ContainerStarted"})
_KILLS = frozenset({"lifecycle.ContainerKilled", "oom.ProcessKilled"})


def last_end(about: Iterable[Record], target: Target) -> Record | None:
    """The death of a container that did not start again; None for one that runs.

    Args:
        about: records about the target.
        target: what is asked.
    """
    if target.kind != "container":
        return None
    states = [r for r in about if r.kind in _KINDS and getattr(r.body, "container", None)]
    last = max(states, key=lambda record: record.seq, default=None)
    return last if last is not None and last.kind == "lifecycle.ContainerDied" else None


def ended_by_itself(end: Record | None, main: Record, decisions: Iterable[Record]) -> str:
    """A clause that says so; empty where something killed it, or the decision says more."""
    if end is None or end.cause is not None or end.seq < main.seq or is_about_pod(main):
        return ""
    body: Any = end.body
    killed = {getattr(r.body, "container_id", None) for r in decisions if r.kind in _KILLS}
    if body.container_id in killed:
        return ""
    who = f"container {body.namespace}/{body.pod}/{body.container}"
    killer = f", and {UNKNOWN_KILLER}" if killer_unknown(body.exit_code) else ""
    return f"{who} {how_it_ended(body.exit_code)} at {format_ts(end.ts_ns)}{killer}"
