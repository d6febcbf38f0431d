"""Lies in the second source of a fact: no decision rests on it, and both sources are shown."""

from __future__ import annotations

from tests.verify.lies import CONTRADICTED, Edit, Lie

__all__ = ["DAILY_WITNESSES", "NIGHTLY_WITNESSES"]

LOG = "kubelet.log"
A, B = "node-a", "node-b"
A_STATS = "snapshots/20261121T025733Z/stats-summary.json"
IMAGE = "image/sha256:2cf000c66ba5a7627abd2b39aa1f8c91bb027284cfb79dde302bd73003e7b27e"
LISTED_A = "Image ID sha256:2cf000c66ba5a7627abd2b39aa1f8c91bb027284cfb79dde302bd73003e7b27e has"
LISTED_B = '"Image ID has size" imageID="sha256:2cf000c66ba5'


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
    _lie(
        "output of a failed probe in its line",
        A,
        Edit(LOG, '2940731faba2):app" failed', "/tmp/ok", "/tmp/no"),
        "container/default/live-fail/app",
        "/tmp/no",
    ),
    _lie(
        "output of a failed probe in its line",
        B,
        Edit(LOG, 'failed" probeType="Startup" pod="default/startup-never', '=""', '="x"'),
        "container/default/startup-never-node-b/app",
        "'x'",
    ),
    _lie(
        "capacity of memory in one signal",
        B,
        Edit(LOG, 4702, "24684096Ki", "24684097Ki"),
        "node",
        "25276515328",
    ),
)
"""The long tail."""
