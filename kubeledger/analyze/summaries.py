"""A record in one line: whom it is about, and what it says.

One template a kind over the fields of its body; what stands in brackets is left out when a
field in it is None, which else reads ``?``. Nothing here decides anything: the words say what
the record holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from string import Formatter
from typing import Any, NamedTuple

from kubeledger.model.patterns import regex

_CLAUSE_ENDS = ("; ", ": ", ", ", " (")
_LONGEST_WORD_PART = 2
"""A word that takes more than half of the room is cut itself: there is little else."""
_LONG_WORD = regex(r"[^\s\"'(),\[\]]{60,}")
"""A path, an ID: nobody reads it to the end, and it hides what stands around it."""
_WORD_SHOWN = 24
_RPC = regex(r"rpc error: code = \S+ desc = ")
_NO_CAUSE = regex(r"(?:, path)?: (?:unknown|&\w+\{[^{}]*\})[\"'\\)]*$")
"""What ends a chain and says nothing: of a file's path the Go value that was read from it."""
_ENDS_ALONE = regex(r": (?=exit status \d+[\"'\\).]*$)")
"""A command's status says nothing without what stands before it."""
_LAYER = regex(": ")
_CLOSERS = '"\\])}. '
_WHOLE = regex(r'(?<!\\)"(?:[^"\\]|\\.)*"|\([^()]*\)')
_JOINED = ":\N{NO-BREAK SPACE}"
_CAUSED = regex(r" caused (?=\\*\")")
"""As runtimes wrapped what they quote, before ``caused: ``."""


def cut(text: str, length: int) -> str:
    """At most ``length`` characters: the words that fit, and an ellipsis where some do not."""
    if len(text) <= length:
        return text
    left = max(length - 1, 0)
    end = text.rfind(" ", 0, left + 1)
    if left - end > length // _LONGEST_WORD_PART:
        end = left
    kept = text[:end]
    opened = kept.rfind(" (")
    if opened > length * 2 // 3 and ")" not in kept[opened:]:
        kept = kept[:opened]
    return kept.rstrip(" ,;:(\"'") + "…"


def cut_clause(text: str, length: int) -> str:
    """As ``cut``, but where a clause ends, if one ends late enough."""
    if len(text) <= length:
        return text
    end = max(text.rfind(mark, length * 3 // 5, length) for mark in _CLAUSE_ENDS)
    kept = text[:end] if end > 0 else cut(text, length)
    for begin, end_of in ((" (", ")"), (" [", "]")):
        opened = kept.rfind(begin)
        if opened > length // 2 and end_of not in kept[opened:]:
            kept = kept[:opened].rstrip(" ,;:")
    return kept


def short_words(text: str, length: int) -> str:
    """A text that is too long with its longest words shortened: of a path the end is kept."""
    if len(text) <= length or " " not in text:
        return text
    return _LONG_WORD.sub(lambda word: _short_word(word[0]), text)


def _short_word(word: str) -> str:
    last = word.rstrip("/").rpartition("/")[2]
    is_path = word.startswith("/") and len(last) <= _WORD_SHOWN
    return f"…/{last}" if is_path else f"{word[:_WORD_SHOWN]}…"


def unquoted_end(cause: str) -> str:
    """The end of a chain of errors that was quoted, without quotes that begin or end outside it."""
    if cause.count('"') % 2 == 0 and '\\"' not in cause:
        return cause
    kept = cause.rstrip('"\\])} ')
    is_opened = kept.count('"') % 2 == 1 and kept.lstrip("\\").startswith('"')
    return kept.lstrip('\\"') if is_opened else kept


_PROSE = regex(r"[a-z)]\. (?!.*\b[Ee]rror$)[A-Z/]")
"""A sentence within a layer, and the next one; some wrap an error: ``… failed. Error: …``."""


def layers_of(text: str) -> list[str]:
    """A chain of errors in its layers: what is quoted, or in brackets, within one is whole.

    A quoted layer that goes on to the end is a chain itself. A layer of several sentences is the
    last one: errors are no prose, and what stands below it was added to it.
    """
    text, layers, begin = _CAUSED.sub(" caused: ", text), [], 0
    whole = [found.span() for found in _WHOLE.finditer(text)]
    whole = [(a, b) for a, b in whole if not _is_chain(text, a, b)]
    for found in _LAYER.finditer(text):
        place = found.start()
        if not any(a - 2 <= place < b for a, b in whole):
            layers.append(text[begin:place])
            begin = found.end()
    layers.append(text[begin:])
    prose = next((n for n, each in enumerate(layers) if _PROSE.search(each)), len(layers))
    return [*layers[:prose], *filter(None, [": ".join(layers[prose:])])]


def _is_chain(text: str, begin: int, end: int) -> bool:
    """Whether what is quoted there is the rest of it, and more than a word."""
    goes_on = text[begin - 2 : begin] == ": " and not text[end:].strip(_CLOSERS)
    return goes_on and " " in text[begin:end]


def cut_chain(text: str, length: int) -> str:
    """As ``cut``, but of a chain of errors the beginning and the end, where the cause stands."""
    text = short_words(text, length)
    if len(text) > length:
        text = _NO_CAUSE.sub("", _RPC.sub("", text))
    head, *layers = layers_of(_ENDS_ALONE.sub(_JOINED, text))
    is_short = len(head) <= length * 2 // 3
    if len(text) <= length or len(layers) <= is_short:
        return cut(text, length)
    begin = f"{head}: … " if is_short else f"{cut(head, length // 3)} "
    room = length - len(begin)
    while len(layers) > 1 and len(": ".join(layers)) > room:
        layers = layers[1:]
    kept = cut(unquoted_end(": ".join(layers)), room)
    return f"{begin}{kept}".replace(_JOINED, ": ") if kept.rstrip("…") else cut(text, length)


TEMPLATES: Mapping[str, str] = {
    "cgroups.CgroupObserved": "{cgroup}: counters",
    "cgroups.CgroupRemoved": "{cgroup} is gone",
    "cgroups.CgroupUpdated": "{cgroup}: {changed}",
    "cgroups.QOSCgroupsUpdated": "QoS cgroups written",
    "cgroups.QOSReserveComputed": "{qos_class} requests {requested_bytes} bytes",
    "allocation.PodsStateRead": "{which} resources of {pods#pod}",
    "cpumanager.CpuAllocationFailed": "refused[: {requested} CPUs]: {error}",
    "cpumanager.CpuManagerStarted": (
        "CPU manager with policy {policy}[, reserved {reserved_cpu_set}]"
        "[, shared {default_cpu_set}]"
    ),
    "cpumanager.CpuStateRefused": "cpu_manager_state refused: {error}",
    "cpumanager.CpusAllocated": "got CPUs {cpu_set} alone",
    "cpumanager.CpusReleased": "gave back CPUs[ {cpu_set}]",
    "devicemanager.AllocatableResourcesListed": "allocatable[: CPUs {cpu_set}]",
    "devicemanager.AllocationFailed": "{resource} refused: {error}",
    "devicemanager.AllocationRequested": "asks for {needed} of {resource}",
    "devicemanager.CheckpointRead": "checkpoint with {entries#entry|entries}, checksum {checksum}",
    "devicemanager.CpuManagerStateRead": "CPU policy {policy}, default set {default_cpu_set}",
    "devicemanager.DevicesAllocated": "got {device_ids} of {resource}",
    "devicemanager.DevicesReleased": "devices given back",
    "devicemanager.DevicesReported": "{resource}: devices reported[, {healthy} of {total} healthy]",
    "devicemanager.EndpointStopped": "plugin of {resource} stopped: {error}",
    "devicemanager.PodResourcesListed": "{containers#container} with devices, CPUs or memory",
    "devicemanager.PluginRegistered": "plugin of {resource} registered",
    "dra.ClaimPrepared": "claim {claim} prepared by {drivers#driver}",
    "dra.ClaimReleased": "claim {claim} given back",
    "dra.DraManagerStateRead": "{claims#claim}, checksum {checksum}",
    "eviction.NodeConditionsChanged": "pressure conditions reported: {conditions}",
    "eviction.PodSpared": "not evicted, because it is critical",
    "eviction.PodUsageObserved": "usage of {pods#pod}",
    "eviction.ReclaimAttempted": (
        "{resource} is to be reclaimed[: {signal} {observed}, {threshold_kind} threshold"
        " {threshold}][, outcome: {outcome}]"
    ),
    "imagepull.PullDecided": "{image}: {decision}",
    "imagepull.PullEnded": "{image}: {outcome}[ in {whole_ms} ms][ ({reason})][: {error}]",
    "imagepull.PullRecordRead": "record of a pull[ of {image}][ of {image_ref}]",
    "images.EvictionSignalObserved": "{signal}: {available} of {capacity}",
    "images.GarbageCollected": "image GC {outcome}: {images_removed} removed, {bytes_freed} bytes",
    "images.GarbageCollectionStarted": (
        "image GC at {usage_percent} % (high {high_threshold_percent} %), "
        "{bytes_to_free} bytes to free"
    ),
    "images.ImageDeleted": "{image_id} deleted[, {size_bytes} bytes]",
    "images.ImageFsObserved": "{available_bytes} of {capacity_bytes} bytes free",
    "images.ImagesDetected": "{images#image} listed",
    "ledger.FindingReported": "{finding}: {message}",
    "ledger.GapObserved": "{stream}: {reason}",
    "ledger.ImportCompleted": "import completed, {accounts#source}",
    "ledger.ImportStarted": "import started, {sources#source}",
    "ledger.LinesNotUnderstood": "{count} × not understood: {shape}",
    "ledger.RecordsDropped": "records {first_seq} to {last_seq} were dropped: {policy}",
    "ledger.RecordsLost": "records {first_seq} to {last_seq} had been acknowledged and are lost",
    "ledger.RecordsRedacted": "{records} records before this one hold pseudonyms",
    "ledger.RecordsSuperseded": "records of earlier imports hold no more",
    "lifecycle.ContainerDied": "container died[, exit code {exit_code}]",
    "lifecycle.ContainerKilled": "container killed[ ({reason})][: {message}]",
    "lifecycle.ContainerRestarted": "container started again[ ({reason})]",
    "lifecycle.ContainerStarted": "container started[: {container_id}]",
    "lifecycle.PodAdmitted": "admitted",
    "lifecycle.PodConfigChanged": "{operation} from {source}",
    "lifecycle.PodEvicted": "evicted[ for {resource}][: {message}]",
    "lifecycle.PodListed": "listed by {listed_by}",
    "lifecycle.PodRejected": "refused[ ({reason})][: {message}]",
    "lifecycle.PodStarted": "all containers run",
    "lifecycle.PodTerminated": "terminated",
    "lifecycle.PodTerminating": "is stopped: {reason}[, with {grace_period_s} s]",
    "lifecycle.PodResized": "resize {outcome}[ ({reason})][: {message}]",
    "lifecycle.PodStageFailed": "{stage} failed ({reason})[, {count}×]: {message}",
    "lifecycle.ReasonReported": "{type} {reason}: {message}",
    "lifecycle.RestartBackedOff": "restart put off for {back_off_s} s",
    "memorymanager.MemoryAllocated": "got memory of NUMA nodes",
    "memorymanager.MemoryAllocationFailed": "refused: {error}",
    "memorymanager.MemoryManagerStarted": "memory manager with policy {policy}",
    "memorymanager.MemoryManagerStateRead": "memory policy {policy}, {assignments#pod}",
    "memorymanager.MemoryReleased": "gave back its memory",
    "memorymanager.MemoryStateRefused": "memory_manager_state refused: {error}",
    "node.ClockStepped": "the clock went back",
    "node.ConditionChanged": "{condition} is {status}[ ({reason})][: {message}]",
    "node.ErrorsLogged": "{count} × {severity} {source} {shape}",
    "node.KubeletExited": "kubelet[ {pid}] ended ({reason}): {message}",
    "node.KubeletStarted": "kubelet[ {kubelet_version}] started[, process {pid}]",
    "node.LogThinned": (
        "the log lost lines: {beats_missing} of {beats_expected} periodic lines are missing,  "
        "{lines_cut} lines are cut"
    ),
    "node.NodeObserved": "{cpus} CPUs, {memory_capacity_bytes} bytes of memory",
    "node.SettingsObserved": "{settings#setting}",
    "node.ShutdownProgressed": "shutdown {step}[, priority {priority}][: {message}]",
    "node.Troubled": "{trouble}[, {count}×]: {message}",
    "oom.OutOfMemory": "out of memory[: {usage_bytes} of {limit_bytes} bytes used][ in {cgroup}]",
    "oom.ProcessKilled": (
        "killed by the kernel, out of memory[ ({reason})][: {process}][, process {pid}]"
    ),
    "preemption.PodPreempted": "preempted for {preemptor_namespace}/{preemptor_pod}",
    "preemption.PreemptionFailed": "no victims found: {error}",
    "prober.ProbeCountersRead": (
        "{probe_type}: {successful} successful, {failed} failed, {unknown} unknown so far"
    ),
    "prober.ProbeExecuted": "{probe_type} {result}[: {output}]",
    "prober.ProbeTicksFolded": "{probe_type} {result}, {count} times[: {output}]",
    "prober.ProbeTransitioned": "{probe_type} {from_result} -> {to_result}",
    "topologymanager.AffinityDecided": "merged hint[ on policy {policy}]",
    "topologymanager.HintsGenerated": "hints for {hints}",
}
"""kind -> template; ``{field#noun}`` is how many the field holds, ``[...]`` said when known."""

_OTHERWISE: Mapping[str, tuple[str, object, str]] = {
    "node.KubeletStarted": (
        "from_start",
        False,
        "kubelet[ {kubelet_version}] first seen[, process {pid}]",
    ),
    "node.LogThinned": ("beats_missing", 0, "lines of the log are cut: {lines_cut}"),
}
"""kind -> a field, and the template that it has in place of its own where that is such."""
_UNKNOWN = {"resource": "something (signal not recorded)"}
"""Field -> what is said of it when it is not known; of any other ``?``."""
_MANY = (list, tuple, dict)
_OPTIONAL = regex(r"\[([^\[\]]*)\]")
_NAMES: tuple[tuple[str, ...], ...] = (
    ("namespace", "pod", "container"),
    ("victim_namespace", "victim_pod"),
    ("preemptor_namespace", "preemptor_pod"),
    ("pod_uid", "container"),
    ("resource",),
    ("image_id",),
    ("cgroup",),
    ("file",),
)
"""Fields that name whom a record is about; the first that is there counts."""
_SUBJECTS = tuple(
    (fields[: 2 if fields[0].endswith("namespace") else 1], fields) for fields in _NAMES
)
"""The same, before each those of them without which they name nobody."""


def summary_of(kind: str, body: Mapping[str, Any]) -> str:
    """What the record says, on one line.

    Args:
        kind: kind of the record.
        body: its body as plain JSON values.
    """
    template = TEMPLATES.get(kind)
    if template is None:
        return ""
    known = body.get
    if kind in _OTHERWISE:
        field, value, other = _OTHERWISE[kind]
        template = other if known(field) == value else template
    text = ""
    for pieces, needed in _groups(template):
        for name in needed:
            if known(name) is None:
                break
        else:
            for literal, field in pieces:
                text += literal
                if field:
                    word = known(field)
                    if type(word) is str:
                        text += word
                    else:
                        text += str(word) if type(word) is int else _word(body, field)
    return " ".join(text.removesuffix(": ?").split())


class _Group(NamedTuple):
    """A piece of a template that is said, or not.

    Attributes:
        pieces: text, and the field after it; empty at the end.
        needed: names of fields that must be known for it to be said.
    """

    pieces: tuple[tuple[str, str], ...]
    needed: tuple[str, ...]


@cache
def _groups(template: str) -> tuple[_Group, ...]:
    """The template taken apart: what is always said, and in turns what is in brackets."""
    return tuple(
        _group(text, is_optional=bool(index % 2))
        for index, text in enumerate(_OPTIONAL.split(template))
    )


def _group(text: str, *, is_optional: bool) -> _Group:
    pieces = [(literal, field or "") for literal, field, _, _ in Formatter().parse(text)]
    named = (field.partition("#")[0] for _, field in pieces if field)
    return _Group(tuple(pieces), tuple(named) if is_optional else ())


def _word(body: Mapping[str, Any], field: str) -> str:
    """A field as a word: None is ``?``, a list its items, ``name#noun`` the count."""
    value = body.get(field)
    if isinstance(value, _MANY):
        return ", ".join(str(item) for item in value) or "none"
    if value is not None:
        return str(value)
    if "#" in field:
        name, _, noun = field.partition("#")
        count, (one, _, many) = len(body.get(name) or ()), noun.partition("|")
        return f"{count} {one if count == 1 else many or one + 's'}"
    return _UNKNOWN.get(field, "?")


def subject_of(body: Mapping[str, Any]) -> str:
    """Whom the record is about, e.g. ``default/web/app``; empty for the node itself."""
    known = body.get
    for needed, fields in _SUBJECTS:
        for field in needed:
            if not known(field):
                break
        else:
            return "/".join([str(word) for field in fields if (word := known(field))])
    return ""
