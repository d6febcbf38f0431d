"""Whether a container that ended is started again: exit code rules, its own policy, the pod's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Protocol

import msgspec

ALWAYS: Final = "Always"
ON_FAILURE: Final = "OnFailure"
NEVER: Final = "Never"
RESTART: Final = "Restart"
RESTART_ALL: Final = "RestartAllContainers"

_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class ExitCodes(msgspec.Struct, rename="camel"):
    """Which exit codes a restart rule is for; operator ``In`` or ``NotIn``."""

    operator: str = ""
    values: list[_Int32] | None = None


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

    Source: v1.36.2 pkg/api/v1/pod/util.go IsRestartableInitContainer
    Differs: nothing; asked of init containers only.
    """
    return container.restart_policy == ALWAYS


def container_should_restart(
    container: HasRestartPolicy, pod_policy: str, exit_code: int, *, restart_all: bool
) -> bool:
    """Rules of the container first, then its policy, then the pod's (Always when unset).

    Rules count only in a container that has a policy of its own.

    Args:
        container: the container that ended.
        pod_policy: ``restartPolicy`` of the pod.
        restart_all: whether the action RestartAllContainers is known.

    Source: v1.36.2 pkg/api/v1/pod/util.go ContainerShouldRestart
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
