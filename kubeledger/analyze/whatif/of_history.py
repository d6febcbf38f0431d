"""The variants of one node: settings checked against what was recorded of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kubeledger.analyze.histories.history import History
from kubeledger.analyze.whatif.pod_settings import PodChange
from kubeledger.analyze.whatif.variants import parse_setting, parse_variants
from kubeledger.kubelet.kube.quantity import Quantity
from kubeledger.model.bodies.lifecycle import PodListed
from kubeledger.model.bodies.node import KubeletStarted, Setting, SettingsObserved
from kubeledger.model.errors import BadQuestionError
from kubeledger.verify import PodFieldChange, ProbeChange, ResourceChange, Variant

__all__ = ["recorded_settings", "setting_values", "variants_of"]


def variants_of(
    history: History,
    settings: Sequence[str],
    versions: Sequence[str] = (),
    configs: Sequence[tuple[str, dict[str, Any]]] = (),
) -> list[Variant]:
    """All combinations of settings, versions and configurations for a node.

    Args:
        history: of the node.
        settings: each ``KEY=VALUE`` or ``KEY=A|B``, see :func:`parse_setting`.
        versions: of the kubelet; none: the recorded one.
        configs: (name, fields) of configurations, below the settings.

    Raises:
        BadQuestionError: as ``parse_setting`` and ``parse_variants``; a container that no list
            of pods shows, or a request above its limit.
    """
    values = setting_values(recorded_settings(history)[0])
    parsed = [parse_setting(text, values.keys()) for text in settings]
    variants = parse_variants(parsed, versions, configs, values)
    for variant in variants:
        _check_pods(history, variant)
    return variants


def recorded_settings(history: History) -> tuple[dict[str, Setting], str | None]:
    """The node's last settings, and the version of its kubelet."""
    settings: dict[str, Setting] = {}
    version = None
    for record in history.read({KubeletStarted.kind, SettingsObserved.kind}):
        if isinstance(record.body, SettingsObserved):
            settings = record.body.settings
        elif isinstance(record.body, KubeletStarted):
            version = record.body.kubelet_version or version
    return settings, version


def setting_values(settings: dict[str, Setting]) -> dict[str, Any]:
    """Name -> value of recorded settings."""
    return {name: msgspec.json.decode(setting.value) for name, setting in settings.items()}


def _check_pods(history: History, variant: Variant) -> None:
    """Every change is about a listed container, and no request goes above its limit.

    Raises:
        BadQuestionError: one is not.
    """
    of_containers: tuple[ResourceChange | ProbeChange, ...] = (*variant.pods, *variant.probes)
    unused: set[PodChange] = {*of_containers, *variant.pod_fields}
    for record in history.read({PodListed.kind}) if unused else ():
        body = variant.of(record).body
        assert isinstance(body, PodListed)
        unused -= {change for change in variant.pod_fields if change.concerns(body)}
        for container in _containers(body):
            for change in of_containers:
                if change.means(body, container):
                    unused.discard(change)
                    if isinstance(change, ResourceChange):
                        _check_resources(container, change)
    if unused:
        raise BadQuestionError(min(map(_not_shown, unused)))


def _not_shown(change: PodChange) -> str:
    place = f"{change.namespace}/{change.pod}"
    if isinstance(change, PodFieldChange):
        return f"no list of pods shows pod/{place}"
    place = f"container/{place}/{change.container}"
    if isinstance(change, ProbeChange):
        return f"no list of pods shows a {change.probe_type} probe of {place}"
    return f"no list of pods shows {place}"


def _containers(body: PodListed) -> list[dict[str, Any]]:
    spec = body.spec or {}
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def _check_resources(container: dict[str, Any], change: ResourceChange) -> None:
    """As the API server does: a request is at most the limit."""
    resources = container.get("resources") or {}
    asked, limit = (
        (resources.get(part) or {}).get(change.resource) for part in ("requests", "limits")
    )
    if asked is None or limit is None:
        return
    if Quantity.from_api(asked) > Quantity.from_api(limit):
        raise BadQuestionError(
            f"container {container.get('name')} requests {asked} of {change.resource}, more than "
            f"its limit of {limit}",
            advice=f"set resources.requests.{change.resource} as well",
        )
