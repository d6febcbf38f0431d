"""Image GC of a simulated kubelet: its two loops, and what the eviction manager asks of it.

Both loops run as soon as the kubelet does and every five minutes from then on. Up to 1.20 the
first collection comes before the first statistics of the disk, and fails.
"""

from __future__ import annotations

from typing import Literal

from kubeledger.kubelet.images.image_gc_manager import (
    EVERYTHING,
    Observed,
    Operation,
    Pass,
    RealImageGCManager,
    RuntimeImage,
    decide,
    images_in_use,
)
from kubeledger.kubelet.images.policy import (
    DETECT_PERIOD_S,
    GC_PERIOD_S,
    ImageGCPolicy,
    effective_max_age_ns,
    loop_disabled,
)
from kubeledger.kubelet.images.usage import DiskUsage, ImageFsStats, read_usage
from kubeledger.model.bodies.images import (
    GarbageCollected,
    GarbageCollectionStarted,
    ImageDeleted,
    ImagesDetected,
    ListedImage,
)
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.config import duration_ns, integer
from kubeledger.simulate.engine.disks import disk_space
from kubeledger.simulate.engine.kubelet import Kubelet
from kubeledger.simulate.engine.world import SimPod

_SANDBOX_IMAGE = "k8s.gcr.io/pause:3.2"
_NO_STATS_UNTIL_MINOR = 20


class ImageLoop:
    """Detects and collects images; what it removes is gone from the world.

    Attributes:
        stats_ready: the statistics of the disk can be read.
    """

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
        self._sim = sim = kubelet.sim
        self._facts = facts = sim.profile.images
        settings = sim.settings
        self._max_age_ns = duration_ns(settings, "imageMaximumGCAge")
        policy = ImageGCPolicy(
            high_threshold_percent=integer(settings, "imageGCHighThresholdPercent", 85),
            low_threshold_percent=integer(settings, "imageGCLowThresholdPercent", 80),
            min_age_ns=duration_ns(settings, "imageMinimumGCAge", "2m"),
            max_age_ns=effective_max_age_ns(self._max_age_ns, facts),
        )
        sandbox = str(settings.get("--pod-infra-container-image") or _SANDBOX_IMAGE)
        image = sim.world.images.get(sandbox)
        self.manager = RealImageGCManager(
            policy=policy,
            facts=facts,
            sandbox_image="" if image is None else image.image_id,
            began_ns=kubelet.started_ns,
        )
        self.stats_ready = sim.profile.version.minor > _NO_STATS_UNTIL_MINOR

    def start(self) -> None:
        """Both loops begin."""
        self._kubelet.every(DETECT_PERIOD_S * NS_PER_S, self._detect, first_ns=0)
        high = self.manager.policy.high_threshold_percent
        if not loop_disabled(high, self._max_age_ns, self._facts):
            self._kubelet.every(GC_PERIOD_S * NS_PER_S, self._collect, first_ns=0)

    def delete_unused(self, cause: int | None) -> int:
        """Remove all unused images that are old enough; bytes freed.

        Args:
            cause: seq of the signal that asks for it.
        """
        done, before = self._pass("deleteUnusedImages")
        self._write_detected(before)
        self._delete(done, before, cause)
        return done.freed_bytes

    # -- passes --------------------------------------------------------------------------------

    def _detect(self) -> None:
        _, before = self._pass("detect")
        self._write_detected(before)

    def _collect(self) -> None:
        observed = self._observe()
        done, before = self._pass("garbageCollect", observed)
        self.stats_ready = True
        usage = None if observed.image_fs is None else read_usage(observed.image_fs)
        start: int | None = None
        if self._facts.detects_before_disk_check:
            self._write_detected(before)
            aged = self._delete(done, before, None, until=done.removed_for_age)
            start = self._write_start(done, usage)
        else:
            aged = []
            start = self._write_start(done, usage)
            if start is not None:
                self._write_detected(before)
        freed = aged + self._delete(done, before, start, since=done.removed_for_age)
        if not done.error:
            self._kubelet.pods.pulls.collected(observed.now_ns)
        self._write_end(done, usage, start, freed)

    def _pass(
        self, operation: Operation, observed: Observed | None = None
    ) -> tuple[Pass, tuple[Observed, frozenset[str]]]:
        """Do a pass; also what it saw, and the images that had a record before it."""
        observed = observed or self._observe()
        known = frozenset(self.manager.records)
        return decide(self.manager, operation, observed), (observed, known)

    def _observe(self) -> Observed:
        space = disk_space(self._sim, self._sim.world.image_fs())
        ready = self.stats_ready
        return Observed(
            now_ns=self._sim.schedule.now_ns,
            images=tuple(
                RuntimeImage(image.image_id, image.size_bytes, image.pinned)
                for image in self._sim.world.images.values()
            ),
            images_in_use=self._in_use(),
            image_fs=ImageFsStats(
                space.capacity_bytes if ready else 0, space.available_bytes if ready else 0
            ),
        )

    def _in_use(self) -> frozenset[str]:
        """Images of all containers that the runtime lists, in whatever state they are."""
        names: list[str] = []
        volumes: list[str] = []
        for pod in self._sim.world.pods.values():
            made = [i for i in self._sim.runtime.instances(pod.uid) if i.container is not None]
            if made:
                names += (instance.image for instance in made)
                volumes += _volume_images(pod)
        ids = [image.image_id for n in names if (image := self._sim.world.images.get(n))]
        more = [image.image_id for n in volumes if (image := self._sim.world.images.get(n))]
        return images_in_use(ids, more, self._facts)

    # -- records -------------------------------------------------------------------------------

    def _write_detected(self, seen: tuple[Observed, frozenset[str]]) -> None:
        observed, known = seen
        in_use = observed.images_in_use
        if self._facts.sandbox_image_in_use and self.manager.sandbox_image:
            in_use |= {self.manager.sandbox_image}
        images = tuple(
            ListedImage(
                image_id=image.image_id,
                size_bytes=image.size_bytes,
                pinned=image.pinned if self._facts.pinned_images_kept else None,
                in_use=image.image_id in in_use,
                new=image.image_id not in known,
                last_used_ts_ns=observed.now_ns if image.image_id in in_use else None,
            )
            for image in observed.images
        )
        self._sim.journal.write(ImagesDetected(images=images))

    def _write_start(self, done: Pass, usage: DiskUsage | None) -> int | None:
        if done.bytes_to_free is None or usage is None:
            return None
        policy = self.manager.policy
        body = GarbageCollectionStarted(
            usage_percent=usage.percent,
            high_threshold_percent=policy.high_threshold_percent,
            low_threshold_percent=policy.low_threshold_percent,
            bytes_to_free=done.bytes_to_free,
        )
        return self._sim.journal.write(body)

    def _delete(
        self,
        done: Pass,
        seen: tuple[Observed, frozenset[str]],
        cause: int | None,
        *,
        since: int = 0,
        until: int | None = None,
    ) -> list[int]:
        """Images that a pass removed leave the world; their sizes."""
        sizes = {image.image_id: image.size_bytes for image in seen[0].images}
        of_pass: Literal["space", "age", "all"] = "space"
        if until is not None:
            of_pass = "age"
        elif done.bytes_to_free == EVERYTHING:
            of_pass = "all"
        removed = done.removed[since:until]
        for image_id in removed:
            body = ImageDeleted(image_id=image_id, size_bytes=sizes[image_id], pass_=of_pass)
            self._sim.journal.write(body, cause=cause)
            images = self._sim.world.images
            for name in [name for name, image in images.items() if image.image_id == image_id]:
                del images[name]
        return [sizes[image_id] for image_id in removed]

    def _write_end(
        self, done: Pass, usage: DiskUsage | None, start: int | None, freed: list[int]
    ) -> None:
        """The end of a collection, as its line has it."""
        failed, began = bool(done.error), start is not None and usage is not None
        outcome: Literal["below_threshold", "freed", "failed"] = "failed"
        if not failed:
            outcome = "freed" if began or freed else "below_threshold"
        policy = self.manager.policy
        bytes_freed: int | None = None
        if outcome == "freed":
            bytes_freed = sum(freed)
        elif failed and began:
            bytes_freed = done.freed_bytes
        body = GarbageCollected(
            usage_percent=usage.percent if began and usage is not None else None,
            high_threshold_percent=policy.high_threshold_percent if began else None,
            low_threshold_percent=policy.low_threshold_percent if began else None,
            bytes_to_free=done.bytes_to_free if began else None,
            bytes_freed=bytes_freed,
            images_removed=len(freed),
            outcome=outcome,
            error=done.error,
        )
        self._sim.journal.write(body, cause=start)


def _volume_images(pod: SimPod) -> list[str]:
    """Images that a pod mounts."""
    found = [volume.get("image") for volume in pod.spec.get("volumes") or ()]
    return [str(image.get("reference") or "") for image in found if image]
