"""A pod as JSON of foreign files: its containers, and the instances that its status shows of them.

Whatever has not the API's form is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kubeledger.model.units import parse_ts

_KINDS = ("initContainer", "container", "ephemeralContainer")


class ShownInstance(NamedTuple):
    """One instance of a container, in a state.

    Attributes:
        container_id: bare.
        is_present: the status is its own; False: it is the one before.
        restart_count: restarts up to it; None where the status leaves that open.
        state: ``running``, ``terminated``, of the present one also ``waiting``, or empty.
        shown: what the state says of it.
    """

    name: str
    container_id: str
    is_present: bool
    restart_count: int | None
    state: str
    shown: dict[str, Any]

    def time(self, field: str) -> int | None:
        """A time of the state; None where it has none, as of one that never began.

        Runtimes write 1970 or the year 1 for that.
        """
        try:
            return max(parse_ts(str(self.shown.get(field) or "")), 0) or None
        except ValueError:
            return None


def objects_of(value: object) -> Iterator[dict[str, Any]]:
    """The objects in a list of foreign JSON; none where it is not a list."""
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def claims_of(spec: Mapping[str, Any], status: Mapping[str, Any]) -> list[str]:
    """Names of the resource claims of a pod, as far as its JSON tells."""
    named = (
        *objects_of(spec.get("resourceClaims")),
        *objects_of(status.get("resourceClaimStatuses")),
        *objects_of([status.get("extendedResourceClaimStatus")]),
    )
    names = (each.get("resourceClaimName") for each in named)
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))


def containers_of_spec(spec: Mapping[str, Any] | None) -> Iterator[dict[str, Any]]:
    """The containers of a spec, init and ephemeral ones included."""
    for kind in _KINDS:
        yield from objects_of((spec or {}).get(f"{kind}s"))


def statuses_in(status: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """The statuses of all containers, init and ephemeral ones included."""
    for kind in _KINDS:
        yield from objects_of((status or {}).get(f"{kind}Statuses"))


def instances_in(status: dict[str, Any] | None) -> Iterator[ShownInstance]:
    """What a pod's status shows of instances, the older one of a container first."""
    for entry in statuses_in(status):
        yield from _of_container(entry)


def bare_id(container_id: object) -> str:
    """An ID without ``containerd://``."""
    return str(container_id or "").rpartition("//")[2]


def _of_container(entry: dict[str, Any]) -> Iterator[ShownInstance]:
    name, present = str(entry.get("name") or ""), bare_id(entry.get("containerID"))
    count = entry.get("restartCount")
    count = count if isinstance(count, int) else None
    for field, is_present in (("lastState", False), ("state", True)):
        states = entry.get(field)
        if not isinstance(states, dict) or not states:
            states = {"": {}} if is_present else {}
        for state, shown in states.items():
            if not isinstance(shown, dict):
                continue
            own = bare_id(shown.get("containerID")) or (present if is_present else "")
            of = count
            if own != present:
                # Without a present instance the count may include one that is still to come.
                of = count - 1 if count and present else None
            if own:
                yield ShownInstance(name, own, is_present, of, state, shown)
