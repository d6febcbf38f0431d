"""What pods wait for and what troubles a node, in words: one table for headlines and ``why``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from kubeledger.analyze.sql.shorten import cut
from kubeledger.model.bodies.stages import NodeTrouble, Stage


class Wording(NamedTuple):
    """What is waited for, and what is wrong with it, as long as it is so and afterwards."""

    what: str
    now: str
    then: str

    def of_several(self) -> Wording:
        """The same of several pods."""
        return self._replace(what=self.what.replace("its ", "their "))

    def of_the_node(self) -> Wording:
        """The same where nothing before it names the node."""
        return self._replace(what=re.sub(r"^its ", "the node's ", self.what))


_STAGES: Mapping[Stage, Wording] = {
    "admission": Wording("its admission", "is refused", "was refused"),
    "config": Wording("its turn", "has not come", "had not come"),
    "network": Wording("the node's network", "is not ready", "was not ready"),
    "cgroup": Wording("its cgroup", "cannot be made", "could not be made"),
    "volumes": Wording("its volume", "cannot be mounted", "could not be mounted"),
    "resources": Wording("its resource claim", "cannot be prepared", "could not be prepared"),
    "sandbox": Wording("its sandbox", "cannot be made", "could not be made"),
    "image": Wording("its image", "cannot be pulled", "could not be pulled"),
    "create": Wording("its creation", "fails", "failed"),
    "start": Wording("its start", "fails", "failed"),
    "hook": Wording("its post-start hook", "fails", "failed"),
    "run": Wording("its next start", "is put off", "was put off"),
    "ready": Wording("its readiness", "is not there", "was not there"),
    "stop": Wording("its end", "does not come", "did not come"),
    "teardown": Wording("its removal", "fails", "failed"),
}
_REASONS: Mapping[str, Wording] = {
    "CreateContainerConfigError": Wording(
        "its configuration", "is not complete", "was not complete"
    ),
    "ErrImageNeverPull": Wording("its image", "is not on the node", "was not on the node"),
    "FailedSync": Wording("its state in the runtime", "is not known", "was not known"),
    "FailedValidation": Wording("its definition", "is not valid", "was not valid"),
    "FailedAttachVolume": Wording("its volume", "cannot be attached", "could not be attached"),
    "InvalidImageName": Wording("its image", "has no valid name", "had no valid name"),
    "SignatureValidationFailed": Wording(
        "its image", "has no valid signature", "had no valid signature"
    ),
}
"""Reason -> wording, where it says more than its stage."""
_NAMES_ITS = frozenset(("image", "resources", "teardown", "volumes"))
"""Stages whose wording goes on with the name of what is waited for."""
_NAME_MAX = 40

TROUBLES: Mapping[NodeTrouble, Wording] = {
    "api_unreachable": Wording("the API server", "cannot be reached", "could not be reached"),
    "certificate": Wording("its certificate", "cannot be had", "could not be had"),
    "container_manager_failed": Wording("its container manager", "does not start", "did not start"),
    "lease_update_failed": Wording("its lease", "cannot be renewed", "could not be renewed"),
    "network_not_ready": Wording("its network", "is not ready", "was not ready"),
    "pleg_unhealthy": Wording("PLEG", "is not healthy", "was not healthy"),
    "registration_failed": Wording("the node", "cannot be registered", "could not be registered"),
    "runtime_down": Wording("its container runtime", "does not answer", "did not answer"),
    "status_update_failed": Wording("its status", "cannot be reported", "could not be reported"),
    "storage_not_ready": Wording("its storage", "is not ready", "was not ready"),
    "sync_skipped": Wording("no pod", "is synchronized", "was synchronized"),
}
_NOT_VALID = Wording("a certificate", "is not valid", "was not valid")
_IS_NOT_VALID = re.compile(r"x509:|expired")


def trouble_wording(trouble: NodeTrouble, message: str) -> Wording:
    """What is wrong with the node; of certificates what the message says."""
    if trouble == "certificate" and _IS_NOT_VALID.search(message):
        return _NOT_VALID
    return TROUBLES[trouble]


_SYNC = Wording("its synchronization", "fails", "failed")
_OF_THE_RUNTIME = re.compile(r"rpc error|deadline exceeded|desc = ")


def stage_wording(
    stage: Stage, reason: str, about: str | None = None, message: str | None = None
) -> Wording:
    """What a pod waits for in a stage, with its name where the stage has one.

    Args:
        stage: that it does not get past.
        reason: of the failure.
        about: what it waits for; None where that is not named, or not the same of all.
        message: of the failure; None: one of the runtime.
    """
    if reason == "FailedSync" and message and not _OF_THE_RUNTIME.search(message):
        return _SYNC
    words = _REASONS.get(reason) or _STAGES[stage]
    if about is None or stage not in _NAMES_ITS:
        return words
    _, slash, last = about.rpartition("/")
    if len(about) > _NAME_MAX:
        about = f"…/{last}" if slash else cut(about, _NAME_MAX)
    return words._replace(what=f"{words.what} {about}")


_SEGMENT = re.compile(r"\s*: ")
_CODE = re.compile(r"(?:rpc error: )?code = \S+ desc = |^Container image \"[^\"]*\" (?:is )?")
_WRAPPER = re.compile(
    r"(?:[Ee]rror|[Ff]ailed to|[Uu]nable to|Back-off|Err[A-Z]\w+|unmounted volumes=|\S+ failed for)"
    r"(?!.* not found)"
)
_WORDLESS = re.compile(r": (?:unknown|<nil>)$")
_MOUNTS_OUTPUT = re.compile(r"Mounting command: .*?\sOutput: (?P<said>[^\n]+)", re.DOTALL)
"""What ``mount`` says stands below the command, which is long."""


def cause_in(message: str, about: str | None = None) -> str:
    """The end of a chain of errors that names the cause, without the layers that only wrap it.

    Args:
        message: each layer stands before the one that it wraps.
        about: what the reader knows that it is about: layers that only name it say nothing.
    """
    if (output := _MOUNTS_OUTPUT.search(message)) is not None:
        return output["said"].strip().rstrip(".")
    text = _WORDLESS.sub("", _CODE.sub("", " ".join(message.split())))
    layers = _SEGMENT.split(text)
    while len(layers) > 1 and (
        _WRAPPER.match(layers[0]) or (about and about in layers[0] and " " not in layers[0])
    ):
        layers = layers[1:]
    said = [each for each, before in zip(layers, ["", *layers], strict=False) if each != before]
    return ": ".join(said).rstrip(".")
