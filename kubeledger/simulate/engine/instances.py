"""Instances of containers, and what is known of their ends."""

from __future__ import annotations

import msgspec

KILLED = 137
"""Exit code of a main process that was killed."""


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """One container that the runtime made; it is replaced by another value when it ends.

    Attributes:
        container: name in the spec; None for a sandbox.
        image: that it was made of; empty for a sandbox.
        restarts: how many instances there were before it.
        previous_id: ID of the instance before it; empty for the first.
        finished_ns, exit_code: None while it runs.
        oom_killed: it ended, and the kernel's OOM killer had killed a process in it.
    """

    container_id: str
    container: str | None
    image: str = ""
    restarts: int = 0
    previous_id: str = ""
    started_ns: int
    finished_ns: int | None = None
    exit_code: int | None = None
    oom_killed: bool = False

    @property
    def running(self) -> bool:
        return self.finished_ns is None


class End(msgspec.Struct, frozen=True):
    """The record of a kill, and its reason as a restart that follows names it."""

    seq: int
    reason: str
