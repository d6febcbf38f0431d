"""What a decision about a container must be about: the same as what led to it."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from kubeledger.model.bodies.lifecycle import ContainerDied, ContainerKilled
from kubeledger.model.bodies.preemption import PodPreempted
from kubeledger.model.record import Body, Record
from kubeledger.verify.belief import Judgement, same
from kubeledger.verify.context import VerifyContext
from kubeledger.verify.finding import Fields
from kubeledger.verify.rules.containers import OfContainer

B = TypeVar("B", bound=msgspec.Struct)

_CAUSES_MAX: Final = 256
_NAMES: Final = ("namespace", "pod", "pod_uid", "container", "container_id")
_VICTIM: Final = {"namespace": "victim_namespace", "pod": "victim_pod", "pod_uid": "victim_uid"}


class Causes:
    """What the newest records that decisions follow from were about: decisions are, too."""

    def __init__(self, context: VerifyContext) -> None:
        self._context = context
        self._bodies: dict[int, Body] = {}

    def see(self, record: Record, body: Body, _state: object = None) -> None:
        """Note a record with a body as it is believed."""
        self._bodies[record.seq] = body
        if len(self._bodies) > _CAUSES_MAX:
            del self._bodies[next(iter(self._bodies))]

    def judge(self, record: Record, body: OfContainer) -> Judgement | None:
        """The judgement of a decision about another one than its cause; None for the same."""
        cause = self._bodies.get(record.cause or 0)
        names = {} if cause is None else _names(cause)
        uid = names.get("pod_uid", body.pod_uid)
        listed = None if uid is None else self._context.pods.at(record.ts_ns, uid)
        if listed is not None:
            names |= {"namespace": listed.namespace, "pod": listed.name}
        given = {name: getattr(body, name, None) for name in names}
        wrong = {name: value for name, value in names.items() if given[name] not in (None, value)}
        if not wrong:
            return None
        about = " and ".join(f"{name} {value}" for name, value in wrong.items())
        why = f"what led to this was about {about}"
        return same(False, why, expected=wrong, inputs=[record.cause or 0])


def corrected(body: B, wrong: Judgement | None) -> B:
    """The body as it must have been, so that one wrong name is found only once."""
    expected = None if wrong is None else wrong.expected
    return body if expected is None else msgspec.structs.replace(body, **expected)


def _names(cause: Body) -> Fields:
    """What what follows is about; after the end of a container that is another one."""
    but = "container_id" if isinstance(cause, ContainerDied | ContainerKilled) else ""
    fields = _VICTIM if isinstance(cause, PodPreempted) else dict.fromkeys(_NAMES)
    given = {name: getattr(cause, field or name, None) for name, field in fields.items()}
    found = {n: v for n, v in given.items() if v is not None and n != but}
    if "pod_uid" in found:
        del found["namespace"], found["pod"]
    return found
