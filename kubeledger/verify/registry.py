"""All verifiers, in the order in which they see a record."""

from __future__ import annotations

from kubeledger.verify.admission.verifier import AdmissionVerifier
from kubeledger.verify.assignments.cpus import CpuAssignmentVerifier
from kubeledger.verify.assignments.memory import MemoryAssignmentVerifier
from kubeledger.verify.cgroups.verifier import CgroupVerifier
from kubeledger.verify.devices.verifier import DeviceVerifier
from kubeledger.verify.evictions.verifier import EvictionVerifier
from kubeledger.verify.images.verifier import ImagesVerifier
from kubeledger.verify.lives.verifier import LivesVerifier
from kubeledger.verify.oom_kills import OomVerifier
from kubeledger.verify.verifier import Verifier

__all__ = ["VERIFIERS"]

VERIFIERS: tuple[type[Verifier], ...] = (
    AdmissionVerifier,
    CgroupVerifier,
    CpuAssignmentVerifier,
    DeviceVerifier,
    ImagesVerifier,
    EvictionVerifier,
    LivesVerifier,
    MemoryAssignmentVerifier,
    OomVerifier,
)
