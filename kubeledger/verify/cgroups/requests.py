"""What pods request, reckoned once for each version of a pod."""

from __future__ import annotations

from typing import Final

import msgspec

from kubeledger.cgroups.qos_config import QOSRequests, qos_requests
from kubeledger.errors import BadInputError
from kubeledger.kube.amounts import check_asked
from kubeledger.kube.pod import Pod, lists_of_pods
from kubeledger.kube.quantity import QuantityError
from kubeledger.profile.resolve import KubeletProfile
from kubeledger.verify.cgroups.pods import Rules
from kubeledger.verify.pods import ListedPod

__all__ = ["Requests"]

_KEPT_MAX: Final = 1024


class Requests:
    """Requests of pods under the rules of one kubelet."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ListedPod, QOSRequests | None]] = {}
        self._profile: KubeletProfile | None = None

    def of(self, listed: ListedPod | None, rules: Rules) -> QOSRequests | None:
        """What a pod requests; None where its spec is not known, or cannot be read."""
        if listed is None:
            return None
        if self._profile is not rules.profile:
            self._known.clear()
            self._profile = rules.profile
        known = self._known.get(listed.seq)
        if known is None or known[0] is not listed:
            if len(self._known) >= _KEPT_MAX:
                self._known.clear()
            known = self._known[listed.seq] = (listed, _requests(listed, rules))
        return known[1]


def _requests(listed: ListedPod, rules: Rules) -> QOSRequests | None:
    try:
        pods = (listed.as_(Pod),)
        check_asked(lists_of_pods(pods))
        return qos_requests(pods, rules.profile.cgroups)
    except (msgspec.ValidationError, BadInputError, QuantityError):
        return None
