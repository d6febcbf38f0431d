"""Container instances as pod statuses show them: whose an ID is, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from kubeledger.ingest.messages.podref import bare_container_id
from kubeledger.ingest.sources.times import api_time
from kubeledger.kubelet.kube.statuses import statuses_in


class Instance(msgspec.Struct):
    """One container ID in the statuses of its pod.

    Attributes:
        restart_count: restarts before this instance; None when no status shows it.
        started_ts_ns, finished_ts_ns: whole seconds; None when not known (yet).
        exit_code: None while no status shows the end; ``reason`` (``OOMKilled``) likewise.
    """

    pod_uid: str
    container: str
    restart_count: int | None = None
    started_ts_ns: int | None = None
    finished_ts_ns: int | None = None
    exit_code: int | None = None
    reason: str | None = None

    @property
    def ran_ts_ns(self) -> int | None:
        """When it began to run; None where no status says that it did.

        A runtime writes 1970 or the year 1 for one whose start failed.
        """
        return self.started_ts_ns if (self.started_ts_ns or 0) > 0 else None


def index_instances(statuses: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, Instance]:
    """Bare container ID -> instance, over all statuses, each with the UID of its pod."""
    instances: dict[str, Instance] = {}
    for uid, status in statuses:
        for entry in statuses_in(status):
            _add(instances, uid, entry)
    return instances


def is_later(instance: Instance | None, other: Instance | None) -> bool:
    """Whether lists count the instance after the other one of the same container."""
    counts = [None if each is None else each.restart_count for each in (other, instance)]
    return counts[0] is not None and counts[1] is not None and counts[0] < counts[1]


def is_next(before: Instance | None, instance: Instance | None) -> bool:
    """Whether lists count the instance right after the other one."""
    counts = [None if each is None else each.restart_count for each in (before, instance)]
    return counts[0] is not None and counts[1] == counts[0] + 1


def ran_by(instance: Instance | None, ts_ns: int) -> bool:
    """Whether a status says that it had begun by then."""
    began_ns = None if instance is None else instance.ran_ts_ns
    return began_ns is not None and began_ns <= ts_ns


def _add(instances: dict[str, Instance], uid: str, entry: dict[str, Any]) -> None:
    current = bare_container_id(entry.get("containerID"))
    count = entry.get("restartCount")
    if current is not None:
        instance = instances.setdefault(current, Instance(uid, entry.get("name", "")))
        instance.restart_count = count
        _complete(instance, entry.get("state") or {})
    last = (entry.get("lastState") or {}).get("terminated") or {}
    previous = bare_container_id(last.get("containerID"))
    if previous is None:
        return
    instance = instances.setdefault(previous, Instance(uid, entry.get("name", "")))
    # While a container waits for its restart, both fields hold the instance that ended. Without
    # a present instance the count may or may not include one that is still to come.
    if current not in (None, previous) and instance.restart_count is None and count:
        instance.restart_count = count - 1
    _complete(instance, {"terminated": last})


def _complete(instance: Instance, state: dict[str, Any]) -> None:
    running, terminated = state.get("running") or {}, state.get("terminated") or {}
    started = terminated.get("startedAt") or running.get("startedAt")
    if started:
        instance.started_ts_ns = api_time(started)
    if terminated.get("finishedAt"):
        instance.finished_ts_ns = api_time(terminated["finishedAt"])
        instance.exit_code = terminated.get("exitCode")
        instance.reason = terminated.get("reason")
