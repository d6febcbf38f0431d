"""Which names there are: they are replaced wherever they stand, in texts, too."""

from __future__ import annotations

import re
from typing import Any

from kubeledger.analyze.redaction.forms import is_resource, words
from kubeledger.analyze.redaction.pseudonyms import Pseudonyms

_NAMES = words(
    "namespace pod container victim_namespace victim_pod preemptor_namespace preemptor_pod"
    " hostname subdomain serviceAccountName serviceAccount image about"
)
"""Fields whose values are names that may also stand in texts."""

IMAGE_IDS = words("image_id imageID")
IMAGE_ID = re.compile(r"(?s)(?:(?P<name>.*)@)?(?P<form>sha256:|)(?P<digest>[0-9a-f]{64})")
KEYED_BY_USERS = words("labels annotations nodeSelector matchLabels")
MAPS_BY_RESOURCE = words("requests limits allocatedResources overhead resources")
_OWN_MAPS_BY_RESOURCE = words("capacity allocatable hints memory registered")
_DEVICES = words("device_ids numa registered")
_RESOURCES = words("resource reclaimed type resourceName")

_COMPARED = words("Gt Lt")
"""Operators by which a label's value counts as a number."""


def collect(value: Any, pseudonyms: Pseudonyms, key: str = "") -> None:  # noqa: ANN401 # any JSON
    """Note the names in a body.

    Args:
        value: the body, or a value in it.
        pseudonyms: is told of them.
        key: the field that the value is of.
    """
    if isinstance(value, dict):
        _collect_labels(value, pseudonyms, key)
        if key not in KEYED_BY_USERS:
            _collect_fields(value, pseudonyms, key)
    elif isinstance(value, list | tuple):
        for inner in value:
            collect(inner, pseudonyms, key)
    elif isinstance(value, str):
        _collect_name(value, pseudonyms, key)


def _collect_fields(value: dict[str, Any], pseudonyms: Pseudonyms, key: str) -> None:
    for name, inner in value.items():
        if key == "assignments":
            pseudonyms.add(name)
        if key in MAPS_BY_RESOURCE or key in _OWN_MAPS_BY_RESOURCE:
            pseudonyms.add_resource(name)
        collect(inner, pseudonyms, key if key in _DEVICES else name)


def _collect_labels(value: dict[str, Any], pseudonyms: Pseudonyms, key: str) -> None:
    """Values of labels that may be compared as numbers, and keys by which they are."""
    if key in KEYED_BY_USERS:
        for label, text in value.items():
            pseudonyms.add_number(label, str(text))
        return
    by, values = value.get("key"), value.get("values")
    if isinstance(by, str) and isinstance(values, list):
        for text in values:
            pseudonyms.add_number(by, str(text), is_compared=value.get("operator") in _COMPARED)


def _collect_name(text: str, pseudonyms: Pseudonyms, key: str) -> None:
    if key in IMAGE_IDS:
        image = IMAGE_ID.fullmatch(text)
        pseudonyms.add_ordered(*(("images", image["digest"]) if image else ("names", text)))
    elif key in _DEVICES:
        pseudonyms.add_ordered("devices", text)
    elif key in _RESOURCES:
        pseudonyms.add_resource(text)
    elif key == "nodeName":
        pseudonyms.add_node(text)
    elif key in _NAMES or (key == "name" and not is_resource(text)):
        pseudonyms.add(text)
