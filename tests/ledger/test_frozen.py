"""Objects that are kept as numbers and texts, and made again."""

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import pytest

from kubeledger.ingest.correlate.holdback import Holdback, Waiting
from kubeledger.ingest.klog.router import Verdict
from kubeledger.ingest.klog.stamps import Clock, Doubt
from kubeledger.ingest.sources.items import Fact
from kubeledger.kubelet.kube.containermanager import ContainerMap
from kubeledger.kubelet.kube.resources import name_key
from kubeledger.ledger.frozen import Frozen, NotFreezableError, freeze, thaw
from kubeledger.model.bodies.lifecycle import PodAdmitted
from kubeledger.model.bodies.node import Setting
from kubeledger.model.record import Evidence


def again(root: object, **outside: object) -> object:
    """What was frozen, through its bytes."""
    data = msgspec.msgpack.encode(freeze(root, outside))
    return thaw(msgspec.msgpack.decode(data, type=Frozen), outside)


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 1, -1, 1 << 62, 0.5, "", "ä\0", b"\0\xff", ()),
        *([1, [2]], {1: {"a": b"b"}}, {"a", 1}, frozenset({(1, "a")}), (1, (b"a", True))),
        *(Counter("aab"), OrderedDict(b=1, a=2), defaultdict(list, a=[1])),
        *(deque([1, 2], maxlen=2), Doubt(1, 2, 3), Setting(value="1", source="flag"), PodAdmitted),
        *(Verdict.NOISE, Evidence(file="a", line=1), -(1 << 200), [1 << 63], name_key),
        ContainerMap({"a": ("b", "c")}),
    ],
)
def test_values_come_again(value: object) -> None:
    """Of the same type, and 1 is not True."""
    found = again([value, value])
    assert isinstance(found, list)
    assert found == [value, value]
    assert type(found[0]) is type(value)
    assert repr(found) == repr([value, value])


def test_what_was_one_object_is_one() -> None:
    clock = Clock(2026)
    fact = Fact(1, PodAdmitted(namespace="a", pod="b", pod_uid=None), ())
    waiting: Waiting[PodAdmitted] = Waiting(fact)
    shared: list[object] = [clock, (waiting, fact), {clock: "key"}]
    shared.append(shared)
    found = again(shared)
    assert isinstance(found, list)
    assert found[3] is found
    assert found[1][0].fact is found[1][1]
    assert found[2][found[0]] == "key"
    assert found[1][1].body == fact.body


def test_methods_are_bound_again_and_the_outside_is_given() -> None:
    """A method to the object made anew; what stands outside is another one's."""
    queue, clock = Holdback(), Clock(2026)
    frozen = freeze([queue.drain, queue, clock.finish], {"clock": clock})
    other = Clock(2027)
    drain, made, finish = thaw(frozen, {"clock": other})
    assert drain.__self__ is made is not queue
    assert finish.__self__ is other


class _Of(NamedTuple):
    """A class of no module of the program."""

    call: Callable[[], None]


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (print, "."), (lambda: None, "."), (_Of(print), "."), (object(), "."), (iter(()), "."),
        (int, r"builtins\.int$"),
        (defaultdict(lambda: 1), "a dictionary that makes <lambda>$"),
    ],
)  # fmt: skip
def test_others_are_refused(value: object, what: str) -> None:
    with pytest.raises(NotFreezableError, match=what):
        freeze([value], {})


@pytest.mark.parametrize(
    "shape",
    [
        ("os", "system", ()),
        ("kubeledger.cli.main", "no_such", ()),
        ("kubeledger.no_such", "Clock", ()),
        ("class", "subprocess", ("Popen",)),
        ("kubeledger.ledger.frozen", "freeze", ()),
        ("outside", "nobody", ()),
        ("deque", "", ()),
        ("method", "system", ()),
    ],
)
def test_what_does_not_fit_is_an_error(shape: tuple[str, str, tuple[str, ...]]) -> None:
    """No class of another program, nothing that is no class, nothing that is not there."""
    with pytest.raises(ValueError, match=r"."):
        thaw(Frozen([None], [("tuple", "", ()), shape], [[1], [0, 0]]), {})
