"""Whether what a scenario lets fail is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubeledger.kubelet.profile.gates import with_gates
from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.simulate.engine.failures import env_sources, objects, volume_sources
from kubeledger.simulate.scenario.models_claims import DRIVER
from kubeledger.simulate.scenario.models_failures import UNNAMED, Failure
from kubeledger.simulate.scenario.pods import containers_of, name_of
from kubeledger.simulate.scenario.problems import Fault, suggestion
from kubeledger.simulate.scenario.validate import Groups, Sound

_CALLED = {
    "claim": "resource claim",
    "configMap": "config map",
    "create": "container",
    "hook": "container with a post-start hook",
    "start": "container",
}


def check_failures(sound: Sound, groups: Groups, settings: dict[str, Any]) -> Iterator[Fault]:
    """Failures of what no pod has, or the kubelet does not know."""
    entries, scenario = dict(sound.items["pods"]), sound.scenario
    whole = not sound.incomplete & {"pods"}
    names = {
        f"{named[0]}/{named[1]}{suffix}"
        for index, manifests in groups
        for manifest in manifests
        if (named := name_of(manifest)) is not None
        for suffix in entries[index].suffixes
    }
    there = {found for _, manifests in groups for each in manifests for found in _in(each)}
    there |= {
        ("image", image)
        for pods in entries.values()
        for update in pods.updates
        for image in update.images.values()
    }
    there |= {("driver", name) for _, claim in sound.items["claims"] for name in claim.drivers}
    there |= {("driver", DRIVER)} if any(what == "claim" for what, _ in there) else set()
    facts = with_gates(resolve(scenario.kubelet_version), settings.get("featureGates")).stages
    for index, failure in sound.items["failures"]:
        prepares = facts.dynamic_resources and facts.claim_failures_reported
        if failure.what in ("claim", "driver") and not prepares:
            text = f"kubelet {scenario.kubelet_version} prepares no claims that could fail"
            advice = "choose 1.34 or later, or 1.28 with the gate DynamicResourceAllocation"
            yield ("failures", index, "what"), text, advice
        if whole:
            yield from _named(index, failure, names, there)


def _named(
    index: int, failure: Failure, names: set[str], there: set[tuple[str, str]]
) -> Iterator[Fault]:
    for number, pod in enumerate(failure.pods):
        if (pod if "/" in pod else f"default/{pod}") not in names:
            at = ("failures", index, "pods", number)
            yield at, f"there is no pod {pod!r}", suggestion(pod, names, "pod")
    known = {name for what, name in there if what == failure.what}
    if failure.of is not None and failure.what not in UNNAMED and failure.of not in known:
        called = _CALLED.get(failure.what, failure.what)
        text = f"no pod has a {called} {failure.of!r}"
        yield ("failures", index, "of"), text, suggestion(failure.of, known, called)


def _in(manifest: object) -> Iterator[tuple[str, str]]:
    """What a pod has that can fail, with its name."""
    spec = manifest.get("spec") if isinstance(manifest, dict) else None
    if not isinstance(spec, dict):
        return
    for volume in objects(spec.get("volumes")):
        yield from volume_sources(volume)
    for claim in objects(spec.get("resourceClaims")):
        yield "claim", str(claim.get("name"))
    for container, _, _ in containers_of(manifest):
        name = str(container.get("name"))
        yield from (("create", name), ("start", name), ("image", str(container.get("image"))))
        yield from env_sources(container)
        lifecycle = container.get("lifecycle")
        if isinstance(lifecycle, dict) and lifecycle.get("postStart"):
            yield "hook", name
