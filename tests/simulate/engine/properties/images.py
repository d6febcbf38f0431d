"""What must hold of images, whatever happens on a node."""

from collections import defaultdict
from collections.abc import Iterator

from kubeledger.model.bodies.images import GarbageCollected, GarbageCollectionStarted, ImageDeleted
from kubeledger.model.bodies.lifecycle import (
    ContainerDied,
    ContainerKilled,
    ContainerStarted,
    PodConfigChanged,
)
from kubeledger.model.record import Record
from kubeledger.simulate.engine.plan import Plan


def none_in_use(plan: Plan, records: list[Record]) -> Iterator[str]:
    """No image goes that a running container has, and no pinned one where pins are known."""
    ids = {image.name: image.image_id for image in plan.images}
    pinned = {image.image_id for image in plan.images if image.pinned}
    image_of = {
        (planned.manifest["metadata"]["uid"], container["name"]): ids[container["image"]]
        for planned in plan.pods
        for key in ("containers", "initContainers")
        for container in planned.manifest["spec"].get(key) or ()
    }
    running: dict[str, str] = {}
    stopping: defaultdict[str | None, list[str]] = defaultdict(list)
    for record in records:
        body = record.body
        if isinstance(body, ContainerStarted) and body.container and body.pod_uid:
            running[body.container_id] = image_of[body.pod_uid, body.container]
        elif isinstance(body, ContainerDied):
            running.pop(body.container_id, None)
        elif isinstance(body, ContainerKilled) and body.container_id is not None:
            stopping[body.pod_uid].append(body.container_id)
        elif isinstance(body, PodConfigChanged) and body.operation == "REMOVE":
            for container_id in stopping.pop(body.pod_uid, ()):  # nobody tells when they are down
                running.pop(container_id, None)
        elif isinstance(body, ImageDeleted):
            if body.image_id in running.values():
                yield f"{record.seq}: {body.image_id} is in use and was removed"
            if body.image_id in pinned and not plan.kubelet_version.startswith(("1.20", "1.28")):
                yield f"{record.seq}: {body.image_id} is pinned and was removed"


def enough_is_enough(plan: Plan, records: list[Record]) -> Iterator[str]:
    """A collection frees what it must, and nothing more once that is done."""
    starts: dict[int, int] = {}
    freed: defaultdict[int, list[int]] = defaultdict(list)
    for record in records:
        body, cause = record.body, record.cause or 0
        if isinstance(body, GarbageCollectionStarted):
            starts[record.seq] = body.bytes_to_free
        elif isinstance(body, ImageDeleted) and body.pass_ == "space":
            if cause not in starts:
                yield f"{record.seq}: an image was removed for space without a collection"
            freed[cause].append(body.size_bytes or 0)
        elif isinstance(body, GarbageCollected) and cause in starts:
            sizes, needed = freed[cause], starts[cause]
            if len(sizes) > 1 and sum(sizes[:-1]) >= needed:
                yield f"{record.seq}: {sizes} were removed to free {needed}"
            if body.outcome == "freed" and sum(sizes) < needed:
                yield f"{record.seq}: {sum(sizes)} of {needed} were freed, it says it is done"
            if body.outcome == "failed" and sum(sizes) >= needed > 0:
                yield f"{record.seq}: {sum(sizes)} of {needed} were freed, it says it failed"
