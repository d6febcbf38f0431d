"""Does the pod tolerate the node's NoExecute taints?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubeledger.kubelet.kube.pod import Taint, Toleration

NO_EXECUTE: Final = "NoExecute"


def tolerates_no_execute(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> bool:
    """Whether each taint that evicts is tolerated; others are the scheduler's business.

    Source: v1.36.2 staging/src/k8s.io/component-helpers/scheduling/corev1/helpers.go
        FindMatchingUntoleratedTaint
    Differs: no. Operators that compare numbers have a gate that is off.
    """
    tolerations = tuple(tolerations)
    return all(
        any(tolerates(toleration, taint) for toleration in tolerations)
        for taint in taints
        if taint.effect == NO_EXECUTE
    )


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration is for a taint.

    Empty effect and key stand for all; ``Exists`` does not look at the value.

    Source: v1.36.2 staging/src/k8s.io/api/core/v1/toleration.go ToleratesTaint
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", None, "Equal"):
        return (toleration.value or "") == (taint.value or "")
    return toleration.operator == "Exists"
