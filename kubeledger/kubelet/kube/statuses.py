"""Containers' statuses, and whether a container that ended is started again.

Whatever has not the API's form is passed over.

Source: v1.36.2 pkg/api/v1/pod/util.go, under the names there
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from kubeledger.kubelet.kube.pod import Int32
from kubeledger.model.units import parse_ts

LOST_EXIT_CODE: Final = 255
"""Of what the runtime had lost, and found ended later."""
_KINDS = ("initContainer", "container", "ephemeralContainer")


class ShownInstance(NamedTuple):
    """One instance of a container, in a state.

    Attributes:
        container_id: bare.
        restart_count: restarts up to it; None where the status leaves that open.
        state: ``running``, ``terminated``, of the present one also ``waiting``, or empty.
        shown: what the state says of it.
    """

    name: str
    container_id: str
    restart_count: int | None
    state: str
    shown: dict[str, Any]

    def time(self, field: str) -> int | None:
        """As :func:`time_in`, of what is shown."""
        return time_in(self.shown, field)


def time_in(state: Mapping[str, Any], field: str) -> int | None:
    """A time of a container's state; None where it has none, as of one that never began.

    Runtimes write 1970 or the year 1 for that.
    """
    try:
        return max(parse_ts(str(state.get(field) or "")), 0) or None
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
                yield ShownInstance(name, own, of, state, shown)


# Whether a container that ended is started again: exit code rules, its own policy, the pod's.

ALWAYS: Final = "Always"
ON_FAILURE: Final = "OnFailure"
NEVER: Final = "Never"
RESTART: Final = "Restart"
RESTART_ALL: Final = "RestartAllContainers"


class ExitCodes(msgspec.Struct, rename="camel"):
    """Which exit codes a restart rule is for; operator ``In`` or ``NotIn``."""

    operator: str = ""
    values: list[Int32] | None = None


class RestartRule(msgspec.Struct, rename="camel"):
    """One of ``restartPolicyRules``; action ``Restart`` or ``RestartAllContainers``."""

    action: str = ""
    exit_codes: ExitCodes | None = None


class HasRestartPolicy(Protocol):
    """A container of a pod's spec; None where the field is not set."""

    @property
    def restart_policy(self) -> str | None: ...

    @property
    def restart_policy_rules(self) -> Sequence[RestartRule] | None: ...


def is_restartable_init_container(container: HasRestartPolicy) -> bool:
    """Whether an init container is a sidecar: it is restarted whatever the pod's policy.

    Differs: nothing; asked of init containers only.
    """
    return container.restart_policy == ALWAYS


def container_should_restart(
    container: HasRestartPolicy, pod_policy: str, exit_code: int, *, restart_all: bool
) -> bool:
    """Rules of the container first, then its policy, then the pod's (Always when unset).

    Rules count only in a container that has a policy of its own.

    Args:
        restart_all: whether the action RestartAllContainers is known.

    Differs: the gate of the action RestartAllContainers is an argument.
    """
    if container.restart_policy is not None:
        rule = matching_restart_rule(container, exit_code)
        if rule is not None and (
            rule.action == RESTART or (rule.action == RESTART_ALL and restart_all)
        ):
            return True
        if container.restart_policy in (ALWAYS, ON_FAILURE, NEVER):
            return policy_restarts(container.restart_policy, exit_code)
    return policy_restarts(pod_policy, exit_code)


def is_container_restartable(container: HasRestartPolicy, pod_policy: str) -> bool:
    """Whether any exit of a container could have it restarted."""
    if container.restart_policy is None:
        return pod_policy != NEVER
    rules = container.restart_policy_rules or ()
    return container.restart_policy != NEVER or any(rule.action == RESTART for rule in rules)


def policy_restarts(policy: str, exit_code: int) -> bool:
    """Whether a restart policy alone starts a container again; an unknown one is Always."""
    return policy != NEVER and (policy != ON_FAILURE or exit_code != 0)


def matching_restart_rule(container: HasRestartPolicy, exit_code: int) -> RestartRule | None:
    """The first rule whose exit codes match.

    Source: v1.36.2 pkg/api/v1/pod/util.go FindMatchingContainerRestartRule
    Differs: None instead of an empty rule and false.
    """
    for rule in container.restart_policy_rules or ():
        if rule.exit_codes is None:
            continue
        listed = exit_code in (rule.exit_codes.values or ())
        if rule.exit_codes.operator == ("In" if listed else "NotIn"):
            return rule
    return None
