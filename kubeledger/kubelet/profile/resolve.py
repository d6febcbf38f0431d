"""From a version text to the profile of that kubelet."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

import msgspec

from kubeledger.kubelet.profile import (
    admission,
    cgroups,
    devices,
    eviction,
    images,
    kuberuntime,
    lifecycle,
    prober,
    resourcemanagers,
    topology,
)
from kubeledger.kubelet.profile.facts import Fact, KubeletVersion, parse_version

__all__ = ["FACT_TABLES", "KubeletProfile", "resolve"]

FactsT = TypeVar("FactsT", bound=msgspec.Struct)

FACT_TABLES: dict[str, tuple[Fact, ...]] = {
    "admission": admission.FACTS,
    "cgroups": cgroups.FACTS,
    "devices": devices.FACTS,
    "eviction": eviction.FACTS,
    "images": images.FACTS,
    "kuberuntime": kuberuntime.FACTS,
    "lifecycle": lifecycle.FACTS,
    "prober": prober.FACTS,
    "resourcemanagers": resourcemanagers.FACTS,
    "topology": topology.FACTS,
}
"""subsystem -> its facts; docs/parity.md is generated from this."""


class KubeletProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What one kubelet version does, wherever versions differ.

    Attributes:
        version: the version asked for.
        admission, cgroups, devices, eviction, images, kuberuntime, lifecycle, prober,
            resourcemanagers, topology: facts by subsystem.
    """

    version: KubeletVersion
    admission: admission.AdmissionFacts
    cgroups: cgroups.CgroupFacts
    devices: devices.DeviceFacts
    eviction: eviction.EvictionFacts
    images: images.ImageFacts
    kuberuntime: kuberuntime.KuberuntimeFacts
    lifecycle: lifecycle.LifecycleFacts
    prober: prober.ProberFacts
    resourcemanagers: resourcemanagers.ResourceManagerFacts
    topology: topology.TopologyFacts


@lru_cache(maxsize=256)
def resolve(version_text: str) -> KubeletProfile:
    """Profile of a kubelet version.

    Raises:
        BadQuestionError: the text is no version, or one outside of the known range.
    """
    version = parse_version(version_text)

    def facts(cls: type[FactsT], table: tuple[Fact, ...]) -> FactsT:
        return cls(**{fact.name: fact.holds(version) for fact in table})

    return KubeletProfile(
        version=version,
        admission=facts(admission.AdmissionFacts, admission.FACTS),
        cgroups=facts(cgroups.CgroupFacts, cgroups.FACTS),
        devices=facts(devices.DeviceFacts, devices.FACTS),
        eviction=facts(eviction.EvictionFacts, eviction.FACTS),
        images=facts(images.ImageFacts, images.FACTS),
        kuberuntime=facts(kuberuntime.KuberuntimeFacts, kuberuntime.FACTS),
        lifecycle=facts(lifecycle.LifecycleFacts, lifecycle.FACTS),
        prober=facts(prober.ProberFacts, prober.FACTS),
        resourcemanagers=facts(resourcemanagers.ResourceManagerFacts, resourcemanagers.FACTS),
        topology=facts(topology.TopologyFacts, topology.FACTS),
    )
