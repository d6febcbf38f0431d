"""The image manager of one kubelet process, and the registry that it pulls from."""

from __future__ import annotations

import hashlib
from typing import Final

from kubeledger.kubelet.imagepull.fs_pullrecords import (
    FSPullRecords,
    PulledRecord,
    cache_filename,
)
from kubeledger.kubelet.imagepull.image_manager import (
    BACK_OFF,
    NEVER,
    Answer,
    Attempt,
    ImageManager,
    Request,
)
from kubeledger.kubelet.imagepull.image_pull_manager import Listed, PullManager, PullRecords
from kubeledger.kubelet.imagepull.image_pull_policies import NEVER_VERIFY_PRELOADED, new_policy
from kubeledger.kubelet.imagepull.keyring import Coordinates, Credential
from kubeledger.kubelet.imagepull.mem_pullrecords import CachedPullRecords
from kubeledger.kubelet.imagepull.puller import new_puller
from kubeledger.kubelet.imagepull.readings import reading_of
from kubeledger.kubelet.kube.flowcontrol import Backoff
from kubeledger.model.units import NS_PER_S
from kubeledger.simulate.engine.config import integer
from kubeledger.simulate.engine.failures import objects
from kubeledger.simulate.engine.kubelet import Kubelet
from kubeledger.simulate.engine.world import SimImage, SimPod

_PULL_NS: Final = NS_PER_S
_IMAGE_BYTES: Final = 100 << 20


class Pulls:
    """What a kubelet process does to have images.

    Source: v1.36.2 pkg/kubelet/images/image_manager.go EnsureImageExists; v1.20.2
    Differs: a pull takes a second, and none of an image that is there and that no failure of the
        scenario names. A secret that a pod names opens every registry.
    """

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
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
        sim = self._kubelet.sim
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
        sim = self._kubelet.sim
        record = sim.world.pulled_records.get(cache_filename(image_ref))
        if isinstance(record, PulledRecord) and self._shown.get(image_ref) is not record:
            self._shown[image_ref] = record
            is_beta = sim.profile.imagepull.pull_records_beta
            sim.journal.write(reading_of(record, is_beta=is_beta))

    def collected(self, began_ns: int) -> None:
        """Image GC has removed what it removes; records of images that are gone go, too."""
        if self._manager.pull_manager is not None:
            left = [image.image_id for image in self._kubelet.sim.world.images.values()]
            self._manager.pull_manager.prune_unknown_records(left, began_ns)

    def _pull_manager(self) -> PullManager | None:
        sim = self._kubelet.sim
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
        found, sim = self._image(image), self._kubelet.sim
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
        return self._kubelet.sim.failures.words("image", pod, image, at_ns)

    def _load(self, image: str) -> None:
        self._kubelet.sim.world.images.setdefault(image, self._image(image))

    def _image(self, image: str) -> SimImage:
        """The image of a registry: always the same."""
        sim = self._kubelet.sim
        if (there := sim.world.images.get(image)) is not None:
            return there
        planned = next((each for each in sim.plan.images if each.name == image), None)
        if planned is not None:
            return SimImage(
                name=image,
                image_id=planned.image_id,
                size_bytes=planned.size_bytes,
                pinned=planned.pinned,
            )
        draws = sim.draws.stream(f"image/{image}")
        digits = "".join(f"{draws.bits():016x}" for _ in range(4))
        return SimImage(name=image, image_id=f"sha256:{digits}", size_bytes=_IMAGE_BYTES)


def _credentials(pod: SimPod) -> list[Credential]:
    """One of each pull secret that a pod names."""
    found = []
    for each in objects(pod.spec.get("imagePullSecrets")):
        name = str(each.get("name") or "")
        uid = f"{pod.namespace}/{name}"
        digest = hashlib.sha256(uid.encode()).hexdigest()
        found.append(Credential(name, digest, Coordinates(uid, pod.namespace, name)))
    return found
