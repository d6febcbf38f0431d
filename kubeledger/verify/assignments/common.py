"""What both managers' rules need: the pod's spec, and whether its end was due to be noticed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import msgspec

from kubeledger.errors import BadInputError
from kubeledger.kube.pod import Container, Pod
from kubeledger.lifecycle.presence import key_of
from kubeledger.lifecycle.records import (
    ContainerDied,
    PodConfigChanged,
    PodListed,
    PodTerminated,
)
from kubeledger.machine import Body, Record
from kubeledger.node.state import NodeState
from kubeledger.profile.resourcemanagers import ResourceManagerFacts
from kubeledger.units import NS_PER_S
from kubeledger.verify.bench import Bench
from kubeledger.verify.devices.releases import is_active
from kubeledger.verify.pods import PodRegister
from kubeledger.verify.verifier import Foresee, Verifier

__all__ = [
    "FILE_NS",
    "NOTICED_NS",
    "AssignmentVerifier",
    "Doubt",
    "Holder",
    "PodsInTime",
    "Spec",
    "Whose",
    "spec_of",
    "whose",
]

Holder = tuple[str, str]
"""Pod key and container."""

_ALIVE_NS = 30 * NS_PER_S
FILE_NS = 15 * NS_PER_S
"""A snapshot is named by the second it began in, and may take so long to be made."""
NOTICED_NS = 5 * NS_PER_S
"""Behind a pod's end, the next admission lets go of what it held."""


class Spec(NamedTuple):
    """A container of a listed pod.

    Attributes:
        defaulted: the API server's defaults are in it, so that a class other than Guaranteed
            is certain.
    """

    pod: Pod
    container: Container
    seqs: tuple[int, ...]
    defaulted: bool


class Doubt:
    """A state file that shows something else than the lines told: it may have been read late.

    What it shows counts only if no decision follows within :data:`FILE_NS`.
    """

    def __init__(self, bench: Bench, why: str) -> None:
        self._bench = bench
        self._why = why
        self._open: tuple[int, tuple[tuple[int, str], ...]] | None = None

    def raise_(self, ts_ns: int, *sides: tuple[int, str]) -> None:
        """The file, and what it denies."""
        self._open = ts_ns, sides

    def decided(self, ts_ns: int) -> None:
        """A decision: the file may show what was behind it."""
        if self._open is not None and ts_ns - self._open[0] < FILE_NS:
            self._open = None
        self.settle()

    def passed(self, ts_ns: int) -> None:
        """Time went on."""
        if self._open is not None and ts_ns - self._open[0] >= FILE_NS:
            self.settle()

    def settle(self) -> None:
        """Nothing explains it."""
        if self._open is not None:
            ts_ns, sides = self._open
            self._open = None
            self._bench.contradict(ts_ns, "node", self._why, *sides)


class Whose(NamedTuple):
    """Whom a decision is about: key, and subject of its finding."""

    holder: Holder
    subject: str


def whose(state: NodeState, body: Any) -> Whose:  # noqa: ANN401 - any body
    """Whom a decision is about."""
    key = key_of(state.lifecycle, body.pod_uid, body.namespace, body.pod) or ""
    container = body.container or ""
    name = f"{body.namespace}/{body.pod}" if body.pod else key
    if not container:
        return Whose((key, ""), f"pod/{name}")
    subject = f"container/{name}/{container}" if body.pod else f"pod/{name}"
    return Whose((key, container), subject)


def spec_of(bench: Bench, record: Record, body: Any) -> list[Spec]:  # noqa: ANN401 - any body
    """The container in each version of its pod's spec; none where no list shows it.

    A pod that was resized has several, and any may be what was asked for.
    """
    listed = bench.pods.at(record.ts_ns, body.pod_uid, body.namespace, body.pod)
    found: list[Spec] = []
    for version in bench.pods.versions(listed) if listed is not None else ():
        try:
            pod = version.as_(Pod)
        except (msgspec.ValidationError, BadInputError):
            continue
        for container in (*(pod.spec.init_containers or ()), *(pod.spec.containers or ())):
            if container.name == body.container:
                defaulted = pod.status is not None and pod.status.qos_class is not None
                found.append(Spec(pod, container, (version.seq,), defaulted))
    return found


class PodsInTime:
    """When pods were last seen to run, and which ended while something was still theirs."""

    def __init__(self, pods: PodRegister) -> None:
        """``pods``: what lists show of them."""
        self._pods = pods
        self._ran: dict[str, int] = {}
        self._adds: dict[str, list[int]] = {}
        self._ended: dict[str, Record] = {}
        self._sources_ready = False

    def foresee(self, record: Record) -> None:
        """First reading: what shows that a pod was alive by then, and pods that were added."""
        body = record.body
        if isinstance(body, ContainerDied | PodTerminated):
            if body.pod_uid:
                self._ran[body.pod_uid] = max(self._ran.get(body.pod_uid, 0), record.ts_ns)
            return
        if isinstance(body, PodConfigChanged):
            if body.operation == "ADD" and body.pod_uid:
                self._adds.setdefault(body.pod_uid, []).append(record.ts_ns)
        elif isinstance(body, PodListed) and body.pod_uid and _shows_running(body):
            self._ran[body.pod_uid] = max(self._ran.get(body.pod_uid, 0), record.ts_ns)

    def terminated(self, record: Record, body: PodTerminated) -> None:
        """A pod ended."""
        if body.pod_uid:
            self._ended[body.pod_uid] = record

    def added(self, body: PodConfigChanged) -> None:
        """A pod came, perhaps one with the UID of another before it.

        Before the API server was heard nothing is let go of: other pods may come from it.
        """
        self._sources_ready = self._sources_ready or body.source == "api"
        if body.operation == "ADD":
            self._ended.pop(body.pod_uid or "", None)

    def forget(self) -> None:
        """A new process has to find out anew who ended."""
        self._ended.clear()
        self._sources_ready = False

    def surely_alive(self, state: NodeState, uid: str, ts_ns: int) -> str | None:
        """Words for why the pod was active then and stayed so; None where that is not sure."""
        active, said = is_active(state, self._pods, uid)
        ran = self._ran.get(uid, 0)
        again = any(ts_ns < added <= ran for added in self._adds.get(uid, ()))
        return said if active and ran > ts_ns + _ALIVE_NS and not again else None

    def inactive(self, state: NodeState, uid: str) -> str | None:
        """Words for why the pod did not count as active; None where it did or may have."""
        active, said = is_active(state, self._pods, uid)
        return said if active is False else None

    def overdue(
        self, holders: Iterable[Holder], ts_ns: int, wait_ns: int = NOTICED_NS
    ) -> list[tuple[Holder, Record]]:
        """Who still holds something so long after its pod's end, with the end's record."""
        if not self._sources_ready:
            return []
        return [
            (holder, ended)
            for holder in sorted(holders)
            if (ended := self._ended.get(holder[0])) is not None and ts_ns - ended.ts_ns > wait_ns
        ]


class AssignmentVerifier(Verifier):
    """What the rules of both managers do alike.

    Attributes:
        file: name of the manager's state file.
        denied: what it means when the file shows something else than the lines told.
    """

    file: ClassVar[str]
    denied: ClassVar[str]

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._pods = PodsInTime(bench.pods)
        self._doubt = Doubt(bench, self.denied)

    def foresees(self) -> Mapping[type[Body], Foresee]:
        """Which pods were alive by when."""
        kinds: tuple[type[Body], ...] = (ContainerDied, PodConfigChanged, PodListed, PodTerminated)
        return dict.fromkeys(kinds, self._pods.foresee)

    def settle(self, state: NodeState) -> None:
        """The records end."""
        self._doubt.settle()

    def _facts(self) -> ResourceManagerFacts | None:
        profile = self.bench.profile
        return profile.resourcemanagers if profile is not None else None

    def _relied_on(self, record: Record, checksum: int | None, checksum_ok: bool | None) -> bool:
        """Whether the content of the manager's file counts; a wrong checksum is told."""
        if checksum_ok is False:
            self.bench.contradict(
                record.ts_ns,
                "node",
                f"the checksum of {self.file} is not that of its content, which is not relied on",
                (record.seq, f"checksum {checksum} is stored"),
                (record.seq, "its content has another checksum"),
            )
        return checksum_ok is not False

    def _unknown(self, record: Record, about: Whose, rule: str, missing: Sequence[str]) -> None:
        self.bench.unverifiable(record, subject=about.subject, missing=missing, rule=rule)


def _shows_running(body: PodListed) -> bool:
    status = body.status or {}
    statuses = status.get("containerStatuses")
    return isinstance(statuses, list) and any(
        isinstance(entry, dict) and (entry.get("state") or {}).get("running") for entry in statuses
    )
