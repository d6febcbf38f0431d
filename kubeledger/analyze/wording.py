"""Few words for headlines and ``why``: amounts, names, spans, and what pods and nodes wait for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kubeledger.analyze.summaries import cut, layers_of, short_words, unquoted_end
from kubeledger.model.bodies.node import NodeTrouble, Stage
from kubeledger.model.patterns import regex
from kubeledger.model.units import NS_PER_S
from kubeledger.replay.episodes.node_conditions import NOT_REGISTERED

_UNITS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
_NAMES_MAX = 3
_NAMES_SHOWN = 2
TEXT_MAX = 100
_CAUSE_MIN = 30
"""Less (``no such file or directory``) says nothing without what stands before it."""


def bytes_text(count: int) -> str:
    """Three digits: ``184 GB``, ``9.0 MB``."""
    for size, unit in _UNITS:
        if count >= size:
            value = count / size
            return f"{value:.0f} {unit}" if value >= 99.95 else f"{value:.1f} {unit}"
    return f"{count} B"


def missing_text(insufficient: str) -> str:
    """``cpu=450, memory=1000`` (the views' form) as ``450m cpu, 1.0 kB memory``."""
    return ", ".join(_missing(*each.partition("=")[::2]) for each in insufficient.split(", "))


def _missing(resource: str, amount: str) -> str:
    if not amount.isdecimal():
        return f"{amount} {resource}".strip()
    if resource == "cpu":
        return f"{amount}m cpu"
    if resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-"):
        return f"{bytes_text(int(amount))} {resource}"
    return f"{amount} {resource}"


def names_text(names: Sequence[str]) -> str:
    """Up to three names, of more the first two and how many more; each once."""
    once = list(dict.fromkeys(names))
    if len(once) <= _NAMES_MAX:
        return ", ".join(once)
    return f"{', '.join(once[:_NAMES_SHOWN])} and {len(once) - _NAMES_SHOWN} more"


def ended(text: str) -> str:
    """The text with a full stop, unless it ends as a sentence does, or with an ellipsis."""
    return text if text.endswith(("…", ".", "?", "!")) else f"{text}."


def shortened(message: str) -> str:
    """The end of a chain of errors, which is their cause, cut where it is long."""
    cause = message.strip().splitlines()[0] if message.strip() else "no message"
    cause = _WORDLESS.sub("", _OF_DOCKER.sub("", cause))
    layers = layers_of(cause) if len(cause) > TEXT_MAX else []
    while len(cause) > TEXT_MAX and len(rest := ": ".join(layers[1:])) >= _CAUSE_MIN:
        cause, layers = rest, layers[1:]
    return cut(short_words(unquoted_end(cause).strip(), TEXT_MAX), TEXT_MAX)


def pods_text(names: Sequence[str]) -> str:
    """The pod's whole name, or how many and the first ones' bare names."""
    once = list(dict.fromkeys(names))
    if len(once) == 1:
        return once[0]
    bare = names_text([name.rpartition("/")[2] for name in once])
    return bare if len(once) == 2 else f"{len(once)} pods ({bare})"


def times_text(count: int) -> str:
    """`` 3×``; empty for once."""
    return f" {count}×" if count > 1 else ""


def span_text(span_ns: int) -> str:
    """``2m31s``, ``45s``: two units at most, as ``kubectl`` writes them."""
    seconds = span_ns // NS_PER_S
    for unit_s, unit, part_s, part in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ):
        if seconds >= unit_s:
            rest = seconds % unit_s // part_s
            return f"{seconds // unit_s}{unit}" + (f"{rest}{part}" if rest else "")
    return f"{seconds}s"


_OF_DOCKER = regex(r'(?:Error response from daemon: )?\{"message":"|"\}(?=[,\]]|$)')
"""How its daemon wraps an error."""


class Wording(NamedTuple):
    """What is waited for, and what is wrong with it, as long as it is so and afterwards.

    Attributes:
        thing: with ``whose`` before it, where it is somebody's.
    """

    thing: str
    now: str
    then: str
    whose: str = "its"

    @property
    def what(self) -> str:
        """What is waited for, and whose it is."""
        return f"{self.whose} {self.thing}".lstrip()

    def of(self, whose: str) -> Wording:
        """The same of somebody else: ``their`` of several pods."""
        return self._replace(whose=whose) if self.whose else self


_STAGES: Mapping[Stage, Wording] = {
    "admission": Wording("admission", "is refused", "was refused"),
    "config": Wording("turn", "has not come", "had not come"),
    "network": Wording("the node's network", "is not ready", "was not ready", ""),
    "cgroup": Wording("cgroup", "cannot be made", "could not be made"),
    "volumes": Wording("volume", "cannot be mounted", "could not be mounted"),
    "resources": Wording("resource claim", "cannot be prepared", "could not be prepared"),
    "sandbox": Wording("sandbox", "cannot be made", "could not be made"),
    "image": Wording("image", "cannot be pulled", "could not be pulled"),
    "create": Wording("creation", "fails", "failed"),
    "start": Wording("start", "fails", "failed"),
    "hook": Wording("post-start hook", "fails", "failed"),
    "run": Wording("next start", "is put off", "was put off"),
    "ready": Wording("readiness", "is not there", "was not there"),
    "stop": Wording("end", "does not come", "did not come"),
    "teardown": Wording("removal", "fails", "failed"),
}
_REASONS: Mapping[str, Wording] = {
    "CreateContainerConfigError": Wording("configuration", "is not complete", "was not complete"),
    "ErrImageNeverPull": Wording("image", "is not on the node", "was not on the node"),
    "FailedSync": Wording("state in the runtime", "is not known", "was not known"),
    "FailedValidation": Wording("definition", "is not valid", "was not valid"),
    "FailedAttachVolume": Wording("volume", "cannot be attached", "could not be attached"),
    "InvalidImageName": Wording("image", "has no valid name", "had no valid name"),
    "SignatureValidationFailed": Wording(
        "image", "has no valid signature", "had no valid signature"
    ),
}
"""Reason -> wording, where it says more than its stage."""
_NAMES_ITS = frozenset(("image", "resources", "teardown", "volumes"))
"""Stages whose wording goes on with the name of what is waited for."""
_NAME_MAX = 40

TROUBLES: Mapping[NodeTrouble, Wording] = {
    "api_unreachable": Wording("the API server", "cannot be reached", "could not be reached", ""),
    "certificate": Wording("certificate", "cannot be had", "could not be had"),
    "container_manager_failed": Wording("container manager", "does not start", "did not start"),
    "lease_update_failed": Wording("lease", "cannot be renewed", "could not be renewed"),
    "network_not_ready": Wording("network", "is not ready", "was not ready"),
    "pleg_unhealthy": Wording("PLEG", "is not healthy", "was not healthy", ""),
    "registration_failed": Wording(
        "the node", "cannot be registered", "could not be registered", ""
    ),
    "runtime_down": Wording("container runtime", "does not answer", "did not answer"),
    "status_update_failed": Wording("status", "cannot be reported", "could not be reported"),
    "storage_not_ready": Wording("storage", "is not ready", "was not ready"),
    "sync_skipped": Wording("no pod", "is synchronized", "was synchronized", ""),
}
_NOT_KNOWN = Wording("the node", "is not registered", "was not registered yet", "")
_NOT_VALID = Wording("a certificate", "is not valid", "was not valid", "")
_IS_NOT_VALID = regex(r"x509:|expired")


def trouble_wording(trouble: NodeTrouble, message: str) -> Wording:
    """What is wrong with the node; of certificates and of its registration by the message."""
    if trouble == "certificate" and _IS_NOT_VALID.search(message):
        return _NOT_VALID
    if trouble == "registration_failed" and NOT_REGISTERED.fullmatch(message):
        return _NOT_KNOWN  # as at each first start, until it is registered
    return TROUBLES[trouble]


_SYNC = Wording("synchronization", "fails", "failed")
_SUBPATH = Wording("the subPath of its volume", "cannot be made", "could not be made", "")
_OF_THE_RUNTIME = regex(r"rpc error|deadline exceeded|desc = ")


def stage_wording(
    stage: Stage, reason: str, about: str | None = None, message: str | None = None
) -> Wording:
    """What a pod waits for in a stage, with its name where the stage has one.

    Args:
        about: what it waits for; None where that is not named, or not the same of all.
        message: of the failure; None: one of the runtime.
    """
    if reason == "FailedSync" and message and not _OF_THE_RUNTIME.search(message):
        return _SYNC
    if stage == "create" and about and message and "subPath" in message:
        return _SUBPATH._replace(thing=f"{_SUBPATH.thing} {cut(about, _NAME_MAX)}")
    words = _REASONS.get(reason) or _STAGES[stage]
    if about is None or stage not in _NAMES_ITS:
        return words
    _, slash, last = about.rpartition("/")
    if len(about) > _NAME_MAX:
        about = f"…/{last}" if slash else cut(about, _NAME_MAX)
    return words._replace(thing=f"{words.thing} {about}")


_SEGMENT = regex(r"\s*: ")
_CODE = regex(r"(?:rpc error: )?code = \S+ desc = |^Container image \"[^\"]*\" (?:is )?")
_WRAPPER = regex(
    r"(?:[Ee]rror|[Ff]ailed to|[Uu]nable to|Back-off|Err[A-Z]\w+|unmounted volumes=|\S+ failed for)"
    r"(?!.* not found)"
)
_WORDLESS = regex(r": (?:unknown|<nil>)$")
_MOUNTS_OUTPUT = regex(r"Mounting command: .*?\sOutput: (?P<said>[^\n]+)", re.DOTALL)
"""What ``mount`` says stands below the command, which is long."""
_PULL_BACK_OFF = regex(r'^Back-off pulling image "[^"]*"(?:: )?')
"""The image is named before; newer kubelets add the error of the last pull."""
_BACK_OFF = regex(r"[Bb]ack-off( \S+)? restarting failed container.*")
"""Whose name and UID follow."""
_NO_ACCESS = regex(r"(pull access denied)(?: for \S+)?(, repository .*? require [^:]+): .*")
"""As registries say it: the image is named before, and the codes after it say no more."""
_OF_CONDITION = regex(r".*?\b(?:Network|Runtime)Ready=\w+ reason:\S* message:")
"""A condition of the runtime, as the kubelet prints it: its message tells what its reason names."""
_MOUNTED = regex(r"(?:volume\(\S+\) )?mount \S+ on \S+ failed with ")
"""As CSI drivers say it: the volume is named before, and paths are long."""


def cause_in(message: str, about: str | None = None) -> str:
    """The end of a chain of errors that names the cause, without the layers that only wrap it.

    Args:
        message: each layer stands before the one that it wraps.
        about: what the reader knows that it is about: layers that only name it say nothing.
    """
    if (output := _MOUNTS_OUTPUT.search(message)) is not None:
        return output["said"].strip().rstrip(".")
    message = _BACK_OFF.sub(r"back-off\1 after it failed", message)
    message = _NO_ACCESS.sub(r"\1\2", _OF_CONDITION.sub("", _PULL_BACK_OFF.sub("", message)))
    text = _WORDLESS.sub("", _MOUNTED.sub("", _CODE.sub("", " ".join(message.split()))))
    layers = _SEGMENT.split(text)
    while len(layers) > 1 and (
        _WRAPPER.match(layers[0]) or (about and about in layers[0] and " " not in layers[0])
    ):
        layers = layers[1:]
    said = [each for each, before in zip(layers, ["", *layers], strict=False) if each != before]
    return ": ".join(said).rstrip(".")
