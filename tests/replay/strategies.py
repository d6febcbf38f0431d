"""Random histories: bodies of every kind about few pods, so that they meet each other."""

import types
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st

from kubeledger.model.record import Body, Evidence, Record
from kubeledger.model.wire.catalogue import BODY_TYPES

_UIDS = st.sampled_from((None, "uid-1", "uid-2", "uid-3"))
_NAMES = st.sampled_from(("a", "b"))
_CONTAINERS = st.sampled_from(("app", "side"))
_IDS = st.sampled_from(("1", "2", "3"))
_TIMES = st.integers(0, 10**10)

_STATUS = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from(("Pending", "Running", "Succeeded", "Failed", 3)),
        "qosClass": st.sampled_from(("BestEffort", "Burstable")),
        "reason": st.sampled_from(("Evicted", None)),
        "containerStatuses": st.lists(
            st.fixed_dictionaries(
                {"name": _CONTAINERS},
                optional={
                    "containerID": st.sampled_from(("", "containerd://1", "containerd://2", 7)),
                    "restartCount": st.sampled_from((0, 1, 2, None)),
                    "state": st.sampled_from(
                        (
                            None,
                            {"running": {"startedAt": "1970-01-01T00:00:01Z"}},
                            {"running": {"startedAt": "soon"}},
                            {"terminated": {"exitCode": 1, "finishedAt": None}},
                            {"waiting": {}},
                        )
                    ),
                    "lastState": st.sampled_from(({}, {"terminated": {"exitCode": 0}})),
                },
            ),
            max_size=2,
        ),
    },
)
_SPEC = st.fixed_dictionaries(
    {},
    optional={
        "restartPolicy": st.sampled_from(("Always", "Never", None)),
        "initContainers": st.lists(st.fixed_dictionaries({"name": _CONTAINERS}), max_size=1),
        "containers": st.sampled_from(([{"name": "app"}], [{"name": "side"}, {}], None, "text")),
    },
)

_BY_FIELD: dict[str, st.SearchStrategy[Any]] = {
    "pod_uid": _UIDS,
    "victim_uid": _UIDS,
    "preemptor_uid": _UIDS,
    "pod": _NAMES,
    "victim_pod": _NAMES,
    "preemptor_pod": _NAMES,
    "namespace": st.just("ns"),
    "victim_namespace": st.just("ns"),
    "preemptor_namespace": st.just("ns"),
    "container": _CONTAINERS,
    "container_id": _IDS,
    "previous_container_id": _IDS,
    "image_id": _IDS,
    "resource": st.sampled_from(("example.com/gpu", "vendor.io/nic")),
    "cgroup": st.sampled_from(("kubepods", "kubepods/podu", "kubepods/podu/1", "kubepods/podux")),
    "status": st.none() | _STATUS,
    "spec": st.none() | _SPEC,
    "object_kind": st.sampled_from(("Pod", "Node")),
    "pid": st.sampled_from((None, 1, 2)),
    "value": st.sampled_from(("80", '"x"', "null", '{"a":1}')),
}
_TEXTS = st.sampled_from(("", "x", "y"))


def bodies() -> st.SearchStrategy[Body]:
    return st.sampled_from(tuple(BODY_TYPES.values())).flatmap(_struct)


def histories(size_max: int = 40) -> st.SearchStrategy[list[Record]]:
    """Records of one node, numbered from 1; their times may go back."""
    facts = st.lists(st.tuples(_TIMES, bodies()), max_size=size_max)
    return facts.map(lambda pairs: [record(n, b, ts) for n, (ts, b) in enumerate(pairs, 1)])


def record(seq: int, body: Body, ts_ns: int | None = None, *, node: str = "node-t") -> Record:
    """An envelope around ``body``; a second for each number when no time is given."""
    return Record(
        node=node,
        seq=seq,
        ts_ns=seq * 10**9 if ts_ns is None else ts_ns,
        role=body.role,
        kind=body.kind,
        v=body.v,
        cause=None,
        evidence=(Evidence(file="kubelet.log", line=seq),),
        body=body,
    )


def _struct(type_: type[Any]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(type_)
    return st.builds(
        type_,
        **{
            field.name: _field(field.name, hints[field.name])
            for field in msgspec.structs.fields(type_)
        },
    )


def _field(name: str, hint: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401 - any annotation
    strategy = _BY_FIELD.get(name)
    if strategy is None or get_origin(hint) is Literal:
        return _of(hint)
    may_be_none = type(None) in get_args(hint)
    if not may_be_none:
        return strategy.filter(lambda value: value is not None)
    return strategy | st.none()


def _of(hint: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401 - any annotation
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, types.UnionType):
        return st.one_of(*(_of(argument) for argument in arguments))
    if origin is tuple:
        return st.lists(_of(arguments[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(_of(arguments[0]), _of(arguments[1]), max_size=2)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _struct(hint)
    return _PLAIN[hint]


_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: _TEXTS,
    int: st.integers(0, 9),
    bool: st.booleans(),
    type(None): st.none(),
    Any: st.none(),
}
