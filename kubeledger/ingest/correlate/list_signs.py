"""Whether lists of pods were pruned, or their values masked, before they came to the import.

Tools that make lists shorter, or hide what is in them, do so alike in all pods. Of what they leave
out nothing is known, and what they write in its place is no value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kubeledger.ingest.sources.items import Finding
from kubeledger.ingest.sources.plain import object_of
from kubeledger.kubelet.kube.statuses import objects_of, statuses_in
from kubeledger.kubelet.lifecycle.disputes import LISTS_MASKED, LISTS_PRUNED

_OF_CONTAINER: Final = (
    *("imagePullPolicy", "resources", "terminationMessagePath", "terminationMessagePolicy"),
)
_OF_SPEC: Final = ("dnsPolicy", "restartPolicy", "schedulerName", "securityContext")
_OF_API: Final = ("priority",)
"""What admission at the API server writes: pods that the kubelet reads from files have none."""
_NOT_BY_HAND: Final = frozenset(
    {"dnsPolicy", "schedulerName", "terminationMessagePath", "terminationMessagePolicy"}
)
"""Where one of these is shown an API server or a kubelet wrote the list, and so the others."""
_SOURCE: Final = "kubernetes.io/config.source"
_FEW: Final = 2
"""So many that say the same may be wrong by themselves."""


class ListSigns:
    """What all pods of a bundle's lists show, and what none of them does."""

    def __init__(self) -> None:
        self._shown: set[str] = set()
        self._due: set[str] = set()
        self._owners: dict[str, set[str]] = {}  # of a UID, or a container's ID
        self._reasons: dict[str, set[str]] = {}
        self._days: dict[bool, int] = {False: 0, True: 0}

    def take(self, pod: dict[str, Any]) -> None:
        """Note what one pod of a list shows."""
        metadata, spec = object_of(pod.get("metadata")), object_of(pod.get("spec"))
        source = object_of(metadata.get("annotations")).get(_SOURCE, "api")
        of_spec = (*_OF_SPEC, *_OF_API * (source == "api"))
        of_containers = ((each, _OF_CONTAINER) for each in objects_of(spec.get("containers")))
        for shown, fields in ((spec, of_spec), *of_containers):
            self._due.update(fields)
            self._shown.update(field for field in fields if field in shown)
        status = object_of(pod.get("status"))
        self._take_time(metadata.get("creationTimestamp"))
        self._take_words(status)
        for condition in objects_of(status.get("conditions")):
            self._take_words(condition)
        pod_name = f"{metadata.get('namespace')}/{metadata.get('name')}"
        self._take_owner(metadata.get("uid"), pod_name)
        for entry in statuses_in(status):
            self._take_owner(entry.get("containerID"), f"{pod_name}/{entry.get('name')}")
            for each in ("state", "lastState"):
                for state in object_of(entry.get(each)).values():
                    self._take_words(object_of(state))
                    self._take_time(object_of(state).get("startedAt"))

    def _take_owner(self, of: object, owner: str) -> None:
        if of:
            owners = self._owners.setdefault(str(of), set())
            if len(owners) <= _FEW:
                owners.add(owner)

    def _take_words(self, said: dict[str, Any]) -> None:
        if (words := said.get("message")) and (reason := said.get("reason")):
            self._reasons.setdefault(str(words), set()).add(str(reason))

    def _take_time(self, time: object) -> None:
        if isinstance(time, str):
            self._days[time.endswith("T00:00:00Z")] += 1

    def findings(self) -> Iterator[Finding]:
        """What all lists together show to be left out, or hidden."""
        if self._shown & _NOT_BY_HAND and (pruned := sorted(self._due - self._shown)):
            message = f"no list shows {', '.join(pruned)} of a pod, which are always written"
            yield Finding(LISTS_PRUNED, None, message)
        if masked := ", ".join(self._masked()):
            yield Finding(LISTS_MASKED, None, f"lists hide what they show: {masked}")

    def _masked(self) -> Iterator[str]:
        if any(len(owners) > _FEW for owners in self._owners.values()):
            yield "one ID for several pods, or containers"
        if len(self._reasons) == 1 and any(len(each) > _FEW for each in self._reasons.values()):
            yield "one message for all reasons"
        if self._days[True] > _FEW and not self._days[False]:
            yield "days without a time"
