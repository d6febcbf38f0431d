"""Whether the containers of a pod are started again, as far as its lists show.

Since 1.34 (gate ContainerRestartRules) a container may have a restart policy of its own. Whether
the gate is on is not asked: where policies differ, each may count.
"""

from __future__ import annotations

import msgspec

from kubeledger.kubelet.kube.restartpolicy import ALWAYS, NEVER, ON_FAILURE, policy_restarts
from kubeledger.verify.evidence.pods import ListedPod

__all__ = ["Restarting"]


class _Container(msgspec.Struct, rename="camel", frozen=True):
    name: str = ""
    restart_policy: str | None = None
    restart_policy_rules: tuple[msgspec.Raw, ...] | None = None


class _Spec(msgspec.Struct, rename="camel", frozen=True):
    restart_policy: str | None = None
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None


class _Pod(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


class Restarting:
    """What is known of the restarts of one pod's containers.

    Attributes:
        names: of its containers; None when no list shows them.
    """

    def __init__(self, listed: ListedPod | None, policy: str | None = None) -> None:
        """``policy``: of the pod, where no list shows it and something else says."""
        spec = _spec_of(listed)
        self._policy = policy
        if spec is not None:
            self._policy = spec.restart_policy or ALWAYS
        inits, own = ((), ()) if spec is None else (spec.init_containers, spec.containers)
        self._inits = {each.name: each for each in inits or ()}
        self._own = {each.name: each for each in own or ()}
        self.names = None if spec is None else tuple(self._own)

    @property
    def always(self) -> bool:
        """Whether all are started again always, so that the pod does not end by itself."""
        each = (*self._inits.values(), *self._own.values())
        return self._policy == ALWAYS and all(c.restart_policy in (None, ALWAYS) for c in each)

    def is_init(self, name: str) -> bool:
        """Whether it is one of the initialization, a sidecar among them."""
        return name in self._inits

    @property
    def has_sidecars(self) -> bool:
        """Whether containers of it end after all others."""
        return any(each.restart_policy == ALWAYS for each in self._inits.values())

    def is_sidecar(self, name: str) -> bool:
        """Whether it starts again, and ends with the pod."""
        return name in self._inits and self._inits[name].restart_policy == ALWAYS

    def again(self, name: str, exit_code: int | None) -> bool | None:
        """Whether a container that ended is started again; None when it is not known."""
        policies, has_rules = self._policies(name)
        answers = {_restarts(policy, exit_code) for policy in policies}
        if has_rules and answers != {True}:
            return None
        return answers.pop() if len(answers) == 1 else None

    def fails(self, name: str) -> bool | None:
        """Whether the pod is over when this container of the initialization failed."""
        policies, has_rules = self._policies(name)
        if NEVER not in policies:
            return False
        return True if len(policies) == 1 and not has_rules else None

    def _policies(self, name: str) -> tuple[set[str | None], bool]:
        own = self._own.get(name) or self._inits.get(name)
        if own is None or own.restart_policy is None:
            return {self._policy}, False
        return {self._policy, own.restart_policy}, bool(own.restart_policy_rules)


def _restarts(policy: str | None, exit_code: int | None) -> bool | None:
    if policy is None or (policy == ON_FAILURE and exit_code is None):
        return None
    return policy_restarts(policy, exit_code or 0)


def _spec_of(listed: ListedPod | None) -> _Spec | None:
    if listed is None:
        return None
    try:
        return listed.as_(_Pod).spec
    except msgspec.ValidationError:
        return None
