"""The image manager of a simulated kubelet: pulls from a registry, and image GC.

Both loops run as soon as the kubelet does and every five minutes from then on. Up to 1.20 the
first collection comes before the first statistics of the disk, and fails.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from copy import deepcopy
from typing import Final, Literal

from kubeledger.kubelet.imagepull.image_manager import (
    BACK_OFF,
    NEVER,
    Answer,
    Attempt,
    ImageManager,
    Request,
)
from kubeledger.kubelet.imagepull.image_pull_manager import (
    NEVER_VERIFY_PRELOADED,
    Listed,
    PullManager,
    PullRecords,
    new_policy,
)
from kubeledger.kubelet.imagepull.keyring import Coordinates, Credential
from kubeledger.kubelet.imagepull.puller import new_puller
from kubeledger.kubelet.imagepull.pullrecords import (
    CachedPullRecords,
    FSPullRecords,
    PulledRecord,
    cache_filename,
)
from kubeledger.kubelet.imagepull.readings import reading_of
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
    DiskUsage,
    ImageFsStats,
    ImageGCPolicy,
    effective_max_age_ns,
    loop_disabled,
    read_usage,
)
from kubeledger.kubelet.kube.flowcontrol import Backoff
from kubeledger.kubelet.kube.statuses import objects_of
from kubeledger.model.bodies.images import (
    GarbageCollected,
    GarbageCollectionStarted,
    ImageDeleted,
    ImagesDetected,
    ListedImage,
)
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.kubelet import Kubelet, Loop
from kubeledger.simulate.engine.machine import duration_ns, integer
from kubeledger.simulate.engine.memory import disk_space
from kubeledger.simulate.engine.plan import ImageArrival
from kubeledger.simulate.engine.world import SimPod

_PULL_NS: Final = NS_PER_S
_IMAGE_BYTES: Final = 100 << 20


class Pulls(Loop):
    """What a kubelet process does to have images.

    Source: v1.36.2 pkg/kubelet/images/image_manager.go EnsureImageExists; v1.20.2
    Differs: a pull takes a second, and none of an image that is there and that no failure of the
        scenario names. A secret that a pod names opens every registry.
    """

    def __init__(self, kubelet: Kubelet) -> None:
        super().__init__(kubelet)
        self._shown: dict[str, PulledRecord] = {}
        sim = kubelet.sim
        facts, settings = sim.profile.imagepull, sim.settings
        serialize = settings.get("serializeImagePulls")
        max_parallel = settings.get("maxParallelImagePulls")
        puller = new_puller(
            serialize=serialize is not False,
            max_parallel=None if max_parallel is None else int(max_parallel),
            qps=integer(settings, "registryPullQPS", 5),
            burst=integer(settings, "registryBurst", 10),
            limits=facts.parallel_pulls_limited,
        )
        self._manager = ImageManager(facts, Backoff(BACK_OFF), puller, self._pull_manager())

    def request(self, pod: SimPod, image: str, policy: str) -> Attempt:
        """Have an image for a container; what has begun then ends with ``finish``."""
        sim = self._sim
        now_ns = sim.schedule.now_ns
        named = sim.failures.names_image(image)
        if policy == NEVER and named and self._words(pod, image, now_ns) is None:
            self._load(image)  # by whoever else, as nobody pulls it
        there = sim.world.images.get(image)
        request = Request(
            pod.uid,
            image,
            policy,
            "" if there is None else there.image_id,
            sim.failures.words("runtime", pod) or "",
            (),
            _credentials(pod),
            lambda _, asked_ns: self._answer(pod, image, asked_ns),
        )
        return self._manager.ensure_image_exists(request, now_ns)

    def finish(self, attempt: Attempt) -> None:
        """The runtime has pulled, or failed to."""
        self._manager.finish(attempt)
        if not attempt.error:
            self._load(attempt.request.image)
            self._show_record(attempt.image_ref)

    def _show_record(self, image_ref: str) -> None:
        """The record of a pull, where it has changed."""
        sim = self._sim
        record = sim.world.pulled_records.get(cache_filename(image_ref))
        if isinstance(record, PulledRecord) and self._shown.get(image_ref) is not record:
            self._shown[image_ref] = record
            is_beta = sim.profile.imagepull.pull_records_beta
            sim.journal.write(reading_of(record, is_beta=is_beta))

    def collected(self, began_ns: int) -> None:
        """Image GC has removed what it removes; records of images that are gone go, too."""
        if self._manager.pull_manager is not None:
            left = [image.image_id for image in self._sim.world.images.values()]
            self._manager.pull_manager.prune_unknown_records(left, began_ns)

    def _pull_manager(self) -> PullManager | None:
        sim = self._sim
        facts, settings, world = sim.profile.imagepull, sim.settings, sim.world
        if not facts.verifies_pull_credentials:
            return None
        policy = settings.get("imagePullCredentialsVerificationPolicy") or NEVER_VERIFY_PRELOADED
        allowlist = tuple(settings.get("preloadedImagesVerificationAllowlist") or ())
        files = FSPullRecords(world.pull_intents, world.pulled_records, facts)
        records: PullRecords = files
        if facts.pull_records_cached:
            pods = integer(settings, "maxPods", 110)
            at_once = integer(settings, "maxParallelImagePulls", 0)
            records = CachedPullRecords(files, 2 * max(pods, at_once), 5 * pods)
        listed = [Listed(image.image_id, (image.name,)) for image in world.images.values()]
        requires = new_policy(str(policy), allowlist, facts)
        return PullManager(records, requires, listed, facts, sim.schedule.now_ns)

    def _answer(self, pod: SimPod, image: str, asked_ns: int) -> Answer:
        words = self._words(pod, image, asked_ns + _PULL_NS)
        if words is not None:
            return Answer(error=words, took_ns=_PULL_NS)
        found, sim = self._image(image), self._sim
        if image in sim.world.images and not sim.failures.names_image(image):
            return Answer("", found.image_id, found.size_bytes)  # all of it is there
        # An image that the scenario has come later has come when its pull is over.
        later = (
            each.at_ns + sim.plan.start_ns - asked_ns
            for each in sim.plan.images
            if each.name == image and each.at_ns + sim.plan.start_ns > asked_ns
        )
        return Answer("", found.image_id, found.size_bytes, min(later, default=_PULL_NS))

    def _words(self, pod: SimPod, image: str, at_ns: int) -> str | None:
        return self._sim.failures.words("image", pod, image, at_ns)

    def _load(self, image: str) -> None:
        self._sim.world.images.setdefault(image, self._image(image))

    def _image(self, image: str) -> ImageArrival:
        """The image of a registry: always the same."""
        sim = self._sim
        if (there := sim.world.images.get(image)) is not None:
            return there
        planned = next((each for each in sim.plan.images if each.name == image), None)
        if planned is not None:
            return planned
        draws = sim.draws.stream(f"image/{image}")
        digits = "".join(f"{draws.bits():016x}" for _ in range(4))
        return ImageArrival(name=image, image_id=f"sha256:{digits}", size_bytes=_IMAGE_BYTES)


def _credentials(pod: SimPod) -> list[Credential]:
    """One of each pull secret that a pod names."""
    found = []
    for each in objects_of(pod.spec.get("imagePullSecrets")):
        name = str(each.get("name") or "")
        uid = f"{pod.namespace}/{name}"
        digest = hashlib.sha256(uid.encode()).hexdigest()
        found.append(Credential(name, digest, Coordinates(uid, pod.namespace, name)))
    return found


_SANDBOX_IMAGE = "k8s.gcr.io/pause:3.2"
_NO_STATS_UNTIL_MINOR = 20


class ImageLoop(Loop):
    """Detects and collects images; what it removes is gone from the world.

    Attributes:
        stats_ready: the statistics of the disk can be read.
    """

    def __init__(self, kubelet: Kubelet) -> None:
        super().__init__(kubelet)
        sim = kubelet.sim
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
        if self._facts.detects_before_disk_check:  # the disk is read behind the pass for age
            first = decide(deepcopy(self.manager), "garbageCollect", observed)
            observed = self._observe(without=first.removed[: first.removed_for_age])
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

    def _observe(self, without: Collection[str] = ()) -> Observed:
        """What is there; of the disk, as it is without some of the images."""
        images, ready = self._sim.world.images, self.stats_ready
        space = disk_space(self._sim, self._sim.world.image_fs())
        freed_bytes = sum(each.size_bytes for each in images.values() if each.image_id in without)
        return Observed(
            now_ns=self._clock.now_ns,
            images=tuple(
                RuntimeImage(image.image_id, image.size_bytes, image.pinned)
                for image in images.values()
            ),
            images_in_use=self._in_use(),
            image_fs=ImageFsStats(
                space.capacity_bytes if ready else 0,
                space.available_bytes + freed_bytes if ready else 0,
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
        self._journal.write(ImagesDetected(images=images))

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
        return self._journal.write(body)

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
            self._journal.write(body, cause=cause)
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
        self._journal.write(body, cause=start)


def _volume_images(pod: SimPod) -> list[str]:
    """Images that a pod mounts."""
    found = [volume.get("image") for volume in pod.spec.get("volumes") or ()]
    return [str(image.get("reference") or "") for image in found if image]
