"""From a version text to the profile of that kubelet."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from kubeledger.kubelet.profile.admission import AdmissionFacts
from kubeledger.kubelet.profile.allocation import AllocationFacts
from kubeledger.kubelet.profile.cgroups import CgroupFacts
from kubeledger.kubelet.profile.devices import DeviceFacts
from kubeledger.kubelet.profile.dra import DraFacts
from kubeledger.kubelet.profile.eviction import EvictionFacts
from kubeledger.kubelet.profile.facts import Fact, KubeletVersion, declared, parse_version
from kubeledger.kubelet.profile.imagepull import ImagePullFacts
from kubeledger.kubelet.profile.images import ImageFacts
from kubeledger.kubelet.profile.kuberuntime import KuberuntimeFacts
from kubeledger.kubelet.profile.lifecycle import LifecycleFacts
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.kubelet.profile.resourcemanagers import ResourceManagerFacts
from kubeledger.kubelet.profile.stages import StageFacts
from kubeledger.kubelet.profile.topology import TopologyFacts


class KubeletProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What one kubelet version does, wherever versions differ: facts by subsystem.

    Attributes:
        version: the version asked for.
    """

    version: KubeletVersion
    admission: AdmissionFacts
    allocation: AllocationFacts
    cgroups: CgroupFacts
    devices: DeviceFacts
    dra: DraFacts
    eviction: EvictionFacts
    imagepull: ImagePullFacts
    images: ImageFacts
    kuberuntime: KuberuntimeFacts
    lifecycle: LifecycleFacts
    prober: ProberFacts
    resourcemanagers: ResourceManagerFacts
    stages: StageFacts
    topology: TopologyFacts


_GROUPS = {
    field.name: field.type
    for field in msgspec.structs.fields(KubeletProfile)
    if field.name != "version"
}

FACT_TABLES: dict[str, dict[str, Fact]] = {name: declared(of) for name, of in _GROUPS.items()}
"""subsystem -> name -> fact; docs/internals/parity.md is generated from this."""


@lru_cache(maxsize=256)
def resolve(version_text: str) -> KubeletProfile:
    """Profile of a kubelet version.

    Raises:
        BadQuestionError: the text is no version, or one outside of the known range.
    """
    version = parse_version(version_text)
    groups = {
        name: of(**{field: fact.holds(version) for field, fact in FACT_TABLES[name].items()})
        for name, of in _GROUPS.items()
    }
    return KubeletProfile(version=version, **groups)
