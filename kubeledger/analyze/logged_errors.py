"""What the kubelet warned of and no other record tells, by shape; what of it is harmless.

It warns in lines of severity W, E and F and in events of type Warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import msgspec

from kubeledger.analyze.problems.rows import VALUES, slashed
from kubeledger.analyze.problems.told import Told, whole_us
from kubeledger.kubelet.lifecycle.stages import failure_of_event
from kubeledger.model.bodies.lifecycle import KubernetesEvent, PodRejected
from kubeledger.model.bodies.node import ErrorsLogged
from kubeledger.model.patterns import regex
from kubeledger.model.record import Record

HEADER = regex(r"^(?:.{0,200}? )?[IWEF]\d{4} [\d:.]+ +\d+ [^ \]]+\] ")
"""What stands before the message, a carrier's prefix included."""

EVENT = "event"
"""Where the caller's file stands, of an event."""


class Harmless(msgspec.Struct, frozen=True):
    """Lines after which the kubelet goes on as it was told to.

    Attributes:
        source: regular expression of the caller's file, or ``EVENT``: then the shape begins with
            the reason.
        shape: regular expression of what their shape begins with.
        reason: the kubelet's own account of why.
    """

    source: str
    shape: str
    reason: str


HARMLESS = (
    Harmless(
        f"dns.go|{EVENT}", r"(?:DNSConfigForming: )?Nameserver limits (?:were )?exceeded",
        "a resolver takes three nameservers: those after the first three are left out",
    ),
    Harmless(
        "file(?:_linux)?.go", r"Unable to read config path(?: \*)?: path does not exist, ignoring",
        "there is no directory of static pods: it is looked for again",
    ),
    Harmless(
        "file_unsupported.go", "Watching source file is unsupported in this build",
        "on Windows the directory of static pods is read at intervals instead",
    ),
    Harmless(
        "feature_gate.go", r"Setting (?:GA|deprecated) feature gate",
        "the gate is set; a future release will not know it",
    ),
    Harmless(
        "server.go",
        r"Warning: For remote container runtime, --pod-infra-container-image is ignored",
        "the runtime has its own setting",
    ),
    Harmless(
        "(?:server|kubelet).go", r"No (?:api|API) server defined",
        "a kubelet without API server reports to none",
    ),
    Harmless(
        "csi_plugin.go",
        r"(?:\*: )?(?:kubeclient not set, assuming standalone kubelet"
        r"|Skipping CSINode initialization, kubelet running in standalone mode)",
        "a kubelet without API server has no CSINode to fill",
    ),
    Harmless(
        "probe.go", r"Flexvolume plugin directory at \* does not exist\. Recreating",
        "the directory is made",
    ),
    Harmless(
        "eviction_manager.go",
        r"eviction manager: failed to check if we have separate container filesystem\. Ignoring",
        "images and containers are taken to share one filesystem",
    ),
    Harmless(
        "kubelet.go",
        r"[Ss]kipping pod synchronization(?::| -) \[?container runtime status check may not have "
        r"completed yet(?:, PLEG is not healthy: pleg has yet to be successful)?\]?\Z",
        "the kubelet has just started, and has not asked the runtime yet",
    ),
    Harmless(
        "kubelet.go",
        r"Image garbage collection failed once\. Stats initialization may not have completed yet: "
        r"(?:failed to get(?: imageFs info| image stats|\Z)|invalid capacity)",
        "the kubelet has just started, and has no statistics of the disk yet",
    ),
    Harmless(
        "sysinfo.go", r"Nodes topology is not available, providing CPU topology",
        "the topology is read of the CPUs instead",
    ),
    Harmless(
        "machine.go", r"Cannot read vendor id correctly, set empty",
        "the vendor's name is only shown",
    ),
    Harmless(
        "cpu_manager.go", r"RemoveStaleState: removing container",
        "its pod is gone: its CPUs are free again; later kubelets log it as information",
    ),
    Harmless(
        "empty_dir.go",
        r"Warning: Failed to clear quota on \*: clearQuota called, but quotas disabled",
        "there was no quota to clear",
    ),
    Harmless(
        EVENT, "CgroupV1: ", "it works; a future release will not take cgroup v1",
    ),
    Harmless(
        EVENT, r"InvalidDiskCapacity: invalid capacity \S+ on image filesystem",
        "the kubelet has just started, and has no stats of images yet",
    ),
    Harmless(
        EVENT, "PossibleMemoryBackedVolumesOnDisk: ",
        "volumes in memory are made without tmpfs' noswap",
    ),
)  # fmt: skip


@cache
def harmless(source: str, shape: str) -> str | None:
    """Why such a line is harmless by the kubelet's own account; None: it does not say so."""
    for each in HARMLESS:
        if re.fullmatch(each.source, source) and re.match(each.shape, shape):
            return each.reason
    return None


class ErrorShape(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of one shape.

    Attributes:
        recorded: other records tell it.
        count: how many; ``pods`` that they name.
        ts_ns: of the first; ``seq`` of a record that shows one.
        own_words: of a single one all that it says; empty where there are several.
    """

    severity: str
    source: str
    shape: str
    recorded: bool
    count: int
    pods: Sequence[str]
    ts_ns: int
    seq: int
    own_words: str = ""

    @property
    def teller(self) -> str:
        """Who says it, and how bad that is: ``E kubelet.go``; of an event as kubectl does."""
        return "Warning" if self.source == EVENT else f"{self.severity} {self.source}"

    @property
    def words(self) -> str:
        """What it says: of lines that differ in values their shape, of a single one all of it."""
        return self.own_words or self.shape

    @property
    def core(self) -> str:
        """Of ``words`` the message and its error, where they have more values."""
        found = _STRUCTURED.match(self.own_words)
        error = found["error"].replace('\\"', '"') if found else ""
        return f"{found['message']}: {error}" if found else self.words


_STRUCTURED = regex(
    r'"(?P<message>(?:[^"\\]|\\.)*)" (?:.* )?err="(?P<error>(?:[^"\\]|\\.)+)"', re.DOTALL
)


def own_words(line: str) -> str:
    """What a line of the log says, without its header; of the JSON form message and values.

    Empty for what is no such line, or is not whole.
    """
    if header := HEADER.match(line):
        return line[header.end() :]
    begin = line.find(_JSON_START)
    try:
        entry = msgspec.json.decode(line[begin:] if begin >= 0 else "{}", type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return ""
    given = ((key, value) for key, value in entry.items() if key not in _OF_JSON)
    values = (f"{key}={msgspec.json.encode(value).decode()}" for key, value in given)
    return " ".join((str(entry.get("msg", "")), *values))


_JSON_START = '{"ts":'
_OF_JSON = frozenset({"ts", "caller", "msg", "v", "logger"})


TOLD_BY_DECISIONS = frozenset(
    {"Evicted", "FailedPostStartHook", "Killing", "Preempting", "Unhealthy"}
)
"""Reasons of events about a pod, of which a decision tells what came of it."""
_TOLD_OF_NODES = frozenset(
    {"EvictionThresholdMet", "FreeDiskSpaceFailed", "ImageGCFailed", "SystemOOM"}
)
_OF_RESIZES = frozenset({"ResizeDeferred", "ResizeError", "ResizeInfeasible"})
_TOLD = TOLD_BY_DECISIONS | _TOLD_OF_NODES | _OF_RESIZES


def logged(told: Told) -> list[ErrorShape]:
    """All shapes of a node, worst first: errors, and those about pods."""
    return sorted(
        (*_lines(told), *_warnings(told)),
        key=lambda each: ("FEW".index(each.severity), not each.pods, -each.count, each.seq),
    )


def _lines(told: Told) -> Iterator[ErrorShape]:
    shapes: dict[tuple[Any, ...], list[tuple[Record, ErrorsLogged]]] = {}
    for record, body in told.bodies(ErrorsLogged):
        key = (body.severity, body.source, body.shape, body.recorded)
        shapes.setdefault(key, []).append((record, body))
    for (severity, source, shape, recorded), group in shapes.items():
        count = sum(body.count for _, body in group)
        first = min(group, key=lambda each: (whole_us(each[1].first_ts_ns), each[0].seq))
        texts = (record.evidence[0].text for record, _ in group if record.evidence)
        example = next((text for text in texts if text is not None), "") if count == 1 else ""
        yield ErrorShape(
            severity=severity,
            source=source,
            shape=shape,
            recorded=recorded,
            count=count,
            pods=sorted({slashed(b.namespace, b.pod) for _, b in group if b.pod is not None}),
            ts_ns=whole_us(first[1].first_ts_ns),
            seq=first[0].seq,
            own_words=own_words(example),
        )


def _warnings(told: Told) -> Iterator[ErrorShape]:
    """Events of one shape: what they say is told where a stage, a decision or a refusal says it."""
    refusals = {(body.pod, body.reason) for _, body in told.bodies(PodRejected)}
    shapes: dict[tuple[str, str], list[tuple[Record, KubernetesEvent]]] = {}
    for record, body in told.bodies(KubernetesEvent):
        if body.type == "Warning" and body.reason != "Rebooted":  # that is a problem by itself
            words = VALUES.sub("*", body.message.partition("\n")[0])
            shape = f"{body.reason}: {words}" if words else body.reason
            shapes.setdefault((body.reason, shape), []).append((record, body))
    for (reason, shape), group in shapes.items():
        first, said = min(group, key=lambda each: (whole_us(each[0].ts_ns), each[0].seq))
        count = sum(body.count for _, body in group)
        pods = [body for _, body in group if body.object_kind == "Pod"]
        is_refusal = len(pods) == len(group) and all((b.pod, reason) in refusals for b in pods)
        is_stage = failure_of_event(reason, said.message) is not None
        words = said.message.partition("\n")[0]
        yield ErrorShape(
            severity="W",
            source=EVENT,
            shape=shape,
            recorded=reason in _TOLD or is_stage or is_refusal,
            count=count,
            pods=sorted({slashed(body.namespace or None, body.pod) for body in pods}),
            ts_ns=whole_us(first.ts_ns),
            seq=first.seq,
            own_words=(f"{reason}: {words}" if words else reason) if count == 1 else "",
        )


def untold(shapes: Iterable[ErrorShape], *, nothing_else: bool) -> list[ErrorShape]:
    """What is not harmless, in the same order.

    Args:
        nothing_else: no record tells of anything that went wrong: then those are among them that
            records do tell.
    """
    return [
        each
        for each in shapes
        if (nothing_else or not each.recorded) and harmless(each.source, each.shape) is None
    ]


def excused(shapes: Iterable[ErrorShape]) -> list[tuple[ErrorShape, str]]:
    """What is harmless, in the same order, each with the reason."""
    found = ((each, harmless(each.source, each.shape)) for each in shapes)
    return [(each, reason) for each, reason in found if reason is not None]
