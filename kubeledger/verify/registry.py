"""All rules, in the order in which they see a record, and which records each is for.

A rule is loaded, and its verifier made, where there is a record that concerns it: the rules of
device plugins do not read a log of eight lines about probes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from importlib import import_module
from itertools import islice
from typing import Final, NamedTuple, cast

from kubeledger.verify.context import Verifier, VerifyContext
from kubeledger.verify.finding import BasedReader, Reader
from kubeledger.verify.variant import RECORDED, Variant


class Rule(NamedTuple):
    """Where a verifier stands.

    Attributes:
        concerns: kinds of records, or subsystems (what stands before the dot), without which it
            has nothing to say: all that it decides, and whatever else it finds something wrong
            with. What it looks at besides is not among them.
        asks: the class whose belief it asks; see :mod:`kubeledger.verify.context`.
        silent: without a record that concerns it nothing is believed, so nobody need ask.
    """

    module: str
    name: str
    concerns: str
    asks: str | None = None
    silent: bool = False

    def is_concerned(self, kinds: Collection[str]) -> bool:
        """Whether one of some kinds is among those that concern it."""
        own = self.concerns.split()
        return any(kind in own or kind.partition(".")[0] in own for kind in kinds)

    def load(self) -> type[Verifier]:
        found = getattr(import_module(f"kubeledger.verify.rules.{self.module}"), self.name)
        return cast("type[Verifier]", found)


RULES: tuple[Rule, ...] = (
    Rule(
        "admission.rule",
        "AdmissionVerifier",
        "lifecycle.PodAdmitted lifecycle.PodRejected lifecycle.PodResized allocation preemption",
        asks="EvictionVerifier",
    ),
    Rule("cgroups.rule", "CgroupVerifier", "cgroups"),
    Rule("claims", "ClaimVerifier", "dra"),
    Rule("cpus", "CpuVerifier", "cpumanager devicemanager.CpuManagerStateRead"),
    Rule("devices.rule", "DeviceVerifier", "devicemanager topologymanager"),
    Rule("images.rule", "ImageVerifier", "images"),
    Rule("evictions.rule", "EvictionVerifier", "eviction images lifecycle.PodEvicted", silent=True),
    Rule(
        "kills",
        "KillVerifier",
        "lifecycle.ContainerKilled prober.ProbeTransitioned",
        asks="ProbeVerifier",
    ),
    Rule("probes", "ProbeVerifier", "prober ledger.FindingReported lifecycle.ReasonReported"),
    Rule("memory", "MemoryVerifier", "memorymanager", asks="DeviceVerifier"),
    Rule("oom", "OomVerifier", "oom"),
    Rule("pulls", "PullVerifier", "imagepull"),
    Rule(
        "restarts",
        "RestartVerifier",
        "lifecycle.ContainerRestarted lifecycle.ContainerStarted lifecycle.PodListed "
        "lifecycle.RestartBackedOff",
        asks="ProbeVerifier",
    ),
    Rule(
        "disputes",
        "SafetyVerifier",
        "cpumanager devicemanager dra lifecycle.PodListed memorymanager",
    ),
    Rule("shutdowns", "ShutdownVerifier", "node.ShutdownProgressed lifecycle.PodTerminating"),
    Rule(
        "disputes",
        "SourceDisputes",
        "lifecycle.ContainerDied lifecycle.ContainerKilled lifecycle.ContainerStarted "
        "lifecycle.PodListed lifecycle.PodRejected lifecycle.PodResized node.NodeObserved "
        "node.SettingsObserved preemption",
    ),
    Rule("events", "EventVerifier", "lifecycle.ReasonReported"),
    Rule("syncs", "SyncVerifier", "lifecycle.ContainerDied lifecycle.ContainerStarted"),
)


def verifiers_for(kinds: Collection[str] | None) -> tuple[type[Verifier], ...]:
    """Those that some kinds of records concern, and whom they ask; None: all."""
    if kinds is None:
        return tuple(rule.load() for rule in RULES)
    names = {rule.name for rule in RULES if rule.is_concerned(kinds)}
    return _with_asked(names, but={rule.name for rule in RULES if rule.silent})


_SHORT: Final = 500
"""Records of a history whose kinds are looked up first: too few for a seam, so that who goes on
from one has all verifiers."""


def concerned(read: Reader, variant: Variant) -> tuple[type[Verifier], ...]:
    """The verifiers for the records of a short history; for a long one, or other settings, all.

    A long one has most kinds of records, and to know which would be one reading more.
    """
    if variant is not RECORDED or isinstance(read, BasedReader):
        return verifiers_for(None)
    records = list(islice(read(None), _SHORT + 1))
    is_short = len(records) <= _SHORT
    return verifiers_for({record.kind for record in records} if is_short else None)


def verifiers_of(decisions: Collection[str]) -> tuple[type[Verifier], ...]:
    """Those that judge some kinds of decisions, and those whose beliefs they ask."""
    return _with_asked({rule.name for rule, _ in _judges(decisions)})


def _with_asked(names: Collection[str], but: Collection[str] = ()) -> tuple[type[Verifier], ...]:
    asked = {rule.asks for rule in RULES if rule.name in names}.difference(but)
    return tuple(rule.load() for rule in RULES if rule.name in names or rule.name in asked)


def _judges(decisions: Collection[str]) -> Iterator[tuple[Rule, type[Verifier]]]:
    for rule in RULES:
        if rule.is_concerned(decisions):
            verifier = rule.load()
            if any(body.kind in decisions for body in verifier.decides):
                yield rule, verifier


@cache
def kinds_seen_for(decision: str) -> frozenset[str]:
    """Kinds of records that the verifier of a kind of decision looks at; none for another kind.

    What it reads in the node's state besides is not among them.
    """
    for _, judge in _judges((decision,)):
        verifier = judge(VerifyContext())
        looked_at = (*verifier.sees(), *verifier.prescans(), *verifier.decides)
        return frozenset(kind.kind for kind in looked_at)
    return frozenset()
