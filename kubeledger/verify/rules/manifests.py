"""A static pod's manifest against the same pod as the kubelet lists it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from kubeledger.prober.records import ProbeType

if TYPE_CHECKING:  # the book of specs compares with this
    from kubeledger.verify.rules.spec_book import ContainerAsk, PodAsk, ProbeAsk

__all__ = ["Difference", "differences"]

_PROBES: tuple[ProbeType, ...] = ("liveness", "readiness", "startup")


class Difference(msgspec.Struct, frozen=True):
    """What a manifest says, and what the list says instead."""

    what: str
    manifest: str
    listed: str


def differences(manifest: PodAsk, listed: PodAsk) -> list[Difference]:
    """Where the two disagree in what a manifest gives; the rest is filled in by the kubelet."""
    if manifest.spec is None or listed.spec is None:
        return []
    found = list(_of_pod(manifest, listed))
    for container in (*(manifest.spec.init_containers or ()), *manifest.spec.containers):
        other = listed.container(container.name)
        if other is None:
            found.append(Difference(f"container {container.name}", "there", "missing"))
        else:
            found += _of_container(container, other)
    return found


def _of_pod(manifest: PodAsk, listed: PodAsk) -> Iterator[Difference]:
    assert manifest.spec is not None
    assert listed.spec is not None
    for field in ("restart_policy", "termination_grace_period_seconds"):
        given, used = getattr(manifest.spec, field), getattr(listed.spec, field)
        if given not in (None, used):
            yield Difference(_camel(field), str(given), str(used))


def _of_container(manifest: ContainerAsk, listed: ContainerAsk) -> Iterator[Difference]:
    for probe_type in _PROBES:
        given, used = manifest.probe(probe_type), listed.probe(probe_type)
        name = f"{probe_type} probe of container {manifest.name}"
        if given is not None and used is not None:
            yield from _of_probe(name, given, used)
        elif given is not None or used is not None:
            words = ["missing" if each is None else "there" for each in (given, used)]
            yield Difference(name, words[0], words[1])


def _of_probe(name: str, given: ProbeAsk, used: ProbeAsk) -> Iterator[Difference]:
    for field in given.__struct_fields__:
        says, has = getattr(given, field), getattr(used, field)
        # A zero is as good as nothing, and gets the default.
        if says and says != has:
            yield Difference(f"{_camel(field)} of the {name}", str(says), str(has))


def _camel(field: str) -> str:
    first, *rest = field.split("_")
    return first + "".join(word.capitalize() for word in rest)
