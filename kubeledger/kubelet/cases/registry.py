"""Which module decides the cases of which subsystem, and how lines become cases.

A case is ``{"id", "kubelet", "input"}``, a claim has an ``outcome`` besides; other keys of
the line are passed over, other keys of ``input`` are refused where they are not inside
Kubernetes objects. Lines are decoded straight into the subsystem's own types.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final

import msgspec

from kubeledger.kubelet.cases.fields import (
    ADMISSIBLE,
    MATCH,
    Judgement,
    Subsystem,
    Verdict,
    first_difference,
    keyed,
)
from kubeledger.kubelet.kube.quantity import Quantity, QuantityError
from kubeledger.kubelet.kube.resources import nanos_of
from kubeledger.kubelet.profile.resolve import KubeletProfile, resolve
from kubeledger.model.errors import BadInputError, BadQuestionError
from kubeledger.model.units import parse_api_ts

# Where in a case the value is that cannot be used.
#
# Deciders work on amounts and instants and know no paths, and the decoder names no keys of
# maps. When a case is refused, it is read again, slowly, to name the field.

_AMOUNTS = frozenset(
    {
        "allocatable",
        "allocatedResources",
        "capacity",
        "kubeReserved",
        "limits",
        "overhead",
        "requests",
        "systemReserved",
    }
)
_OBJECTS = _AMOUNTS | {"resources"}
_TIMES = frozenset(
    {
        "at",
        "createdAt",
        "creationTimestamp",
        "deletionTimestamp",
        "finishedAt",
        "kubeletStartedAt",
        "startedAt",
        "time",
    }
)
_INT_DIGITS_MAX: Final = 1000
_QUOTED = re.compile(r"quantity (?P<amount>.+?)(?:: | is negative)", re.DOTALL)
_MARK = re.compile(r"quantit|RFC 3339|does not fit 64 bits")
_TOO_LARGE = re.compile(r"(\d+) does not fit 64 bits")
_PLACED = re.compile(r"(?P<what>.*) - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`", re.DOTALL)
_STEP = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<index>\d+)\]|(?P<some>\[\.\.\.\])")


def field_at_fault(line: bytes, message: str) -> str:
    """Path of the first invalid amount or time, e.g. ``input.pod.spec…requests.cpu``.

    Args:
        message: the refusal; only those about quantities, times and numbers beyond 64 bits are
            looked into.

    Returns:
        the path, or the empty string when the message is about something else, names its
        place itself, or no such value is found.
    """
    if not _MARK.search(message) or message.startswith("input"):
        return ""
    about_times = "RFC 3339" in message
    large = _TOO_LARGE.match(message)
    try:
        # Not the decoder of the cases: that takes no number beyond a double.
        case = json.loads(line, parse_int=_int_or_text)
        leaves = list(_leaves("input", "", case.get("input")))
        for path, name, parent, value in leaves:
            if large:
                if not isinstance(value, str | bool) and str(value) == large[1]:
                    return path
            elif about_times:
                if name in _TIMES and isinstance(value, str) and not _is_time(value):
                    return path
            elif parent in _AMOUNTS and _is_meant(value, message):
                return path
        for path, name, parent, value in () if about_times or large else leaves:
            if name in _OBJECTS and not isinstance(value, dict | None):
                return path
            if parent in _AMOUNTS and not _is_quantity(value):
                return path
    except (RecursionError, ValueError):
        return ""  # it cannot be walked: the message has no path
    return ""


def schema_fault(line: bytes, line_type: type, message: str) -> str:
    """The decoder's message with the path in front, and the keys of maps by name.

    Args:
        message: of the decoder: ``Expected … - at `$.input.resources[...].devices` ``.
    """
    match = _PLACED.fullmatch(message)
    if match is None:
        return message
    what = match["what"]
    steps = list(_STEP.finditer(match["path"]))
    path = _path(steps, _keys_at_fault(line, line_type, message, steps))
    if match["key"]:
        return f"{path}: a key: {what[0].lower()}{what[1:]}"
    return f"{path}: {what[0].lower()}{what[1:]}"


def _path(steps: list[re.Match[str]], keys: list[str]) -> str:
    named = iter(keys)
    path = ""
    for step in steps:
        if step["some"]:
            key = next(named, None)
            path = f"{path}[...]" if key is None else keyed(path, key)
        else:
            path += step[0]
    return path.removeprefix(".")


def _keys_at_fault(
    line: bytes, line_type: type, message: str, steps: list[re.Match[str]]
) -> list[str]:
    """The key of each map on the way, found by leaving out half of the others again and again."""
    keys: list[str] = []
    try:
        case = node = msgspec.json.decode(line)
        for step in steps:
            if step["some"]:
                keys.append(_key_at_fault(case, node, line_type, message))
                node = node[keys[-1]]
            else:
                node = node[step["name"] or int(step["index"])]
    except (RecursionError, LookupError, TypeError, ValueError):
        pass  # the path is then shown with the keys that were found
    return keys


def _key_at_fault(case: object, node: dict[str, Any], line_type: type, message: str) -> str:
    everything = dict(node)
    left = list(everything)
    while len(left) > 1:
        half = left[: len(left) // 2]
        node.clear()
        node.update((key, everything[key]) for key in half)
        left = half if _refused_so(case, line_type, message) else left[len(half) :]
    node.clear()
    node.update(everything)
    return left[0]


def _refused_so(case: object, line_type: type, message: str) -> bool:
    try:
        msgspec.convert(case, line_type, str_keys=True)
    except msgspec.ValidationError as error:
        return str(error) == message
    return False


def _int_or_text(digits: str) -> int | str:
    return int(digits) if len(digits) <= _INT_DIGITS_MAX else digits


def _leaves(path: str, parent: str, node: Any) -> Iterator[tuple[str, str, str, Any]]:  # noqa: ANN401  # any JSON value
    """Path, key, key of the object around it, and value of everything in ``node``."""
    if isinstance(node, dict):
        own = path.rpartition(".")[2]
        for key, value in node.items():
            yield from _leaves(keyed(path, key), own, value)
            yield keyed(path, key), key, own, value
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _leaves(f"{path}[{index}]", parent, value)


def _is_meant(amount: object, message: str) -> bool:
    """Whether a message quotes this amount: it may be a quantity that cannot stand there."""
    match = _QUOTED.search(message)
    if match is None or isinstance(amount, dict | list):
        return False
    return match["amount"] in (repr(amount), json.dumps(amount))


def _is_quantity(value: object) -> bool:
    try:
        Quantity.from_api(value).milli_value()
        if isinstance(value, str):
            nanos_of(value)  # the unit of sums: an amount may be too fine for it
    except QuantityError:
        return False
    return True


def _is_time(value: str) -> bool:
    try:
        parse_api_ts(value)
    except ValueError:
        return False
    return True


_MODULES: Final = {
    "admission": "admission",
    "backoff": "podactions",
    "cgroup": "cgroups",
    "cgroupv2": "cgroups",
    "cpumanager": "cpumanager",
    "devices": "devices",
    "dra": "dra",
    "eviction": "eviction",
    "imagegc": "imagegc",
    "imagepull": "imagepull",
    "memorymanager": "memorymanager",
    "nodeallocatable": "cgroups",
    "podactions": "podactions",
    "podstatus": "prober",
    "prober": "prober",
    "qos": "cgroups",
    "resize": "resize",
    "topology": "topology",
    "topologyhints": "devices",
    "topologymerge": "hints",
}
"""Names as users write them -> the module that holds the ``Subsystem`` under that name.

Its functions raise ``BadInputError`` for what no kubelet can meet (a bad quantity, time, set or
NUMA node, a pod or container that is not there), or would crash over; it names the field.
"""

SUBSYSTEMS: Final = tuple(_MODULES)

_SHOWN_MAX: Final = 1000
_OWN_PATH: Final = re.compile(r" - at `[^`]*`$")
_LONG_WORD: Final = re.compile(r"(\S{150})\S+(\S{20})")

LineFunction = Callable[[bytes], bytes]
OnVersion = Callable[[str], object]


def decider_of(subsystem: str, on_version: OnVersion | None = None) -> LineFunction:
    """A function from a case's line to the line of its outcome.

    Args:
        on_version: called with each version that is known by its source alone.

    Raises:
        BadQuestionError: no such subsystem.
    """

    def decide(of: Subsystem, case: Any, profile: KubeletProfile) -> dict[str, object]:  # noqa: ANN401
        return {"id": case.id, "outcome": of.decide(case.input, profile)}

    return _line_function(subsystem, decide, on_version, claim=False)


def judge_of(
    subsystem: str,
    on_verdict: Callable[[Verdict], object] | None = None,
    on_version: OnVersion | None = None,
) -> LineFunction:
    """A function from a claim's line to the line of its verdict.

    Raises:
        BadQuestionError: no such subsystem.
    """

    def judge(of: Subsystem, claim: Any, profile: KubeletProfile) -> dict[str, object]:  # noqa: ANN401
        found = _judgement(of, claim.input, profile, claim.outcome)
        if on_verdict is not None:
            on_verdict(found.verdict)
        return {"id": claim.id, "verdict": found.verdict, "why": found.why}

    return _line_function(subsystem, judge, on_version, claim=True)


def _line_function(
    subsystem: str,
    answer: Callable[[Subsystem, Any, KubeletProfile], dict[str, object]],
    on_version: OnVersion | None,
    *,
    claim: bool,
) -> LineFunction:
    """What answers to a line; whatever is wrong with it is a ``BadInputError`` with its field."""
    of = subsystem_of(subsystem)
    fields: list[tuple[str, type]] = [("id", str), ("kubelet", str), ("input", of.input)]
    if claim:
        fields.append(("outcome", object))
    line_type = msgspec.defstruct("Line", fields, frozen=True, gc=False)
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(line_type).decode
    encode = msgspec.json.Encoder().encode

    def checked(line: bytes) -> bytes:
        try:
            case = decode(line)
            return encode(answer(of, case, _profile(case.kubelet, on_version)))
        except BadInputError as error:
            raise _placed(line, error.message, error.advice) from None
        except QuantityError as error:
            raise _placed(line, f"no quantity that can be reckoned with: {error}", "") from None
        except BadQuestionError as error:
            raise BadInputError(_bounded(error.message), advice=error.advice) from None
        except msgspec.ValidationError as error:
            raise BadInputError(_bounded(schema_fault(line, line_type, str(error)))) from None
        except msgspec.MsgspecError as error:
            raise _no_json(line, str(error)) from None
        except UnicodeDecodeError:
            raise BadInputError("the line is not UTF-8") from None
        except RecursionError:
            raise BadInputError("the line is nested too deeply") from None

    return checked


def _profile(version: str, on_version: OnVersion | None) -> KubeletProfile:
    profile = resolve(version)
    if on_version is not None and not profile.version.is_confirmed:
        on_version(version)
    return profile


def _judgement(
    subsystem: Subsystem, case_input: object, profile: KubeletProfile, outcome: object
) -> Judgement:
    decided = subsystem.decide(case_input, profile)
    try:
        claimed: Any = msgspec.convert(outcome, subsystem.outcome, str_keys=True)
    except msgspec.ValidationError as error:
        return Judgement("impossible", f"that is no outcome of this subsystem: {error}")
    if claimed == decided or (
        subsystem.outcome is object and _text(claimed) == _text(_plain(decided))
    ):
        return MATCH
    nearest = subsystem.nearest
    possible = nearest(case_input, profile, decided, claimed) if nearest else decided
    if why := first_difference(_plain(possible), _plain(claimed)):
        return Judgement("impossible", why)
    return ADMISSIBLE if nearest else MATCH


_text: Final = msgspec.json.Encoder(order="sorted").encode


def _plain(outcome: object) -> object:
    return msgspec.json.decode(msgspec.json.encode(outcome))


def _no_json(line: bytes, message: str) -> BadInputError:
    if line.startswith(b"\xef\xbb\xbf"):
        return BadInputError("a byte order mark before the JSON")
    try:
        line.decode()
    except UnicodeDecodeError:
        return BadInputError("the line is not UTF-8")
    return BadInputError(_bounded(message))


def _placed(line: bytes, message: str, advice: str) -> BadInputError:
    field = field_at_fault(line, message)
    message = _OWN_PATH.sub("", message) if field else message
    return BadInputError(_bounded(f"{field}: {message}" if field else message), advice=advice)


def _bounded(message: str) -> str:
    """The message with what is very long in it left out: it may quote a value of any length."""
    message = _LONG_WORD.sub(r"\1...\2", message)
    return message if len(message) <= _SHOWN_MAX else f"{message[:_SHOWN_MAX]}..."


def subsystem_of(name: str) -> Subsystem:
    """How its cases are decided.

    Raises:
        BadQuestionError: no such subsystem.
    """
    if name not in _MODULES:
        advice = f"one of {', '.join(SUBSYSTEMS)}"
        raise BadQuestionError(f"unknown subsystem {name!r}", advice=advice)
    module = import_module(f"kubeledger.kubelet.cases.{_MODULES[name]}")
    found: Subsystem = getattr(module, name.upper())
    return found
