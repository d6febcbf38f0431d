"""Lies in the second source of a fact: no decision rests on it, and both sources are shown."""

from __future__ import annotations

from tests.verify.lies import CONTRADICTED, Edit, Lie

__all__ = ["DAILY_WITNESSES", "NIGHTLY_WITNESSES"]

LOG = "kubelet.log"
A, B = "node-a", "node-b"


def _lie(name: str, node: str, edit: Edit, subject: str, says: str) -> Lie:
    return Lie(name, node, (edit,), CONTRADICTED, subject, says)


def _stamp(node: str, line: str, old: str, new: str) -> Lie:
    edit = Edit(LOG, line, f" {old}.", f" {new}.")
    return _lie(f"stamp of a line: {new}", node, edit, "node", f"T{new}.")


DAILY_WITNESSES = (_stamp(A, "Predicate failed on Pod: too-big", "03:00:32", "03:01:32"),)
"""Caught in every run."""

NIGHTLY_WITNESSES = (
    _stamp(A, "Predicate failed on Pod: too-big", "03:00:32", "03:00:22"),
    _stamp(A, "Predicate failed on Pod: too-big", "03:00:32", "23:00:32"),
    _stamp(A, "for devices [gpu-0] for", "02:54:06", "02:59:06"),
    _stamp(B, 'devices=["gpu-2"]', "03:07:08", "03:07:18"),
    _stamp(B, "Preempting pod to free up resources", "03:07:53", "03:05:53"),
    _lie(
        "reason in a refused pod's status",
        A,
        Edit(LOG, 'adding pod: "9f62a548', "OutOfcpu", "OutOfmemory"),
        "pod/default/too-big",
        "OutOfmemory",
    ),
)
"""The long tail."""
