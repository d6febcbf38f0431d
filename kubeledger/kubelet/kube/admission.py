"""Errors with which the kubelet's resource managers refuse a container."""

from __future__ import annotations

UNEXPECTED_REASON = "UnexpectedAdmissionError"
EMPTY_POOL_REASON = "EmptyPodSharedPoolError"


class AllocationError(Exception):
    """A manager has nothing for a container, or for a pod; the text is the kubelet's.

    Attributes:
        reason: that the pod is refused with.

    Source: v1.36.2 pkg/kubelet/cm/admission/errors.go Error
    """

    def __init__(self, text: str, reason: str = UNEXPECTED_REASON) -> None:
        super().__init__(text)
        self.reason = reason

    @property
    def message(self) -> str:
        """What the refusal of the pod says.

        Source: v1.36.2 pkg/kubelet/cm/admission/errors.go GetPodAdmitResult
        Differs: no
        """
        if self.reason == UNEXPECTED_REASON:
            return f"Allocate failed due to {self}, which is unexpected"
        return str(self)
