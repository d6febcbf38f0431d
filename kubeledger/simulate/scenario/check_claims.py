"""Whether pods name the resource claims of a scenario, and its kubelet prepares any."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubeledger.kubelet.profile.gates import with_gates
from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.simulate.engine.failures import objects
from kubeledger.simulate.scenario.faults import twice
from kubeledger.simulate.scenario.models_claims import claim_name
from kubeledger.simulate.scenario.pods import name_of
from kubeledger.simulate.scenario.problems import Fault, suggestion
from kubeledger.simulate.scenario.validate import Groups, Sound


def check_claims(sound: Sound, groups: Groups, settings: dict[str, Any]) -> Iterator[Fault]:
    """Claims that nobody uses."""
    claims, version = sound.items["claims"], sound.scenario.kubelet_version
    names = [(("claims", i, "name"), f"{each.namespace}/{each.name}") for i, each in claims]
    yield from twice(names, lambda name: f"claim {name} is there twice")
    stages = with_gates(resolve(version), settings.get("featureGates")).stages
    if claims and not stages.dynamic_resources:
        advice = "choose 1.34 or later, or 1.28 with the gate DynamicResourceAllocation"
        yield ("claims",), f"kubelet {version} prepares no claims", advice
    if sound.incomplete & {"pods"}:
        return
    entries, users = dict(sound.items["pods"]), dict[str, set[str]]()
    for index, manifests in groups:
        for manifest in manifests:
            named, spec = name_of(manifest), _spec_of(manifest)
            for suffix in entries[index].suffixes if named is not None else ():
                assert named is not None
                pod = named[1] + suffix
                for claim in objects(spec.get("resourceClaims")):
                    users.setdefault(f"{named[0]}/{claim_name(pod, claim)}", set()).add(pod)
    for index, claim in claims:
        key = f"{claim.namespace}/{claim.name}"
        if key not in users:
            yield ("claims", index, "name"), "no pod names it", suggestion(key, users, "claim")
        for number, pod in enumerate(claim.reserved_for or ()):
            if pod not in users.get(key, {pod}):
                at = ("claims", index, "reservedFor", number)
                yield at, f"no pod {pod!r} names it", suggestion(pod, users[key], "pod")


def _spec_of(manifest: object) -> dict[str, Any]:
    spec = manifest.get("spec") if isinstance(manifest, dict) else None
    return spec if isinstance(spec, dict) else {}
