"""What pods ask of probes, kills and restarts, from all lists of a ledger.

None of it can change while a pod lives, so lists that disagree contradict each other. Then
what most of them say is used, of equally many the first.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from kubeledger.kube.keys import name_key, pod_key
from kubeledger.kube.restartpolicy import RestartRule
from kubeledger.lifecycle.records import PodListed
from kubeledger.machine import Record
from kubeledger.prober.records import ProbeType
from kubeledger.units import parse_ts
from kubeledger.verify.rules.manifests import Difference, differences

__all__ = ["ContainerAsk", "PodAsk", "ProbeAsk", "SpecBook"]


_MANIFEST = "manifest "
_COUNTS_MAX = 64
"""How many instances of a pod are remembered."""


class ProbeAsk(msgspec.Struct, rename="camel", frozen=True):
    """A probe; what a manifest leaves out is as the kubelet's own decoder would fill it in."""

    initial_delay_seconds: int = 0
    period_seconds: int | None = None
    timeout_seconds: int | None = None
    success_threshold: int | None = None
    failure_threshold: int | None = None
    termination_grace_period_seconds: int | None = None

    @property
    def period_s(self) -> int:
        """Seconds between ticks."""
        return self.period_seconds or 10

    @property
    def timeout_s(self) -> int:
        """Seconds that one execution may take."""
        return self.timeout_seconds or 1

    @property
    def successes(self) -> int:
        """Successes in a row that count."""
        return self.success_threshold or 1

    @property
    def failures(self) -> int:
        """Failures in a row that count."""
        return self.failure_threshold or 3


class _Lifecycle(msgspec.Struct, rename="camel", frozen=True):
    post_start: dict[str, Any] | None = None
    pre_stop: dict[str, Any] | None = None


class ContainerAsk(msgspec.Struct, rename="camel", frozen=True):
    """A container, init container or ephemeral container of a pod's spec."""

    name: str
    restart_policy: str | None = None
    restart_policy_rules: list[RestartRule] | None = None
    liveness_probe: ProbeAsk | None = None
    readiness_probe: ProbeAsk | None = None
    startup_probe: ProbeAsk | None = None
    lifecycle: _Lifecycle | None = None

    def probe(self, probe_type: ProbeType) -> ProbeAsk | None:
        """Its probe of that type."""
        return {
            "liveness": self.liveness_probe,
            "readiness": self.readiness_probe,
            "startup": self.startup_probe,
        }[probe_type]

    @property
    def has_post_start(self) -> bool:
        """Whether a hook runs when it has started."""
        return self.lifecycle is not None and self.lifecycle.post_start is not None

    @property
    def has_pre_stop(self) -> bool:
        """Whether a hook takes of its grace period."""
        return self.lifecycle is not None and self.lifecycle.pre_stop is not None


class _Spec(msgspec.Struct, rename="camel", frozen=True):
    containers: list[ContainerAsk] = []
    init_containers: list[ContainerAsk] | None = None
    ephemeral_containers: list[ContainerAsk] | None = None
    restart_policy: str | None = None
    termination_grace_period_seconds: int | None = None


class PodAsk(msgspec.Struct, frozen=True):
    """A pod as its lists show it.

    Attributes:
        seq: the list entry that is used.
        is_api: an API server or the kubelet listed it, not only a manifest.
        is_static: it came from a file or URL, so nobody deletes it with a grace period.
        spec: None when it does not have the API's types.
    """

    seq: int
    namespace: str
    name: str
    uid: str | None
    is_api: bool
    is_static: bool
    spec: _Spec | None

    @property
    def restart_policy(self) -> str:
        """Of the pod."""
        return (self.spec.restart_policy if self.spec else None) or "Always"

    @property
    def grace_s(self) -> int | None:
        """Seconds; 30 in a manifest that says nothing, as the kubelet's decoder fills in."""
        if self.spec is None:
            return None
        given = self.spec.termination_grace_period_seconds
        return 30 if given is None and not self.is_api else given

    def container(self, name: str) -> ContainerAsk | None:
        """The container of that name, of whatever sort."""
        spec = self.spec
        if spec is None:
            return None
        lists = (spec.containers, spec.init_containers, spec.ephemeral_containers)
        return next((c for group in lists for c in group or () if c.name == name), None)

    def probed(self, probe_type: ProbeType) -> int:
        """How many of its containers have a probe of that type; 0 where that is not known."""
        spec = self.spec
        lists = (spec.containers, spec.init_containers) if spec is not None else ()
        return sum(c.probe(probe_type) is not None for group in lists for c in group or ())

    def is_app(self, name: str) -> bool:
        """Whether it stands among the containers proper."""
        return self.spec is not None and any(c.name == name for c in self.spec.containers)

    def is_sidecar(self, name: str) -> bool:
        """Whether it is an init container that stays."""
        inits = self.spec.init_containers if self.spec is not None else None
        return any(c.name == name and c.restart_policy == "Always" for c in inits or ())

    @property
    def has_sidecars(self) -> bool:
        """Whether its containers end in an order."""
        inits = self.spec.init_containers if self.spec is not None else None
        return any(c.restart_policy == "Always" for c in inits or ())


class _Version(msgspec.Struct):
    ask: PodAsk
    count: int


class SpecBook:
    """All pods of a ledger; it grows with their number."""

    def __init__(self) -> None:
        self._versions: dict[str, dict[bytes, _Version]] = {}
        self._keys: dict[str, list[str]] = {}
        self._chosen: dict[str, PodAsk] = {}
        self._first_started: dict[str, dict[str, int]] = {}
        self._counts: dict[str, dict[str, Counter[int]]] = {}
        self._counted_by: dict[tuple[str, str, int], int] = {}
        self._statics: dict[str, list[str]] = {}

    def foresee(self, record: Record) -> None:
        """Take in a list entry."""
        body = record.body
        if not isinstance(body, PodListed) or body.gone or body.spec is None:
            return
        is_api = body.listed_by != "manifest"
        name = name_key(body.namespace, body.pod)
        key = pod_key(body.pod_uid, body.namespace, body.pod) if is_api else f"{_MANIFEST}{name}"
        ask = _ask_of(record.seq, body)
        # Two lists agree when they say the same about what counts here.
        says = msgspec.json.encode((ask.spec, ask.namespace, ask.name), order="deterministic")
        versions = self._versions.setdefault(key or name, {})
        known = versions.get(says)
        if known is None:
            versions[says] = _Version(ask, 1)
            keys = self._keys.setdefault(name, [])
            if is_api and key is not None and key not in keys:
                keys.append(key)
                self._note_static(ask, body, key)
        else:
            known.count += 1
        self._chosen.clear()
        if is_api and key is not None:
            known_starts = self._first_started.setdefault(key, {})
            for container_id, started_ns in _started(body.status or {}).items():
                known_starts.setdefault(container_id, started_ns)
            if len(known_starts) > _COUNTS_MAX:
                del known_starts[next(iter(known_starts))]

        if is_api and key is not None:
            counts = self._counts.setdefault(key, {})
            for container_id, count in _counted(body.status or {}):
                counts.setdefault(container_id, Counter())[count] += 1
                self._counted_by.setdefault((key, container_id, count), record.seq)
                if len(counts) > _COUNTS_MAX:
                    oldest = next(iter(counts))
                    for each in counts.pop(oldest):
                        self._counted_by.pop((key, oldest, each), None)

    def _note_static(self, ask: PodAsk, body: PodListed, key: str) -> None:
        """A static pod is called by its manifest's name and its node's."""
        node = (body.spec or {}).get("nodeName")
        suffix = f"-{node}".lower() if isinstance(node, str) else ""
        if ask.is_static and suffix and ask.name.endswith(suffix):
            name = name_key(ask.namespace, ask.name.removesuffix(suffix))
            self._statics.setdefault(name, []).append(key)

    def count(self, ask: PodAsk, container_id: str | None) -> int | None:
        """Restart count of an instance of the pod, as most lists with it tell."""
        key = pod_key(ask.uid, ask.namespace, ask.name) or ""
        found = self._counts.get(key, {}).get(container_id or "")
        return found.most_common(1)[0][0] if found else None

    def knows(self, uid: str | None, namespace: str, name: str, container_id: str) -> bool:
        """Whether a list of the pod shows that container."""
        return container_id in self._counts.get(pod_key(uid, namespace, name) or "", {})

    def started_ns(self, ask: PodAsk | None, container_id: str | None) -> int | None:
        """When a container began to run, as the first list with it tells."""
        if ask is None or container_id is None:
            return None
        key = pod_key(ask.uid, ask.namespace, ask.name) or ""
        return self._first_started.get(key, {}).get(container_id)

    def find(self, uid: str | None, namespace: str, name: str) -> PodAsk | None:
        """The pod; by its name only where no UID is known and one pod has that name."""
        key = uid
        if key is None:
            keys = self._keys.get(name_key(namespace, name), [])
            key = keys[0] if len(keys) == 1 else None
        found = self._choice(key) if key is not None else None
        return found or self._choice(f"{_MANIFEST}{name_key(namespace, name)}")

    def _choice(self, key: str) -> PodAsk | None:
        chosen = self._chosen.get(key)
        if chosen is None and (versions := self._versions.get(key)):
            best = max(versions.values(), key=lambda version: (version.count, -version.ask.seq))
            chosen = self._chosen[key] = best.ask
        return chosen

    def is_disputed(self, ask: PodAsk) -> bool:
        """Whether lists of the pod disagree, so that the importer may have used another one."""
        key = pod_key(ask.uid, ask.namespace, ask.name) or ""
        return len(self._versions.get(key, ())) > 1

    def other_manifests(self) -> list[tuple[PodAsk, PodAsk, Difference]]:
        """Manifests that say something else than each list of their pod: where it says so first."""
        found = []
        for key, versions in self._versions.items():
            pods = [pod for pod in map(self._choice, self._statics.get(_named(key), ())) if pod]
            for manifest in (version.ask for version in versions.values()):
                if key.startswith(_MANIFEST) and pods:
                    each = [differences(manifest, pod) for pod in pods]
                    if all(each):
                        found.append((manifest, pods[-1], each[-1][0]))
        return found

    def miscounted(self) -> list[tuple[PodAsk, str, list[tuple[int, int]]]]:
        """Containers of which lists count different restarts: ID, and (seq, count) of each.

        The count belongs to the instance: with each restart there is a new one.
        """
        found = []
        for key, counts in self._counts.items():
            ask = self._choice(key)
            for container_id, told in counts.items():
                if len(told) > 1 and container_id and ask is not None:
                    by = self._counted_by
                    sides = sorted((by[key, container_id, count], count) for count in told)
                    found.append((ask, container_id, sides))
        return found

    def is_miscounted(self, key: str, container_id: str) -> bool:
        """Whether lists disagree about its restarts."""
        return len(self._counts.get(key, {}).get(container_id, ())) > 1

    def disagreements(self) -> list[tuple[PodAsk, ...]]:
        """Pods of which lists say different things, each list's first."""
        return [
            tuple(sorted((v.ask for v in versions.values()), key=lambda ask: ask.seq))
            for versions in self._versions.values()
            if len(versions) > 1
        ]


def _ask_of(seq: int, body: PodListed) -> PodAsk:
    try:
        spec = msgspec.convert(body.spec, type=_Spec)
    except msgspec.ValidationError:
        spec = None
    source = body.annotations.get("kubernetes.io/config.source")
    return PodAsk(
        seq=seq,
        namespace=body.namespace,
        name=body.pod,
        uid=body.pod_uid,
        is_api=body.listed_by != "manifest",
        is_static=source in ("file", "http") or body.listed_by == "manifest",
        spec=spec,
    )


def _named(key: str) -> str:
    return key.removeprefix(_MANIFEST)


def _counted(status: dict[str, Any]) -> list[tuple[str, int]]:
    """Containers of a pod's status: bare ID and restart count."""
    found = []
    for group in ("initContainerStatuses", "containerStatuses"):
        for entry in status.get(group) or ():
            if isinstance(entry, dict) and isinstance(entry.get("restartCount"), int):
                container_id = str(entry.get("containerID") or "").rpartition("//")[2]
                found.append((container_id, entry["restartCount"]))
                before = _id_before(entry)
                # One that waits for its back-off is its own last state. Where the instance could
                # not be found, the count may or may not include the next.
                if before and container_id not in ("", before) and entry["restartCount"]:
                    found.append((before, entry["restartCount"] - 1))
    return found


def _id_before(entry: dict[str, Any]) -> str:
    try:
        return str(entry["lastState"]["terminated"]["containerID"]).rpartition("//")[2]
    except (KeyError, TypeError):
        return ""


def _started(status: dict[str, Any]) -> dict[str, int]:
    """Running containers of a pod's status: bare ID -> since when."""
    found = {}
    for group in ("initContainerStatuses", "containerStatuses"):
        for entry in status.get(group) or ():
            try:
                started = entry["state"]["running"]["startedAt"]
                container_id = entry["containerID"].rpartition("//")[2]
                found[container_id] = parse_ts(started)
            except (KeyError, TypeError, ValueError, AttributeError):
                continue
    return found
