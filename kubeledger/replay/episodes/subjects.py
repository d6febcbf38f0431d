"""Which pods a record names, wherever it names them, by name or by UID."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol

import msgspec

from kubeledger.kubelet.kube.resources import UID
from kubeledger.model.patterns import regex


class PodKey(NamedTuple):
    """The key of a pod: its UID, or its namespace and name as long as no record has the UID.

    Attributes:
        renamed: the key that it had until this record told its UID; None for any other record.
    """

    current: str
    renamed: str | None


class PodNaming(Protocol):
    """What names a pod, perhaps not whole."""

    namespace: str | None
    pod: str | None
    pod_uid: str | None


class PodNames:
    """What the records so far say of the names and UIDs of a node's pods."""

    def __init__(self) -> None:
        self._uids: dict[tuple[str | None, str], str] = {}
        self._names: dict[str, tuple[str | None, str]] = {}

    def key(self, namespace: str | None, name: str | None, uid: str | None) -> PodKey:
        """The pod that a record names; without a UID the newest of that name."""
        if name is None:
            return PodKey(uid or "", None)
        named = f"{namespace or ''}/{name}"
        if uid is None:
            return PodKey(self._uids.get((namespace, name), named), None)
        is_first = (namespace, name) not in self._uids
        self._uids[namespace, name] = uid
        if namespace is not None or uid not in self._names:
            self._names[uid] = (namespace, name)
        return PodKey(uid, named if is_first else None)

    def complete(self, named: PodNaming) -> None:
        """Give something the name, or the UID, that other records have shown."""
        if named.namespace is None and named.pod_uid is not None:
            named.namespace, named.pod = self._names.get(named.pod_uid, (None, named.pod))
        elif named.pod is not None and named.pod_uid is None:
            named.pod_uid = self._uids.get((named.namespace, named.pod))


class Named(NamedTuple):
    """A pod that a record names.

    Attributes:
        role: ``victim_``, ``preemptor_`` or empty.
        pod: namespace and name.
        uid: None where the record has none.
    """

    role: str
    pod: tuple[str, str]
    uid: str | None


class Within(NamedTuple):
    """A container, or a pod, that stands in a list which a record holds."""

    pod: tuple[str, str] | None
    uid: str | None
    container: str | None


_VICTIM, _PREEMPTOR = "victim_", "preemptor_"
_ROLES = ("", _VICTIM, _PREEMPTOR)
_PATHS = ("cgroup", "task_cgroup")
_LISTS = ("pods", "ranked", "entries", "containers")
_POD_CGROUP = regex(rf"pod({UID})\b")
_NAMINGS_MAX = 1 << 14
"""So many ways in which bodies named pods are held: most records name those that others did."""


class _Role(NamedTuple):
    """The fields in which a kind of body names a pod; each is there, or None."""

    role: str
    namespace: str | None
    pod: str | None
    uid: str | None


class _Shape(NamedTuple):
    """In which of its fields a kind of body names pods."""

    roles: tuple[_Role, ...]
    paths: tuple[str, ...]
    lists: tuple[str, ...]
    has_assignments: bool

    @property
    def fields(self) -> tuple[str, ...]:
        """Those that are a text or None."""
        names = (name for _, *fields in self.roles for name in fields if name)
        return tuple(dict.fromkeys((*names, *self.paths)))


@cache
def _shape_of(kind: type[msgspec.Struct]) -> _Shape:
    there = frozenset(kind.__struct_fields__)

    def field(name: str) -> str | None:
        return name if name in there else None

    roles = (
        _Role(r, field(f"{r}namespace"), field(f"{r}pod"), field(f"{r or 'pod_'}uid"))
        for r in _ROLES
    )
    return _Shape(
        tuple(role for role in roles if role.pod or role.uid),
        tuple(path for path in _PATHS if path in there),
        tuple(name for name in _LISTS if name in there),
        "assignments" in there,
    )


def pods_in(body: Any) -> Iterator[Named]:  # noqa: ANN401 # any body
    """The pods that a body names, a victim before the one that it made room for."""
    return _pods(_shape_of(body.__class__), body)


def _pods(shape: _Shape, body: Any) -> Iterator[Named]:  # noqa: ANN401 # any body, or its fields
    for role, namespace, pod, uid in shape.roles:
        if namespace and pod and (its := getattr(body, namespace)) and (name := getattr(body, pod)):
            yield Named(role, (its, name), getattr(body, uid) if uid else None)


def uid_of(body: Any) -> str | None:  # noqa: ANN401 # any body
    """UID of the pod that a body is about, or whose cgroup it names; None where it has none."""
    return _uid(_shape_of(body.__class__), body)


def _uid(shape: _Shape, body: Any) -> str | None:  # noqa: ANN401 # any body, or its fields
    for role in shape.roles[:1]:
        if not role.role and role.uid and (uid := getattr(body, role.uid)):
            return str(uid)
    found = (_POD_CGROUP.search(getattr(body, path) or "") for path in shape.paths)
    return next((match[1].replace("_", "-") for match in found if match), None)


def named_within(body: Any) -> Iterator[Within]:  # noqa: ANN401 # any body
    """Whom lists in a body name: rankings, usage, checkpoints, resources of containers."""
    shape = _shape_of(body.__class__)
    for field in shape.lists:
        listed = getattr(body, field)
        for each in listed if isinstance(listed, tuple) else ():
            namespace, pod = getattr(each, "namespace", None), getattr(each, "pod", None)
            name = (namespace, pod) if namespace and pod else None
            yield Within(name, each.pod_uid, getattr(each, "container", None))
    assigned = body.assignments if shape.has_assignments else None
    for uid, containers in assigned.items() if isinstance(assigned, dict) else ():
        yield from (Within(None, uid, container) for container in containers)


def name_subject(namespace: str | None, pod: str) -> str:
    """By what a pod is found by name; of one whose namespace nobody says, without it."""
    return f"{namespace}/{pod}"


class Naming(NamedTuple):
    """How a body names pods.

    Attributes:
        subjects: by what one can be found in it: its name, ``NAMESPACE/NAME``, its UID.
        calls: such a subject, and the UID of the pod that it goes by there.
        about: UIDs of the pods that it is about; not of one that another made room for.
    """

    subjects: tuple[str, ...]
    calls: tuple[tuple[str, str], ...]
    about: tuple[str, ...]


def naming_of(body: Any) -> Naming:  # noqa: ANN401 # any body
    """How a body names pods."""
    fields_of, has_lists = _fields_of(body.__class__)
    naming = _naming(fields_of(body))
    if not has_lists:
        return naming
    within = {s for w in named_within(body) for s in (w.uid, "/".join(w.pod) if w.pod else None)}
    more = sorted(each for each in within if each)
    return naming._replace(subjects=tuple(dict.fromkeys((*naming.subjects, *more))))


def naming_fields(kind: type[msgspec.Struct]) -> tuple[str, ...] | None:
    """The texts in a kind of body that name pods; None where lists in it do, too."""
    shape = _shape_of(kind)
    return None if shape.lists or shape.has_assignments else shape.fields


@cache
def _fields_of(kind: type[msgspec.Struct]) -> tuple[attrgetter[Any], bool]:
    """What gives the class and the fields of a body that name pods, and whether lists do, too."""
    shape = _shape_of(kind)
    has_lists = bool(shape.lists) or shape.has_assignments
    return attrgetter("__class__", "__class__", *shape.fields), has_lists


@lru_cache(_NAMINGS_MAX)
def _naming(class_and_fields: tuple[Any, ...]) -> Naming:
    kind, _, *values = class_and_fields
    shape = _shape_of(kind)
    body = SimpleNamespace(**dict(zip(shape.fields, values, strict=True)))
    subjects, calls = [_uid(shape, body)], list[tuple[str, str]]()
    for role in shape.roles:
        uid = getattr(body, role.uid) if role.uid else None
        named = [uid]
        if role.pod and (pod := getattr(body, role.pod)):
            namespace = getattr(body, role.namespace) if role.namespace else None
            named += [pod, name_subject(namespace, pod)]
        subjects += named
        calls += [(each, uid) for each in named if each and uid]
    pods = list(_pods(shape, body))
    has_victim = any(role.role == _VICTIM for role in shape.roles)
    about = [named.uid for named in pods if not (has_victim and named.role == _PREEMPTOR)]
    known = dict.fromkeys(filter(None, about if pods else subjects[:1]))
    return Naming(tuple(dict.fromkeys(filter(None, subjects))), tuple(calls), tuple(known))
