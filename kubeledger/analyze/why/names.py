"""What people type, as targets: names, UIDs, IDs, tags, devices and paths that records know."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from kubeledger.analyze.histories.history import History
from kubeledger.analyze.histories.noting import SUBJECT_INDEX, Fold
from kubeledger.analyze.why.concern import belongings_of, containers_in, weight_of
from kubeledger.analyze.why.explanation import FORMS, Target, TargetKind, parse_target
from kubeledger.ledger.storage import NAMES
from kubeledger.model.bodies.node import ErrorsLogged
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.record import Record
from kubeledger.replay.episodes.subjects import named_within, pods_in, uid_of

_ID_MIN = 6
_LIGHTEST = (-100, 0, 0)
_SHOWN_MAX = 8
_RUNTIME = re.compile(r"^[a-z-]+://")
_MOUNT = re.compile(r"^/?sys/fs/cgroup/(?:[a-z_,]+/(?=kubepods|[^/]*\.slice))?")
_HEX = re.compile(r"[0-9a-f]+")

Pod = tuple[str, str]


class Known(msgspec.Struct):
    """Names that the records of one node know.

    Attributes:
        pods: (namespace, name) -> UIDs.
        weights: pod, or pod and container -> what its weightiest decision explains, and when.
        manifests: pods that only a manifest names; the kubelet adds the node's name to theirs.
        containers: pod -> names of its containers.
        container_ids: ID -> pod, container (empty for the sandbox), UID of the pod.
        images: ID -> names of it.
        devices: (resource, ID).
        unnamed: UID of a pod -> names of its containers, of records with nothing but the UID.
        nameless: name of a pod -> the pod, of records that have no namespace of it.
        others: process, claim, volume, secret or the like -> what it belongs to.
    """

    node: str = ""
    pods: dict[Pod, dict[str, None]] = {}
    manifests: dict[Pod, None] = {}
    containers: dict[Pod, dict[str, None]] = {}
    container_ids: dict[str, tuple[tuple[str, ...], str, str | None]] = {}
    images: dict[str, set[str]] = {}
    devices: dict[tuple[str, str], None] = {}
    cgroups: dict[str, None] = {}
    weights: dict[tuple[str, ...], tuple[int, int, int]] = {}
    unnamed: dict[str, dict[str, None]] = {}
    nameless: dict[str, dict[Target, None]] = {}
    others: dict[str, dict[Target, None]] = {}

    def take_in(self, later: Known) -> None:
        """What the records after those that are known know besides."""
        for name in ("pods", "containers", "unnamed", "nameless", "others"):
            known = getattr(self, name)
            for key, names in getattr(later, name).items():
                known.setdefault(key, {}).update(names)
        for image, names in later.images.items():
            self.images.setdefault(image, set()).update(names)
        self.manifests |= later.manifests
        self.devices |= later.devices
        self.cgroups |= later.cgroups
        for whose, weight in later.weights.items():
            self.weights[whose] = max(self.weights.get(whose, weight), weight)
        for container_id, found in later.container_ids.items():
            _name_container(self, container_id, *found)


def find_target(text: str, histories: Sequence[History]) -> Target:
    """The target that a user means.

    A target in full (``pod/NS/NAME``) is taken as it is written, except that a static pod may go
    by the name in its manifest. Otherwise it may be a name, or ``NAMESPACE/POD``,
    ``POD/CONTAINER``, a UID, an ID or what it begins with, an image's name, a device, a path.

    Args:
        histories: of the nodes that may know it.

    Raises:
        BadQuestionError: nothing of that name is known, or several things are.
    """
    word, slash, rest = text.strip().partition("/")
    kind = next((kind for kind in FORMS if kind == word and (slash or kind == "node")), None)
    target = _in_full(text.strip(), kind)
    if target is not None and target.kind in {"node", "device", "cgroup"}:
        return target
    known = [known_names(history) for history in histories]
    if target is not None and target.kind in {"pod", "container"} and len(target.parts) > 1:
        return next((a for each in known for a in _known_as(target, each)), target)
    asked = rest if kind else text.strip()
    if target is not None and _HEX.fullmatch(asked.removeprefix("sha256:")):
        return target
    for match in (_exact, _beginning, _belongings):
        found = dict.fromkeys(t for each in known for t in match(asked, each) if asked)
        fitting = [t for t in found if kind in (None, t.kind) or match is _belongings]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise _several(text, sorted(fitting, key=lambda t: _likeliest(t, known)))
    if target is not None:
        return target
    raise _nothing(text, kind, asked, known)


def _in_full(text: str, kind: TargetKind | None) -> Target | None:
    try:
        return parse_target(text) if kind else None
    except BadQuestionError:
        return None


def _known_as(target: Target, known: Known) -> Iterable[Target]:
    """The pod that the kubelet made of a manifest of this name; one whose namespace nobody says."""
    namespace, name = target.parts[:2]
    full = (namespace, f"{name}-{known.node}")
    if (namespace, name) in known.pods:
        return
    if full in known.pods:
        yield Target(target.kind, (*full, *target.parts[2:]))
    elif target.kind == "pod":
        yield from _resolved(known.nameless.get(name, {}), known)


def _likeliest(target: Target, known: Sequence[Known]) -> tuple[int, ...]:
    """Pods before the rest; of pods and containers those with most records, the latest first."""
    weights = (each.weights.get(target.parts) for each in known)
    rank, ts_ns, _ = max(filter(None, weights), default=_LIGHTEST)
    return list(FORMS).index(target.kind), -rank, -ts_ns


def known_names(history: History) -> Known:
    """The names that the records of a node know."""
    known = Known(history.node)
    for stretch in history.derive(NAMES_KNOWN):
        known.take_in(stretch.value)
    for pod, uids in known.pods.items():
        for uid in uids:
            if uid in known.unnamed:
                known.containers.setdefault(pod, {}).update(known.unnamed.pop(uid))
    return known


def _note(known: Known, record: Record) -> bool:
    """Whether it names a container in another way than a record before did."""
    container_id = getattr(record.body, "container_id", None) or ""
    before = known.container_ids.get(container_id)
    _take_record(known, record)
    return before is not None and known.container_ids[container_id] != before


def _take_record(known: Known, record: Record) -> None:
    body: Any = record.body
    match record.kind:
        case "cgroups.CgroupUpdated" | "cgroups.CgroupRemoved":
            known.cgroups[body.cgroup] = None
        case "images.ImageDeleted":
            known.images.setdefault(body.image_id, set())
        case "images.ImagesDetected":
            for image in body.images:
                known.images.setdefault(image.image_id, set())
        case "devicemanager.DevicesReported":
            known.devices |= dict.fromkeys((body.resource, i) for i in body.device_ids or ())
        case "devicemanager.CheckpointRead":
            for resource, ids in body.registered.items():
                known.devices |= dict.fromkeys((resource, device) for device in ids)
        case "devicemanager.DevicesAllocated":
            known.devices |= dict.fromkeys((body.resource, i) for i in body.device_ids)
    if getattr(body, "object_kind", "Pod") != "Pod":
        return
    cgroup = getattr(body, "cgroup", None)
    whose = Target("cgroup", (cgroup,)) if cgroup else Target("node", (record.node,))
    for named in pods_in(body):
        _note_pod(known, named.pod, named.uid, record)
        whose = Target("pod", named.pod)
    uid, container = uid_of(body), getattr(body, "container", None)
    if uid and whose.kind != "pod":
        whose = _note_unnamed(known, uid, container, getattr(body, "container_id", None))
    for each in named_within(body):
        if each.pod is not None:
            known.pods.setdefault(each.pod, {}).update({each.uid: None} if each.uid else {})
            known.containers.setdefault(each.pod, {}).update(_one(each.container))
        elif each.uid is not None:
            _note_unnamed(known, each.uid, each.container, None)
    pod = getattr(body, "pod", None)
    if pod and not getattr(body, "namespace", None):
        its = whose if whose.kind == "pod" else Target("pod", (pod,))
        known.nameless.setdefault(pod, {})[its] = None
    if record.kind == ErrorsLogged.kind:  # its process is the kubelet
        whose = Target("node", (record.node,))
    for name in belongings_of(body):
        known.others.setdefault(name, {})[whose] = None


def _one(name: str | None) -> dict[str, None]:
    return {name: None} if name else {}


def _note_unnamed(
    known: Known, uid: str, container: str | None, container_id: str | None
) -> Target:
    known.unnamed.setdefault(uid, {}).update(_one(container))
    if container_id:
        _name_container(known, container_id, (uid,), "", uid)
    return Target("pod", (uid,), uid)


def _note_pod(known: Known, pod: Pod, uid: str | None, record: Record) -> None:
    body: Any = record.body
    if getattr(body, "listed_by", None) == "manifest" and uid is None:
        known.manifests[pod] = None
    else:
        known.pods.setdefault(pod, {}).update({uid: None} if uid else {})
    name = getattr(body, "container", None)
    if name:
        known.containers.setdefault(pod, {})[name] = None
    if record.role == "decision":
        weight = weight_of(record)
        for whose in (pod, (*pod, name)) if name else (pod,):
            known.weights[whose] = max(known.weights.get(whose, weight), weight)
    container_id = getattr(body, "container_id", None)
    if container_id:
        _name_container(known, container_id, pod, name or "", uid)
    for part in (getattr(body, "spec", None), getattr(body, "status", None)):
        for container in containers_in(part):
            _note_container(known, pod, container)


def _name_container(
    known: Known, container_id: str, whose: tuple[str, ...], name: str, uid: str | None
) -> None:
    """Whose a container is: the last that names it, else the first that says more of its pod."""
    so_far = known.container_ids.get(container_id, ((),))[0]
    if name or len(so_far) < len(whose):
        known.container_ids[container_id] = (whose, name, uid)


def _note_container(known: Known, pod: Pod, container: dict[str, Any]) -> None:
    if isinstance(name := container.get("name"), str):
        known.containers.setdefault(pod, {})[name] = None
    image, image_id = container.get("image"), container.get("imageID")
    if isinstance(image, str) and isinstance(image_id, str) and image_id:
        names = known.images.setdefault(_RUNTIME.sub("", image_id).rpartition("@")[2], set())
        names.add(image)


_TEXTS = frozenset(
    {"about", "chosen_pid", "container", "container_id", "invoked_by", "listed_by"}
    | {"namespace", "object_kind", "pid", "pod", "process"}
)
_PARTS = frozenset(
    {"also_killed", "device_ids", "image_id", "images", "registered", "spec", "status", "tasks"}
)
NAMES_KNOWN = Fold(NAMES, Known, _note, _TEXTS, _PARTS, beside=(SUBJECT_INDEX,))


def kept_folds() -> tuple[Fold[Any], ...]:
    """What a question about a pod asks first."""
    return NAMES_KNOWN, SUBJECT_INDEX


def _pods(known: Known) -> Iterable[Pod]:
    yield from known.pods
    for namespace, name in known.manifests:
        if (namespace, f"{name}-{known.node}") not in known.pods:
            yield namespace, name


def _exact(asked: str, known: Known) -> list[Target]:
    """What goes by just this name, UID, ID or path; a container only where no pod does."""
    spelled = {asked, _RUNTIME.sub("", asked), _path(asked)}
    named = (*_whole_names(known), *_ids(known), *_cgroups(known))
    found = [target for name, target in named if name in spelled]
    is_pod = any(target.kind == "pod" for target in found)
    return [target for target in found if not (is_pod and target.kind == "container")]


def _beginning(asked: str, known: Known) -> list[Target]:
    """What begins with it: IDs by six digits, images by their name, pods by a controller's."""
    bare = _RUNTIME.sub("", asked).removeprefix("sha256:")
    is_id = len(bare) >= _ID_MIN and _HEX.fullmatch(bare.replace("-", "")) is not None
    found = [target for name, target in _ids(known) if is_id and name.startswith(bare)]
    found += [target for name, target in _part_names(known) if name == asked]
    path = _path(asked)
    if "/" in path or "kubepods" in path:
        found += [target for whole, target in _cgroups(known) if whole.endswith(f"/{path}")]
    return found


def _named(known: Known) -> dict[str, tuple[str, ...]]:
    return {uid: pod for pod, uids in known.pods.items() for uid in uids}


def _belongings(asked: str, known: Known) -> list[Target]:
    """Whose process, claim, volume or secret it is; a pod of this name in whatever namespace."""
    found = dict(known.others.get(asked, {}))
    unnamed = (uid for uid, containers in known.unnamed.items() if asked in containers)
    found |= dict.fromkeys(Target("pod", (uid,), uid) for uid in unnamed)
    found |= known.nameless.get(asked.rpartition("/")[2], {})
    return _resolved(found, known)


def _resolved(found: Iterable[Target], known: Known) -> list[Target]:
    """Pods that are known by UID, by the name that they got since, if they did."""
    named = _named(known)
    return [Target(t.kind, named.get(t.pod_uid or "", t.parts), t.pod_uid) for t in found]


def _path(asked: str) -> str:
    return _MOUNT.sub("", asked).strip("/")


def _ids(known: Known) -> Iterator[tuple[str, Target]]:
    """IDs and what they are of; one of a sandbox is its pod's."""
    for pod, uids in known.pods.items():
        yield from ((uid, Target("pod", pod, uid)) for uid in uids)
    yield from ((uid, Target("pod", (uid,), uid)) for uid in known.unnamed)
    named = _named(known)
    for container_id, (parts, name, uid) in known.container_ids.items():
        whose = named.get(uid or "", parts)
        target = Target("container", (*whose, name), uid) if name else Target("pod", whose, uid)
        yield container_id, target
    for image_id in known.images:
        yield image_id.removeprefix("sha256:"), Target("image", (image_id,))


def _cgroups(known: Known) -> Iterator[tuple[str, Target]]:
    return ((path, Target("cgroup", (path,))) for path in known.cgroups)


def _whole_names(known: Known) -> Iterator[tuple[str, Target]]:
    """What targets are called; a static pod also without the node's name."""
    yield "node", Target("node", ())
    yield known.node, Target("node", (known.node,))
    for pod in _pods(known):
        short = pod[1].removesuffix(f"-{known.node}")
        yield from _names_of_pod(known, pod, dict.fromkeys((pod[1], short)))
        for name in known.containers.get(pod, {}):
            yield name, Target("container", (*pod, name))
            for uid in known.pods.get(pod, {}):
                yield f"{uid}/{name}", Target("container", (*pod, name), uid)
    for resource, device in known.devices:
        for name in dict.fromkeys((device, f"{resource}/{device}", resource)):
            yield name, Target("device", (resource, device))
    for image_id, names in known.images.items():
        yield from ((name, Target("image", (image_id,))) for name in (image_id, *sorted(names)))


def _part_names(known: Known) -> Iterator[tuple[str, Target]]:
    """Shorter names: of an image without its registry, path or tag, of a pod its controllers'."""
    for image_id, names in known.images.items():
        short = {short for name in names for short in _names_of_image(name)}
        yield from ((name, Target("image", (image_id,))) for name in sorted(short))
    for pod in _pods(known):
        parts = pod[1].split("-")
        made = ("-".join(parts[:end]) for end in range(len(parts) - 1, 0, -1))
        yield from _names_of_pod(known, pod, filter(None, made))


def _names_of_pod(known: Known, pod: Pod, names: Iterable[str]) -> Iterator[tuple[str, Target]]:
    """A pod and its containers under names of the pod, with and without its namespace."""
    for called in names:
        for name in (called, f"{pod[0]}/{called}"):
            yield name, Target("pod", pod)
            for container in known.containers.get(pod, {}):
                yield f"{name}/{container}", Target("container", (*pod, container))


def _names_of_image(name: str) -> set[str]:
    """Shorter names of an image: without its registry, its path, its tag."""
    path = name.partition("@")[0]
    repository = path if ":" not in path.rpartition("/")[2] else path.rpartition(":")[0]
    return {
        short
        for whole in (path, repository)
        for short in (whole, whole.partition("/")[2], whole.rpartition("/")[2])
        if short
    }


def _written(target: Target) -> str:
    """How the user can write it: of a name that was used again, the UID distinguishes them."""
    if target.pod_uid is None:
        return str(target)
    return "/".join((target.pod_uid, *target.parts[2:]))


def _several(text: str, found: list[Target]) -> BadQuestionError:
    names = [_written(target) for target in found]
    more = f" and {len(names) - _SHOWN_MAX} more" if len(names) > _SHOWN_MAX else ""
    return BadQuestionError(
        f"{text!r} may mean {len(names)} things",
        advice=f"ask for one of: {' '.join(names[:_SHOWN_MAX])}{more}",
    )


def _nothing(
    text: str, kind: TargetKind | None, asked: str, known: list[Known]
) -> BadQuestionError:
    """The error that suggests the nearest names; one that several go by stands for itself."""
    names: dict[str, str] = {}
    for called in (_whole_names, _part_names):
        found: dict[str, dict[Target, None]] = {}
        for name, target in (pair for each in known for pair in called(each)):
            if target.kind == "node" or target.pod_uid or kind not in {None, target.kind}:
                continue
            in_short = called is _part_names and target.kind == "container"
            if not in_short and not name.startswith("sha256:"):
                found.setdefault(name, {})[target] = None
        for name, targets in found.items():
            first = next(iter(targets))
            names.setdefault(name, str(first) if len(targets) == 1 else f"{first.kind}/{name}")
    near = difflib.get_close_matches(asked, names, 3, 0.6) if asked else []
    part = asked.rpartition("/")[2]
    near += [name for name in names if part and part in name][:3]
    meant = list(dict.fromkeys(names[name] for name in near))[:3]
    if meant:
        advice = f"is it {' or '.join(meant)}?"
        return BadQuestionError(f"nothing is known as {text!r}", advice=advice)
    if kind is not None:
        return BadQuestionError(f"{text!r} is not of the form {FORMS[kind]}")
    advice = f"give a name, an ID, or {', '.join(FORMS.values())}"
    return BadQuestionError(f"nothing is known as {text!r}", advice=advice)
