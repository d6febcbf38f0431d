"""What single records show of a pod, in a form that takes little memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from kubeledger.kubelet.kube.statuses import statuses_in
from kubeledger.kubelet.lifecycle.state import TERMINAL_PHASES
from kubeledger.model.bodies import lifecycle
from kubeledger.model.bodies.eviction import PodPreempted
from kubeledger.model.bodies.resourcemanagers import AffinityDecided, HintsGenerated
from kubeledger.model.record import Body, Record

What = Literal[
    "add", "update", "delete", "remove", "admitted", "rejected", "evicted", "preempted",
    "terminating", "terminated", "started", "died", "killed", "ending_event", "listed", "aligned",
]  # fmt: skip

POD_ENDS: Final = frozenset(
    {"preempted", "pod_deleted", "evicted", "deadline_exceeded", "node_shutdown", "orphaned"}
    | {"pod_ended"}
)
_END_EVENTS: Final = frozenset(
    {"Preempting", "Preempted", "Evicted", "DeadlineExceeded", "ExceededGracePeriod"}
)


class Listing(msgspec.Struct, frozen=True):
    """What a list shows of a pod.

    Attributes:
        alive: it is there, in no final phase; ``is_told``: in one at all.
        final: it is there, in a final phase.
        running: (n,) names of containers that run.
        mirror: it is the API's image of a static pod.
        failed: reason and words of a pod whose phase is Failed; None for any other.
    """

    by: Literal["kubelet", "api"]
    alive: bool
    is_told: bool = True
    final: bool = False
    running: tuple[str, ...] = ()
    created_ns: int | None = None
    mirror: bool = False
    failed: tuple[str, str] | None = None


class HistoryEntry(msgspec.Struct, frozen=True):
    """One record about a pod.

    Attributes:
        what: the config line's operation, or what happened.
        word: reason, config source, or event; empty for none.
        container_id: bare ID; None as above.
        sandbox: the container is the pod's sandbox; None when not known.
        number: exit code, grace period in seconds, or line of the log that a config line is;
            None when not reported.
        other: the pod for which it is preempted; None as above.
    """

    ts_ns: int
    seq: int
    what: What
    word: str = ""
    container: str | None = None
    container_id: str | None = None
    sandbox: bool | None = None
    number: int | None = None
    listing: Listing | None = None
    other: Who | None = None

    def is_before(self, other: HistoryEntry | Record) -> bool:
        """Whether it comes first in the order of replay: pieces of a log are numbered in any."""
        return (self.ts_ns, self.seq) < (other.ts_ns, other.seq)


Who = tuple[str | None, str, str]
"""UID, namespace and name of a pod."""
Sign = tuple[Who, HistoryEntry]

STATUS_PREFIX: Final = re.compile(r"^Pod (was rejected: )?")
"""What the kubelet puts before its words in a status."""
_CONTAINER: Final = ("container", "container_id", "sandbox")
_MIRROR: Final = "kubernetes.io/config.mirror"
_CONFIG: Final[Mapping[str, What]] = {
    "ADD": "add",
    "UPDATE": "update",
    "RECONCILE": "update",
    "DELETE": "delete",
    "REMOVE": "remove",
}


def _sign(record: Record, what: What, **shown: Any) -> Sign:  # noqa: ANN401 - any fields
    body: Any = record.body
    who = body.pod_uid, body.namespace, body.pod
    return who, HistoryEntry(record.ts_ns, record.seq, what, **shown)


def _reads(what: What, word: str = "", number: str = "") -> Read:
    """A reader of what happened to a pod, or a container; ``word``, ``number``: their fields."""

    def read(record: Record, body: Any) -> Sign:  # noqa: ANN401 - any body
        shown = {name: getattr(body, name, None) for name in _CONTAINER}
        told = (getattr(body, word) or "") if word else ""
        return _sign(record, what, word=told, number=getattr(body, number, None), **shown)

    return read


def _config(record: Record, body: lifecycle.PodConfigChanged) -> Sign:
    what = _CONFIG[body.operation]
    line = record.evidence[0].line if what == "add" and record.evidence else None
    return _sign(record, what, word=body.source or "", number=line)


def _fate(evicted: bool | None) -> str:
    return "" if evicted is None else "gone" if evicted else "survived"


def _preempted(record: Record, body: PodPreempted) -> Sign:
    who = body.victim_uid, body.victim_namespace, body.victim_pod
    other: Who | None = None
    if body.preemptor_pod is not None:
        other = body.preemptor_uid, body.preemptor_namespace or "", body.preemptor_pod
    told = _fate(body.evicted)
    return who, HistoryEntry(record.ts_ns, record.seq, "preempted", word=told, other=other)


def _reported(record: Record, body: lifecycle.KubernetesEvent) -> Sign | None:
    ends = body.reason in _END_EVENTS and body.object_kind == "Pod"
    return _sign(record, "ending_event", word=body.reason) if ends else None


def _aligned(record: Record, body: AffinityDecided | HintsGenerated) -> Sign | None:
    named = body.namespace and body.pod
    return _sign(record, "aligned", container=body.container) if named else None


def _listed(record: Record, body: lifecycle.PodListed) -> Sign | None:
    if body.listed_by == "manifest":
        return None
    status = body.status or {}
    final = status.get("phase") in TERMINAL_PHASES
    runs = (one for one in statuses_in(status) if (one.get("state") or {}).get("running"))
    listing = Listing(
        by=body.listed_by,
        alive=not body.gone and not final,
        is_told=body.gone or "phase" in status,
        final=final,
        running=tuple(str(one.get("name")) for one in runs),
        created_ns=body.created_ts_ns,
        mirror=_MIRROR in body.annotations,
        failed=_failed(status),
    )
    return _sign(record, "listed", listing=listing)


def _failed(status: dict[str, Any]) -> tuple[str, str] | None:
    """Why its phase is Failed; a passed deadline of the pod is reported instead."""
    reason, message = status.get("reason"), status.get("message")
    found = isinstance(reason, str) and isinstance(message, str)
    if status.get("phase") != "Failed" or not found or reason == "DeadlineExceeded":
        return None
    return str(reason), STATUS_PREFIX.sub("", str(message))


Read = Callable[[Record, Any], Sign | None]

ENTRY_KINDS: Final[Mapping[type[Body], Read]] = {
    AffinityDecided: _aligned,
    lifecycle.ContainerDied: _reads("died", number="exit_code"),
    lifecycle.ContainerKilled: _reads("killed", "reason", "grace_period_s"),
    lifecycle.ContainerStarted: _reads("started"),
    HintsGenerated: _aligned,
    lifecycle.PodAdmitted: _reads("admitted"),
    lifecycle.PodConfigChanged: _config,
    lifecycle.PodEvicted: lambda record, body: _sign(record, "evicted", word=_fate(body.evicted)),
    lifecycle.PodListed: _listed,
    PodPreempted: _preempted,
    lifecycle.PodRejected: _reads("rejected", "reason"),
    lifecycle.PodTerminated: _reads("terminated"),
    lifecycle.PodTerminating: _reads("terminating", "reason", "grace_period_s"),
    lifecycle.KubernetesEvent: _reported,
}
"""Kind of record -> how it is read; None where it shows nothing of a pod."""
