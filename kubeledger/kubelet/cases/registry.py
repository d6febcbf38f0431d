"""Which module decides the cases of which subsystem, and how lines become cases.

A case is ``{"id", "kubelet", "input"}``, a claim has an ``outcome`` besides; other keys of
the line are passed over, other keys of ``input`` are refused where they are not inside
Kubernetes objects. Lines are decoded straight into the subsystem's own types.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import msgspec

from kubeledger.kubelet.cases.judgement import MATCH, Judgement, Verdict, impossible
from kubeledger.kubelet.cases.locate import field_at_fault, schema_fault
from kubeledger.kubelet.kube.quantity import QuantityError
from kubeledger.kubelet.profile.resolve import KubeletProfile, resolve
from kubeledger.model.errors import BadInputError, BadQuestionError

SUBSYSTEMS: tuple[str, ...] = (
    "admission",
    "backoff",
    "cgroup",
    "cgroupv2",
    "cpumanager",
    "devices",
    "dra",
    "eviction",
    "imagegc",
    "imagepull",
    "memorymanager",
    "nodeallocatable",
    "podactions",
    "podstatus",
    "prober",
    "qos",
    "resize",
    "topology",
    "topologyhints",
    "topologymerge",
)
"""Names as users write them; each is a module of this package.

A module holds ``INPUT``, ``OUTCOME`` and two functions: ``decide(input, profile)`` gives the
outcome, ``judge(input, profile, decided, claimed)`` what is to be said of a claim that has the
shape of an outcome and is another than the decided one.
"""

_SHOWN_MAX: Final = 1000
_OWN_PATH: Final = re.compile(r" - at `[^`]*`$")
_LONG_WORD: Final = re.compile(r"(\S{150})\S+(\S{20})")

LineFunction = Callable[[bytes], bytes]
OnVersion = Callable[[str], object]


def decider_of(subsystem: str, on_version: OnVersion | None = None) -> LineFunction:
    """A function from a case's line to the line of its outcome.

    Args:
        subsystem: one of ``SUBSYSTEMS``.
        on_version: called with each version that is known by its source alone.

    Raises:
        BadQuestionError: no such subsystem.
    """
    module = _module(subsystem)
    line_type = _line_type("Case", module.INPUT, claim=False)
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(line_type).decode
    encode = msgspec.json.Encoder().encode

    def decide(line: bytes) -> bytes:
        case = decode(line)
        outcome = module.decide(case.input, _profile(case.kubelet, on_version))
        return encode({"id": case.id, "outcome": outcome})

    return _checked(decide, line_type)


def judge_of(
    subsystem: str,
    on_verdict: Callable[[Verdict], object] | None = None,
    on_version: OnVersion | None = None,
) -> LineFunction:
    """A function from a claim's line to the line of its verdict.

    Args:
        subsystem: one of ``SUBSYSTEMS``.
        on_verdict: called with each verdict.
        on_version: as for ``decider_of``.

    Raises:
        BadQuestionError: no such subsystem.
    """
    module = _module(subsystem)
    line_type = _line_type("Claim", module.INPUT, claim=True)
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(line_type).decode
    encode = msgspec.json.Encoder().encode

    def judge(line: bytes) -> bytes:
        claim = decode(line)
        profile = _profile(claim.kubelet, on_version)
        found = _judgement(module, claim.input, profile, claim.outcome)
        if on_verdict is not None:
            on_verdict(found.verdict)
        return encode({"id": claim.id, "verdict": found.verdict, "why": found.why})

    return _checked(judge, line_type)


def _profile(version: str, on_version: OnVersion | None) -> KubeletProfile:
    profile = resolve(version)
    if on_version is not None and not profile.version.is_confirmed:
        on_version(version)
    return profile


def input_type(subsystem: str) -> type[msgspec.Struct]:
    """What the ``input`` of a case is decoded as.

    Raises:
        BadQuestionError: no such subsystem.
    """
    found: type[msgspec.Struct] = _module(subsystem).INPUT
    return found


def _judgement(
    module: Any,  # noqa: ANN401  # the case modules share names, not a type
    case_input: object,
    profile: KubeletProfile,
    outcome: object,
) -> Judgement:
    decided = module.decide(case_input, profile)
    try:
        claimed = msgspec.convert(outcome, module.OUTCOME, str_keys=True)
    except msgspec.ValidationError as error:
        return impossible(f"the outcome has not the shape of one: {error}")
    if claimed == decided:
        return MATCH
    found: Judgement = module.judge(case_input, profile, decided, claimed)
    return found


def _checked(line_function: LineFunction, line_type: type[msgspec.Struct]) -> LineFunction:
    """Whatever is wrong with a line becomes a ``BadInputError`` that names the field."""

    def checked(line: bytes) -> bytes:
        try:
            return line_function(line)
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


def _module(subsystem: str) -> Any:  # noqa: ANN401  # the case modules share names, not a type
    if subsystem not in SUBSYSTEMS:
        raise BadQuestionError(
            f"unknown subsystem {subsystem!r}", advice=f"one of {', '.join(SUBSYSTEMS)}"
        )
    return import_module(f"kubeledger.kubelet.cases.{subsystem}")


def _line_type(name: str, input_type: type, *, claim: bool) -> type[msgspec.Struct]:
    fields: list[tuple[str, type]] = [("id", str), ("kubelet", str), ("input", input_type)]
    if claim:
        fields.append(("outcome", object))
    return msgspec.defstruct(name, fields, frozen=True, gc=False)
