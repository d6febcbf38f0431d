"""What people type, as targets: names, UIDs, IDs, tags, devices and paths that records know."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from kubeledger.analyze.histories.history import History
from kubeledger.analyze.why.concern import weight_of
from kubeledger.analyze.why.named import containers_in, pods_in
from kubeledger.analyze.why.target import FORMS, Target, TargetKind, parse_target
from kubeledger.model.errors import BadQuestionError
from kubeledger.model.record import Record

__all__ = ["find_target", "known_names"]

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
        unnamed: UID of a pod -> names of containers that records tell with nothing but it.
        manifests: pods that only a manifest names; the kubelet adds the node's name to theirs.
        containers: pod -> names of its containers.
        container_ids: ID -> pod, container (empty for the sandbox), UID of the pod.
        images: ID -> names of it.
        devices: (resource, ID).
    """

    node: str
    pods: dict[Pod, dict[str, None]] = {}
    manifests: dict[Pod, None] = {}
    containers: dict[Pod, dict[str, None]] = {}
    container_ids: dict[str, tuple[Pod, str, str | None]] = {}
    images: dict[str, set[str]] = {}
    devices: dict[tuple[str, str], None] = {}
    cgroups: dict[str, None] = {}
    weights: dict[tuple[str, ...], tuple[int, int, int]] = {}
    unnamed: dict[str, dict[str, None]] = {}


def find_target(text: str, histories: Sequence[History]) -> Target:
    """The target that a user means.

    A target in full (``pod/NS/NAME``) is taken as it is written, except that a static pod may go
    by the name in its manifest. Otherwise it may be a name, or ``NAMESPACE/POD``,
    ``POD/CONTAINER``, a UID, an ID or what it begins with, an image's name, a device, a path.

    Args:
        text: as typed.
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
    if target is not None and target.kind in {"pod", "container"}:
        return next((a for each in known for a in _static(target, each)), target)
    asked = rest if kind else text.strip()
    if target is not None and _HEX.fullmatch(asked.removeprefix("sha256:")):
        return target
    for match in (_exact, _beginning):
        found = dict.fromkeys(t for each in known for t in match(asked, each) if asked)
        fitting = [t for t in found if kind is None or t.kind == kind]
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


def _static(target: Target, known: Known) -> Iterable[Target]:
    """The pod that the kubelet made of a manifest of this name."""
    namespace, name = target.parts[:2]
    full = (namespace, f"{name}-{known.node}")
    if full in known.pods and (namespace, name) not in known.pods:
        yield Target(target.kind, (*full, *target.parts[2:]))


def _likeliest(target: Target, known: Sequence[Known]) -> tuple[int, ...]:
    """Pods before the rest, and of pods and containers those that most befell, the latest first."""
    weights = (each.weights.get(target.parts) for each in known)
    rank, ts_ns, _ = max(filter(None, weights), default=_LIGHTEST)
    return list(FORMS).index(target.kind), -rank, -ts_ns


def known_names(history: History) -> Known:
    """The names that the records of a node know."""
    known = Known(history.node)
    for record in history.read(None):
        _note(known, record)
    for pod, uids in known.pods.items():
        for uid in uids:
            if uid in known.unnamed:
                known.containers.setdefault(pod, {}).update(known.unnamed[uid])
    return known


def _note(known: Known, record: Record) -> None:
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
        case _:
            pass
    if getattr(body, "object_kind", "Pod") != "Pod":
        return
    for named in pods_in(body):
        _note_pod(known, named.pod, named.uid, record)
    uid, container = getattr(body, "pod_uid", None), getattr(body, "container", None)
    if uid and container and not getattr(body, "pod", None):
        known.unnamed.setdefault(uid, {})[container] = None


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
    if container_id and (name or container_id not in known.container_ids):
        known.container_ids[container_id] = (pod, name or "", uid)
    for part in (getattr(body, "spec", None), getattr(body, "status", None)):
        for container in containers_in(part):
            _note_container(known, pod, container)


def _note_container(known: Known, pod: Pod, container: dict[str, Any]) -> None:
    if isinstance(name := container.get("name"), str):
        known.containers.setdefault(pod, {})[name] = None
    image, image_id = container.get("image"), container.get("imageID")
    if isinstance(image, str) and isinstance(image_id, str) and image_id:
        names = known.images.setdefault(_RUNTIME.sub("", image_id).rpartition("@")[2], set())
        names.add(image)


def _pods(known: Known) -> Iterable[Pod]:
    yield from known.pods
    for namespace, name in known.manifests:
        if (namespace, f"{name}-{known.node}") not in known.pods:
            yield namespace, name


def _exact(asked: str, known: Known) -> Iterable[Target]:
    """What goes by just this name, UID, ID or path."""
    if asked in {"node", known.node}:
        yield Target("node", () if asked == "node" else (asked,))
    parts = tuple(asked.split("/"))
    pods = [pod for pod in _pods(known) if _is_pod(parts, pod, known.node)]
    yield from (Target("pod", pod) for pod in pods)
    if not pods:
        yield from _containers(parts, known)
    yield from _by_id(known, lambda uid: uid == asked, lambda i: i == _RUNTIME.sub("", asked))
    for resource, device in known.devices:
        if asked in {device, f"{resource}/{device}", resource}:
            yield Target("device", (resource, device))
    for image_id, names in known.images.items():
        if asked in {image_id, image_id.removeprefix("sha256:"), *names}:
            yield Target("image", (image_id,))
    path = _MOUNT.sub("", asked).strip("/")
    if path in known.cgroups:
        yield Target("cgroup", (path,))


def _is_pod(parts: tuple[str, ...], pod: Pod, node: str) -> bool:
    """``NAME`` or ``NAMESPACE/NAME``, a static pod's with or without the node's name."""
    if len(parts) > 2 or (len(parts) == 2 and parts[0] != pod[0]):
        return False
    return pod[1] in {parts[-1], f"{parts[-1]}-{node}"}


def _containers(parts: tuple[str, ...], known: Known) -> Iterable[Target]:
    """``CONTAINER``, ``POD/CONTAINER``, ``UID/CONTAINER`` or ``NAMESPACE/POD/CONTAINER``."""
    for pod in _pods(known):
        uids = known.pods.get(pod, {})
        for name in known.containers.get(pod, {}):
            if parts[-1] != name or len(parts) > 3:
                continue
            if len(parts) == 1 or _is_pod(parts[:-1], pod, known.node):
                yield Target("container", (*pod, name))
            elif len(parts) == 2 and parts[0] in uids:
                yield Target("container", (*pod, name), parts[0])


def _by_id(
    known: Known, is_uid: Callable[[str], bool], is_id: Callable[[str], bool]
) -> Iterable[Target]:
    for pod, uids in known.pods.items():
        yield from (Target("pod", pod, uid) for uid in uids if is_uid(uid))
    for container_id, (pod, name, uid) in known.container_ids.items():
        if is_id(container_id):
            yield Target("container", (*pod, name), uid) if name else Target("pod", pod, uid)


def _beginning(asked: str, known: Known) -> Iterable[Target]:
    """What begins with it: IDs by six digits, images by their name, pods by a controller's."""
    bare = _RUNTIME.sub("", asked).removeprefix("sha256:")
    if len(bare) >= _ID_MIN and _HEX.fullmatch(bare.replace("-", "")):
        yield from _by_id(known, lambda uid: uid.startswith(bare), lambda i: i.startswith(bare))
        for image_id in known.images:
            if image_id.removeprefix("sha256:").startswith(bare):
                yield Target("image", (image_id,))
    for image_id, names in known.images.items():
        if any(asked in _names_of_image(name) for name in names):
            yield Target("image", (image_id,))
    namespace, _, name = asked.rpartition("/")
    for pod in _pods(known):
        if pod[1].startswith(f"{name}-") and namespace in {"", pod[0]} and name:
            yield Target("pod", pod)
        within, _, prefix = namespace.rpartition("/")
        if prefix and pod[1].startswith(f"{prefix}-") and within in {"", pod[0]}:
            yield from (
                Target("container", (*pod, each))
                for each in known.containers.get(pod, {})
                if each == name
            )
    path = _MOUNT.sub("", asked).strip("/")
    if "/" in path or "kubepods" in path:
        yield from (Target("cgroup", (p,)) for p in known.cgroups if p.endswith(f"/{path}"))


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


def _controllers(pod: str) -> Iterator[str]:
    """What a pod's name may begin with: that of its controller, and of that one's own."""
    for _ in range(2):
        pod = pod.rpartition("-")[0]
        if pod:
            yield pod


def _written(target: Target) -> str:
    """How the user can write it: of a name that was used again, the UID tells them apart."""
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
    """The error that suggests the nearest names."""
    names: dict[str, str] = {}
    shorter: dict[str, dict[str, None]] = {}
    for each in known:
        for pod in _pods(each):
            whole = f"pod/{pod[0]}/{pod[1]}"
            names |= {pod[1]: whole, "/".join(pod): whole}
            for container in each.containers.get(pod, {}):
                whole = f"container/{pod[0]}/{pod[1]}/{container}"
                names |= {f"{pod[1]}/{container}": whole, f"{pod[0]}/{pod[1]}/{container}": whole}
                shorter.setdefault(f"container/{container}", {})[whole] = None
            for short in _controllers(pod[1]):
                shorter.setdefault(f"pod/{short}", {})[f"pod/{pod[0]}/{pod[1]}"] = None
        for resource, device in each.devices:
            names.setdefault(device, f"device/{resource}/{device}")
        for image_id, its in each.images.items():
            for short in sorted({short for name in its for short in _names_of_image(name)}):
                names.setdefault(short, f"image/{image_id}")
    for short, wholes in shorter.items():
        names.setdefault(short.partition("/")[2], short if len(wholes) > 1 else next(iter(wholes)))
    named = {name: whole for name, whole in names.items() if whole.startswith(kind or "")}
    near = difflib.get_close_matches(asked, named or names, 3, 0.6) if asked else []
    part = asked.rpartition("/")[2]
    near += [name for name in names if part and part in name][:3]
    found = list(dict.fromkeys(names[name] for name in near))[:3]
    if found:
        advice = f"is it {' or '.join(found)}?"
        return BadQuestionError(f"nothing is known as {text!r}", advice=advice)
    if kind is not None:
        return BadQuestionError(f"{text!r} is not of the form {FORMS[kind]}")
    advice = f"give a name, an ID, or {', '.join(FORMS.values())}"
    return BadQuestionError(f"nothing is known as {text!r}", advice=advice)
