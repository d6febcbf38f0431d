"""What is said of an incident: a sentence of its row."""

from __future__ import annotations

from kubeledger.analyze.problems.rows import HARMLESS_S
from kubeledger.analyze.problems.told import Row
from kubeledger.analyze.wording import (
    Wording,
    bytes_text,
    cause_in,
    missing_text,
    names_text,
    pods_text,
    shortened,
    span_text,
    stage_wording,
    times_text,
    trouble_wording,
)
from kubeledger.kubelet.cgroups.paths import is_of_pods
from kubeledger.kubelet.lifecycle.state import how_it_ended
from kubeledger.model.patterns import regex
from kubeledger.model.units import NS_PER_S

# --- the node -----------------------------------------------------------------------------


def not_ready(row: Row) -> str:
    """Since when it lasts, or for how long it did, and why."""
    cause = f": {shortened(row['message'])}" if row["message"] else ""
    if row["is_open"]:
        return f"the node is not ready{cause}"
    return (
        f"the node was not ready{times_text(row['count'])} for {span_text(row['lasted_ns'])}{cause}"
    )


def trouble(row: Row) -> str:
    """What does not work, or did not, for how long, how often that was said, and why."""
    words = trouble_wording(row["subject"], row["message"]).of("the node's")
    said = times_text(row["attempts"])
    often = times_text(row["count"])
    span = span_text(row["lasted_ns"]) if row["lasted_ns"] >= NS_PER_S else ""
    if row["is_open"]:
        until_now = "in all" if often else "so far"
        how = f"{words.now}{often}{span and f' ({span} {until_now})'}"
    else:
        how = f"{words.then}{often}{span and f' for {span}'}"
    trouble = f"{words.what} {words.now}"  # a message may begin with it, and end with it if cut
    cause = _cause(row["message"]).removeprefix(trouble).removeprefix(": ")
    return f"{words.what} {how}{said and f', reported{said}'}{cause and f': {cause}'}"


def kubelet_died(row: Row) -> str:
    """What it said at last."""
    pid = f" (pid {row['pid']})" if row["pid"] else ""
    return f"kubelet{pid} died: {shortened(row['message'] or '')}"


def violation(row: Row) -> str:
    """What cannot be, and which bugs of the kubelet lead to it."""
    return f"{row['message']}" + (f" ({', '.join(row['bugs'])})" if row["bugs"] else "")


def impossible(row: Row) -> str:
    """Decisions of one kind."""
    if row["count"] > 1:
        return f"{row['subject']}: {row['count']} decisions that this kubelet could not have taken"
    return f"{row['subject']}: a decision that this kubelet could not have taken"


def out_of_memory(row: Row) -> str:
    """The kernel's report has no kill."""
    times, subject = times_text(row["count"]), row["subject"]
    if row["asked"] is None:
        return f"{subject} was out of memory{times}; whom the kernel killed is not recorded"
    return (
        f"the kernel ran out of memory{times} when {subject} asked for some; whom it killed is not "
        "recorded"
    )


def gc_failed(row: Row) -> str:
    """How much it wanted, and got."""
    times = times_text(row["count"])
    if row["wanted_bytes"]:
        freed = f", freed {bytes_text(row['freed_bytes'])}" if row["freed_bytes"] else ""
        return f"image GC failed{times}: wanted {bytes_text(row['wanted_bytes'])}{freed}"
    return f"image GC failed{times}: {shortened(row['error'] or '')}"


def reclaim_failed(row: Row) -> str:
    """What the node was low on, and who was to be evicted as far as it is recorded."""
    low = f"the node was low on {row['subject']}{times_text(row['count'])}"
    if row["outcome"]:
        return f"{low}, and no pod could be evicted"
    if not row["ranked"]:
        return f"{low}, and which pod was to be evicted is not recorded"
    spared = row["spared"] or []
    left = next((pod for pod in row["ranked"] if pod not in spared), None)
    if left is None:
        return f"{low}: all in rank were spared as critical ({names_text(spared)})"
    place = "next" if spared else "first"
    return f"{low}, and a pod was to be evicted: {place} in rank {left}; no more is recorded"


def shutdown(row: Row) -> str:
    """How often, whether it is said that it went on, and whether pods were late."""
    late = row["timed_out"]
    priorities = "one priority" if late == 1 else f"{late} priorities"
    tail = f"; pods of {priorities} did not end in time" if late else ""
    did = "shut down" if row["completed"] else "told to shut down"
    return f"the node was {did}{times_text(row['count'])}{tail}"


def finding(row: Row) -> str:
    """What is wrong with the sources."""
    words = row["subject"].replace("_", " ")
    return f"{words}{times_text(row['count'])}: {shortened(row['message'])}"


def not_understood(row: Row) -> str:
    """Lines of one shape."""
    lines = row["lines"]
    return f"{lines:,} line{'s' * (lines > 1)} not understood: {shortened(row['subject'])}"


# --- pods ---------------------------------------------------------------------------------


def _cause(message: str, about: str | None = None) -> str:
    return shortened(cause_in(message, about))


def _why(row: Row) -> str:
    """The kubelet's word, and the end of the chain of errors."""
    cause = cause_in(row["message"] or "", row["about_what"])
    return f"({row['reason']}: {shortened(cause)})" if cause else f"({row['reason']})"


def _tries(row: Row) -> str:
    return f", {row['attempts']:,} tries" if row["attempts"] > 1 else ""


_OF_ALL = frozenset(("image", "resources"))
"""Stages of which all pods of one incident wait for the same."""


def _are_several(row: Row) -> bool:
    return len(set(row["pods"])) > 1


def _wording(row: Row) -> Wording:
    """What the pods wait for, by name where all wait for the same."""
    several = _are_several(row)
    about = row["about_what"] if row["stage"] in _OF_ALL or not several else None
    words = stage_wording(row["stage"], row["reason"], about, row["message"])
    return words.of("their") if several else words


def stuck(row: Row) -> str:
    """Who does not run, what is wanting, and why."""
    several = _are_several(row)
    words = _wording(row)
    lack = words.now
    if row["reason"] == "FailedSync":  # which says nothing of its containers
        verb = f"{'are' if several else 'is'} not synchronized"
    elif row["ran_before"]:
        verb = "do not run again" if several else "does not run again"
    elif row["is_ended"]:
        verb = f"had not started when {'they were' if several else 'it was'} ended"
        if row["lasted_ns"] >= NS_PER_S:
            verb += f" after {'up to ' if several else ''}{span_text(row['lasted_ns'])}"
        lack = words.then
    else:
        verb = f"{'have' if several else 'has'} not started"
    return f"{pods_text(row['pods'])} {verb}: {words.what} {lack} {_why(row)}{_tries(row)}"


def waited(row: Row) -> str:
    """Who waited how long, what for, and why."""
    what = _wording(row).what
    if row["lasted_ns"] < HARMLESS_S * NS_PER_S:  # and was not heard of again
        return f"{pods_text(row['pods'])} asked in vain for {what} {_why(row)}{_tries(row)}"
    upto = "up to " if _are_several(row) else ""
    span = span_text(row["lasted_ns"])
    return f"{pods_text(row['pods'])} waited {upto}{span} for {what} {_why(row)}"


def not_ended(row: Row) -> str:
    """Who was late in going."""
    return f"{pods_text(row['pods'])} could not be ended at once {_why(row)}{_tries(row)}"


def preempted(row: Row) -> str:
    """Who made room for whom."""
    missing = missing_text(", ".join(row["missing"])) if row["missing"] else ""
    short = f" ({missing} missing)" if missing else ""
    return f"{row['subject'] or 'an unknown pod'} preempted {names_text(row['victims'])}{short}"


def evicted(row: Row) -> str:
    """Who was evicted, and what the node was low on."""
    cause = "its storage limit" if row["kind"] == "local_storage" else row["subject"]
    kind = f" ({row['kind']})" if row["kind"] in {"hard", "soft", "allocatable"} else ""
    known = cause != "signal not recorded"
    return f"{pods_text(row['pods'])} evicted{' for' if known else ','} {cause}{kind}"


_ALLOCATING = regex(r"^Allocate failed due to |, which is unexpected\.?$")
"""What the kubelet puts around a plugin's or a manager's error."""


def refused(row: Row) -> str:
    """Who was rejected, and why: an error that was not expected has no reason but its message."""
    text = f"{pods_text(row['pods'])} rejected: {row['subject']}"
    if row["subject"] != "UnexpectedAdmissionError" or not row["message"]:
        return text
    return f"{text} ({_cause(_ALLOCATING.sub('', row['message']))})"


_OOM = {"pod_limit": " at its pod's limit", "node": ": the node was out of memory"}
_SHARED = ": all pods together had reached their limit"


def oom(row: Row) -> str:
    """Who was killed, and whose memory was used up."""
    where = _OOM.get(row["reason"], _SHARED if is_of_pods(row["shared"]) else "")
    return f"{row['subject'] or 'a process'} OOM-killed{times_text(row['count'])}{where}"


_BY = {
    "liveness_probe": "liveness probe",
    "startup_probe": "startup probe",
    "post_start_hook": "post-start hook's failure",
}


def _back_off(row: Row) -> str:
    return f", back-off {row['back_off_s']} s" if row["back_off_s"] else ""


def killed(row: Row) -> str:
    """Which container, and by what."""
    times = times_text(row["count"])
    return f"{row['subject']} killed{times} by its {_BY[row['reason']]}{_back_off(row)}"


def failed(row: Row) -> str:
    """Which pods, and their reason, or with what their containers ended."""
    if reason := row["reason"]:
        why = f": {row['message']}" if row["message"] else ""
        return f"{pods_text(row['pods'])} failed ({reason}){why}"
    codes = [code for code in row["codes"] if code != "0"]
    ended = f" (exit code {', '.join(codes)})" if codes else ""
    return f"{pods_text(row['pods'])} failed{ended}"


def crashed(row: Row) -> str:
    """How it ended, or what is said of it."""
    if row["deaths"]:
        ended = how_it_ended(row["exit_code"], times_text(row["deaths"]))
        return f"{row['subject']} {ended}{_back_off(row)}"
    why = row["message"] or row["reason"]
    return f"{row['subject']} kept failing{times_text(row['attempts'])}: {_cause(why)}"


def unready(row: Row) -> str:
    """Whether it never became ready, or how often it ceased to be; without its start, neither."""
    if row["form"] == "never":
        return f"{row['subject']} has not become ready"
    if row["form"] == "failing":
        return f"the readiness probe of {row['subject']} failed, and it is not known to be ready"
    return f"{row['subject']} went unready{times_text(row['count'])}"


def resize(row: Row) -> str:
    """What became of it."""
    verb = {"deferred": "waits until it fits", "infeasible": "can never fit"}[row["outcome"]]
    why = shortened(row["message"] or row["reason"] or "")
    return f"{pods_text(row['pods'])}: a resize {verb}" + (f" ({why})" if why else "")
