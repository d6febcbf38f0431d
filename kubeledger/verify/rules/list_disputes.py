"""Lists and manifests that disagree about what cannot change while a pod lives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec

from kubeledger.kubelet.kube.pod import Pod
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.evidence.container_specs import versions_of
from kubeledger.verify.evidence.pods import ListedPod, PodRegister


def report_disputes(context: VerifyContext) -> None:
    """Say which lists of a pod differ, and which manifests differ from all lists of their pods."""
    of_manifests: dict[ListedPod, list[tuple[ListedPod, tuple[str, str, str] | None]]] = {}
    for lists in context.pods.all_versions():
        newest, specs = lists[-1], versions_of(lists)
        if len(specs) > 1:
            context.contradict(
                newest.ts_ns,
                f"pod/{newest.namespace}/{newest.name}",
                f"{len(specs)} lists of the pod differ in its probes, grace periods or restart "
                "policy, which cannot change while it lives",
                *((s.seq, f"pod {newest.uid}: version {n}") for n, s in enumerate(specs, start=1)),
            )
        manifest = _manifest_of(context.pods, newest)
        if manifest is not None and specs and specs[0].is_static:
            used = msgspec.to_builtins(specs[0].spec)
            given = [msgspec.to_builtins(spec.spec) for spec in versions_of((manifest,))]
            found = (each for spec in given for each in _differences(spec, used))
            of_manifests.setdefault(manifest, []).append((newest, next(found, None)))
    for manifest, pods in of_manifests.items():
        listed, one = pods[-1]
        if one is not None and all(each is not None for _, each in pods):
            what, given_there, shown = one
            context.contradict(
                listed.ts_ns,
                f"pod/{listed.namespace}/{listed.name}",
                f"the pod's manifest and the list of it differ in {what}",
                (manifest.seq, f"{what}: {given_there}"),
                (listed.seq, f"{what}: {shown}"),
            )
    for subject, container_id, counts in context.instances.disputed():
        context.contradict(
            max(ts_ns for _, ts_ns, _ in counts),
            subject,
            f"lists count different restarts up to the same container {container_id}",
            *((seq, f"restartCount {count}") for seq, _, count in counts),
        )


def _manifest_of(pods: PodRegister, listed: ListedPod) -> ListedPod | None:
    """A static pod is called by its manifest's name and its node's."""
    with suppress(msgspec.ValidationError):
        node = (listed.as_(Pod).spec.node_name or "").lower()
        name = listed.name.removesuffix(f"-{node}")
        return pods.manifest(listed.namespace, name) if node and name != listed.name else None
    return None


def _differences(given: object, used: object, what: str = "") -> Iterator[tuple[str, str, str]]:
    """Where a list lacks what a manifest gives, and what each says; the kubelet fills in the rest.

    A zero is as good as nothing, and gets the default; but no probe is filled in.
    """
    if isinstance(given, dict) and isinstance(used, dict):
        for name, value in given.items():
            yield from _differences(value, used.get(name), f"{name} of {what}" if what else name)
    elif isinstance(given, list) and isinstance(used, list) and what.lower().endswith("containers"):
        by_name = {container["name"]: container for container in used}
        for container in given:
            name = container["name"]
            yield from _differences(container, by_name.get(name), f"container {name}")
    elif given != used and (given or isinstance(used, dict)):
        yield what, _says(given), _says(used)


def _says(value: object) -> str:
    return "there" if isinstance(value, dict) else "missing" if value is None else str(value)
