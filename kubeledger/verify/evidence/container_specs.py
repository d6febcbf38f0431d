"""What a pod's spec says of its probes, and of how its containers end and are started again.

None of it can change while a pod lives. Where lists of a pod disagree, each version may be the
true one: a rule judges in all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from kubeledger.kubelet.kube.pod import GRACE_PERIOD_S
from kubeledger.kubelet.kube.statuses import ALWAYS, RestartRule
from kubeledger.kubelet.prober.objects import ProbeSpec
from kubeledger.kubelet.profile.images import ImagePullFacts
from kubeledger.model.bodies.prober import ProbeType
from kubeledger.model.record import Record
from kubeledger.verify.evidence.pods import ListedPod, PodRegister


class _Lifecycle(msgspec.Struct, rename="camel", frozen=True):
    post_start: dict[str, Any] | None = None
    pre_stop: dict[str, Any] | None = None


class ContainerSpec(msgspec.Struct, rename="camel", frozen=True):
    """A container, init container or ephemeral container."""

    name: str
    image: str | None = None
    image_pull_policy: str | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[RestartRule] | None = None
    liveness_probe: ProbeSpec | None = None
    readiness_probe: ProbeSpec | None = None
    startup_probe: ProbeSpec | None = None
    lifecycle: _Lifecycle | None = None

    def probe(self, probe_type: ProbeType) -> ProbeSpec | None:
        probe: ProbeSpec | None = getattr(self, f"{probe_type}_probe")
        return probe

    def hook(self, name: Literal["post_start", "pre_stop"]) -> dict[str, Any] | None:
        hook: dict[str, Any] | None = getattr(self.lifecycle, name, None)
        return hook


class ImageVolume(msgspec.Struct, rename="camel", frozen=True):
    """An image that a pod mounts."""

    reference: str | None = None
    pull_policy: str | None = None


class _Volume(msgspec.Struct, frozen=True):
    image: ImageVolume | None = None


class _Named(msgspec.Struct, frozen=True):
    name: str = ""


class _Spec(msgspec.Struct, rename="camel", frozen=True):
    containers: list[ContainerSpec] = []
    init_containers: list[ContainerSpec] | None = None
    ephemeral_containers: list[ContainerSpec] | None = None
    volumes: list[_Volume] | None = None
    image_pull_secrets: list[_Named] | None = None
    service_account_name: str | None = None
    restart_policy: str | None = None
    termination_grace_period_seconds: int | None = None


class _Metadata(msgspec.Struct, frozen=True):
    annotations: dict[str, str] = {}


class _Pod(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()
    metadata: _Metadata = _Metadata()


class PodSpec(msgspec.Struct, frozen=True):
    """One version of a pod's spec.

    Attributes:
        seq: of the list that shows it first.
        grace_s: seconds; None where the spec gives none.
        is_static: it came from a file or URL, so nobody deletes it with a grace period.
        is_manifest: it is the file, in which nothing is defaulted.
    """

    seq: int
    spec: _Spec
    grace_s: int | None
    is_static: bool
    is_manifest: bool

    @property
    def restart_policy(self) -> str:
        return self.spec.restart_policy or ALWAYS

    @property
    def containers(self) -> Iterator[ContainerSpec]:
        spec = self.spec
        lists = (spec.containers, spec.init_containers, spec.ephemeral_containers)
        return (container for group in lists for container in group or ())

    def container(self, name: str) -> ContainerSpec | None:
        return next((c for c in self.containers if c.name == name), None)

    @property
    def image_volumes(self) -> tuple[ImageVolume, ...]:
        return tuple(v.image for v in self.spec.volumes or () if v.image is not None)

    @property
    def pull_secrets(self) -> tuple[str, ...]:
        return tuple(secret.name for secret in self.spec.image_pull_secrets or ())

    @property
    def service_account(self) -> str:
        """Whose token may be used to pull images."""
        return self.spec.service_account_name or "default"

    def pulls(
        self, name: str | None, facts: ImagePullFacts | None
    ) -> dict[str | None, set[str | None]]:
        """Images that may be pulled for a container (None: any), with policies by ``facts``."""
        found = dict[str | None, set[str | None]]()

        def add(image: str | None, policy: str | None) -> None:
            if image and not policy and facts is not None and self.is_manifest:
                from kubeledger.kubelet.imagepull.keyring import default_pull_policy

                policy = default_pull_policy(image, facts)
            found.setdefault(image, set()).add(policy)

        for container in self.containers:
            if name in (None, container.name):
                add(container.image, container.image_pull_policy)
        for volume in self.image_volumes if found or name is None else ():
            add(volume.reference, volume.pull_policy)
        return found

    def agrees(self, other: PodSpec) -> bool:
        return (self.fixed, self.is_static) == (other.fixed, other.is_static)

    @property
    def fixed(self) -> _Spec:
        """What cannot change while the pod lives: all but images."""
        groups = {
            name: [replace(c, image=None) for c in found]
            for name in ("containers", "init_containers", "ephemeral_containers")
            if (found := getattr(self.spec, name))
        }
        return replace(self.spec, **groups)

    def is_app(self, name: str) -> bool:
        """Whether it stands among the containers proper."""
        return any(c.name == name for c in self.spec.containers)

    def assumes(self, specs: Sequence[PodSpec]) -> tuple[str, ...]:
        """What a world with this version assumes, where there are several."""
        return () if len(specs) < 2 else (f"which of the pod's lists is right (record {self.seq})",)

    @property
    def sidecars(self) -> frozenset[str]:
        """Init containers that stay, and end last."""
        inits = self.spec.init_containers or ()
        return frozenset(c.name for c in inits if c.restart_policy == ALWAYS)


def specs_of(pods: PodRegister, of: Record | ListedPod | None) -> tuple[PodSpec, ...] | str:
    """All versions of a pod's spec, that of the time first; or what is missing to read one."""
    listed = pods.of(of) if isinstance(of, Record) else of
    if listed is None:
        return "the pod's spec"
    found, now = versions_of(pods.versions(listed)), versions_of((listed,))
    if not found:
        return "a readable spec of the pod"
    return tuple(sorted(found, key=lambda spec: not any(map(spec.agrees, now))))


def image_of(listed: ListedPod, name: str) -> str | None:
    """The image of a container as a list shows it; None where it does not."""
    for spec in versions_of((listed,)):
        found = spec.container(name)
        return None if found is None else found.image
    return None


def versions_of(lists: Iterable[ListedPod]) -> list[PodSpec]:
    """What lists of one pod say that is not the same; those that cannot be read are left out."""
    found: list[PodSpec] = []
    for listed in lists:
        with suppress(msgspec.ValidationError):
            spec = _spec_of(listed)
            if not any(map(spec.agrees, found)):
                found.append(spec)
    return found


def _spec_of(listed: ListedPod) -> PodSpec:
    pod = listed.as_(_Pod)
    grace_s = pod.spec.termination_grace_period_seconds
    source = pod.metadata.annotations.get("kubernetes.io/config.source")
    if grace_s is None and listed.is_manifest:
        grace_s = GRACE_PERIOD_S
    is_static = listed.is_manifest or source in ("file", "http")
    return PodSpec(listed.seq, pod.spec, grace_s, is_static, listed.is_manifest)
