"""Under which settings and which kubelet version decisions are taken again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeVar, TypeVarTuple

import msgspec
from msgspec.structs import replace

from kubeledger.kubelet.profile.resolve import KubeletProfile, resolve, with_gates
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.bodies.prober import ProbeType
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.record import Record
from kubeledger.verify.evidence.processes import Process

_OF_PROBE = {"liveness": "livenessProbe", "readiness": "readinessProbe", "startup": "startupProbe"}
_GRACE = "terminationGracePeriodSeconds"
_LISTS = ("containers", "initContainers")


class _Change(msgspec.Struct, frozen=True, kw_only=True):
    """Something of pods that would be another; ``*`` stands for any characters."""

    namespace: str
    pod: str

    def concerns(self, namespace: str, pod: str) -> bool:
        return fnmatchcase(namespace, self.namespace) and fnmatchcase(pod, self.pod)


class _ContainerChange(_Change, frozen=True, kw_only=True):
    """Something of containers that would be another."""

    container: str

    def means(self, body: PodListed, container: dict[str, Any]) -> bool:
        """Whether it is about this container of that pod."""
        return self.is_of(body.namespace, body.pod, str(container.get("name") or ""))

    def is_of(self, namespace: str, pod: str, container: str) -> bool:
        return self.concerns(namespace, pod) and fnmatchcase(container, self.container)


class ResourceChange(_ContainerChange, frozen=True, kw_only=True):
    """What a container would ask for instead.

    Attributes:
        amount: a quantity; None: nothing is asked for.
    """

    part: Literal["limits", "requests"]
    resource: str
    amount: str | None

    def apply(self, body: PodListed, container: dict[str, Any]) -> dict[str, Any]:
        """A container of a spec, changed if it is meant."""
        if not self.means(body, container):
            return container
        resources = dict(container.get("resources") or {})
        parts = [self.part]
        if self.part == "limits" and self.resource not in (resources.get("requests") or {}):
            parts.append("requests")  # as the API server does where only a limit is given
        own = {} if self.amount is None else {self.resource: self.amount}
        for part in parts:
            amounts = {k: v for k, v in (resources.get(part) or {}).items() if k != self.resource}
            resources[part] = amounts | own
        return {**container, "resources": resources}


class ProbeChange(_ContainerChange, frozen=True, kw_only=True):
    """What a container's probe would ask for instead.

    Attributes:
        field: of the probe, as the API names it.
        value: an integer; seconds for all but the thresholds.
    """

    probe_type: ProbeType
    field: str
    value: int

    def means(self, body: PodListed, container: dict[str, Any]) -> bool:
        """Whether it is about a probe that this container of that pod has."""
        has_probe = isinstance(container.get(_OF_PROBE[self.probe_type]), dict)
        return has_probe and super().means(body, container)

    def apply(self, body: PodListed, container: dict[str, Any]) -> dict[str, Any]:
        """A container of a spec, changed where the grace period of its probe is meant.

        The other fields decide which ticks there are and what follows from them, which is
        decided from the recorded ticks and not by verification under another spec.
        """
        if self.field != _GRACE or not self.means(body, container):
            return container
        key = _OF_PROBE[self.probe_type]
        return {**container, key: {**container[key], self.field: self.value}}


class PodFieldChange(_Change, frozen=True, kw_only=True):
    """What a pod's spec would say instead.

    Attributes:
        field: ``priority`` or ``terminationGracePeriodSeconds``.
    """

    field: str
    value: int


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that replace the recorded ones.

    Attributes:
        settings: KubeletConfiguration field -> value (as parsed from JSON).
        entries: field -> entries of ``settings`` that replace only themselves: each kubelet
            process keeps the others of its own map.
        kubelet_version: decide by the rules of this one; None: of the recorded one.
    """

    name: str = "recorded"
    settings: dict[str, Any] = {}
    entries: dict[str, dict[str, Any]] = {}
    pods: tuple[ResourceChange, ...] = ()
    probes: tuple[ProbeChange, ...] = ()
    pod_fields: tuple[PodFieldChange, ...] = ()
    kubelet_version: str | None = None

    @property
    def changes_pods(self) -> bool:
        """Whether any record may be another one than it is."""
        return bool(self.pods or self.probes or self.pod_fields)

    def of(self, record: Record) -> Record:
        """A record as it would be: a list shows a pod with what it would ask for.

        The QoS class and what a resize gave follow from that, so they are not shown.
        """
        body = record.body
        if not isinstance(body, PodListed) or body.spec is None or not self.changes_pods:
            return record
        spec = body.spec
        of_containers: tuple[ResourceChange | ProbeChange, ...] = (*self.pods, *self.probes)
        for change in of_containers:
            changed = {key: [change.apply(body, c) for c in spec[key]] for key in _LISTS
                       if isinstance(spec.get(key), list)}  # fmt: skip
            spec = {**spec, **changed}
        for field in self.pod_fields:
            if field.concerns(body.namespace, body.pod):
                spec = {**spec, field.field: field.value}
        if spec == body.spec:
            return record
        if not self.pods:
            return replace(record, body=replace(body, spec=spec))
        status = {k: v for k, v in (body.status or {}).items() if k not in _FOLLOWS}
        for key in ("containerStatuses", "initContainerStatuses"):
            if key in status:
                status[key] = [{k: v for k, v in one.items() if k not in _FOLLOWS}
                               for one in status[key] or ()]  # fmt: skip
        body = replace(body, spec=spec, status=None if body.status is None else status)
        return replace(record, body=body)


_FOLLOWS = frozenset({"qosClass", "resources", "allocatedResources"})

RECORDED = Variant()


# The kubelet's settings at one instant, under a variant.

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Unknown:
    """Type of :data:`UNKNOWN`."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown()
"""A setting that no source shows. It is no default: a default is a fact of a record, too."""


class Settings:
    """Settings by KubeletConfiguration field (or ``--flag``), values as parsed from JSON.

    They are those of the process that runs, from its start on, whenever it shows them.

    Attributes:
        variant: whose values come first.
        seq: record that holds the recorded ones; None where no source says.
        disputed: settings on which the sources of that record differ.
        asked: those of which a file alone tells that the record which is being read asked for.
    """

    def __init__(self, variant: Variant, process: Process | None = None) -> None:
        self.variant = variant
        self.use(process)

    def use(self, process: Process | None) -> None:
        """Another process runs; None: nothing is known of it."""
        self._read: dict[object, tuple[Any, set[str]]] = {}
        self.asked: set[str] = set()
        self.of_files: frozenset[str] = frozenset() if process is None else process.of_files
        self.seq = None if process is None else process.settings_seq
        self.disputed: frozenset[str] = frozenset() if process is None else process.disputed
        self._recorded: Mapping[str, Any] = {} if process is None else process.settings
        self._values: dict[str, Any] = {**self._recorded, **self.variant.settings}
        for name, entries in self.variant.entries.items():
            own = self._recorded.get(name)
            self._values[name] = {**(own if isinstance(own, dict) else {}), **entries}

    def as_recorded(self) -> Settings:
        """The same without the variant."""
        found = Settings(RECORDED)
        found.seq, found.disputed = self.seq, self.disputed
        found._values = dict(self._recorded)
        return found

    def is_varied(self, name: str) -> bool:
        """Whether the variant gives a setting another value; one left empty is none."""
        if name not in self.variant.settings and name not in self.variant.entries:
            return False
        return bool((self._values.get(name) or None) != (self._recorded.get(name) or None))

    def once(self, read: Callable[[Settings, *Ts], T], *others: *Ts) -> T:
        """What ``read`` makes of these settings, and of ``others``; read once for each process."""
        key = (read, *others)
        if key not in self._read:
            asked, self.asked = self.asked, set()
            self._read[key] = read(self, *others), self.asked
            self.asked = asked
        found: tuple[T, set[str]] = self._read[key]
        self.asked |= found[1]
        return found[0]

    def get(self, name: str) -> Any:  # noqa: ANN401 # any JSON value
        """Value of a setting; ``UNKNOWN`` when no source says."""
        if name in self.of_files:
            self.asked.add(name)
        return self._values.get(name, UNKNOWN)


def profile_of(version: str | None, gates: object) -> KubeletProfile | None:
    """The rules of a kubelet with these feature gates; of an unknown version nothing is assumed."""
    with suppress(BadQuestionError):
        if version is not None:
            return with_gates(resolve(version), gates if isinstance(gates, dict) else None)
    return None
