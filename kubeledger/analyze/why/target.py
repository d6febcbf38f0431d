"""What one can ask about: ``pod/NS/NAME``, ``container/NS/POD/C``, ``image/ID`` and so on."""

from __future__ import annotations

from typing import Literal

import msgspec

from kubeledger.model.errors import BadQuestionError

TargetKind = Literal["pod", "container", "image", "device", "cgroup", "node"]

FORMS: dict[TargetKind, str] = {
    "pod": "pod/NS/NAME",
    "container": "container/NS/POD/C",
    "image": "image/ID",
    "device": "device/RESOURCE/ID",
    "cgroup": "cgroup/PATH",
    "node": "node or node/NAME",
}


class Target(msgspec.Struct, frozen=True):
    """What is asked about.

    Attributes:
        kind: which form it has.
        parts: what stands after the kind: (namespace, name), (namespace, pod, container),
            (ID,), (resource, ID), (path,), (name,), or nothing for any node; (UID,) of a pod
            whose name no record has, (name,) of one of which no record has anything else.
        pod_uid: of the pod that is meant, where others may have had its name; None: the last.
    """

    kind: TargetKind
    parts: tuple[str, ...]
    pod_uid: str | None = None

    def __str__(self) -> str:
        """As it is written on the command line."""
        return "/".join((self.kind, *self.parts))


def parse_target(text: str) -> Target:
    """Read a target as users write it.

    A resource name holds a slash of its own (``device/example.com/gpu/gpu-3``), and so do
    paths of cgroups and names of images.

    Raises:
        BadQuestionError: it has none of the forms.
    """
    word, _, rest = text.partition("/")
    kind = next((kind for kind in FORMS if kind == word), None)
    if kind is None:
        raise BadQuestionError(f"unknown target {text!r}", advice=f"give {_forms()}")
    if text == "node":
        return Target("node", ())
    if kind == "device":
        resource, _, device = rest.rpartition("/")
        parts: tuple[str, ...] = (resource, device)
    elif kind in {"image", "cgroup"}:
        parts = (rest.strip("/") if kind == "cgroup" else rest,)
    else:
        parts = tuple(rest.split("/"))
    if not all(parts) or len(parts) != _PARTS.get(kind, len(parts)):
        raise BadQuestionError(f"{text!r} is not of the form {FORMS[kind]}")
    return Target(kind, parts)


_PARTS = {"pod": 2, "container": 3, "node": 1}


def _forms() -> str:
    return ", ".join(FORMS.values())
