"""What outside of the kubelet fails now, by a scenario's ``failures``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubeledger.kubelet.kube.statuses import objects_of
from kubeledger.simulate.engine.plan import Failing, Failure
from kubeledger.simulate.engine.schedule import Schedule
from kubeledger.simulate.engine.world import SimPod

_SOCKET = "/run/containerd/containerd.sock"
_USUAL: Mapping[Failing, str] = {
    "network": "Network plugin returns error: cni plugin not initialized",
    "cgroup": "failed to create container for {of} : mkdir: no space left on device",
    "volume": "rpc error: code = Internal desc = mount failed: exit status 32",
    "secret": 'secret "{of}" not found',
    "configMap": 'configmap "{of}" not found',
    "claim": "device is not ready",
    "driver": "not registered",
    "sandbox": "rpc error: code = Unknown desc = failed to setup network for sandbox: plugin "
    'type="bridge" failed (add): no IP addresses available',
    "image": "rpc error: code = NotFound desc = failed to pull and unpack image "
    '"{of}": failed to resolve reference "{of}": {of}: not found',
    "create": "rpc error: code = Unknown desc = failed to generate container spec: failed to "
    "generate spec: no command specified",
    "start": "rpc error: code = Unknown desc = failed to create containerd task: failed to create "
    "shim task: OCI runtime create failed: runc create failed: unable to start container process: "
    'exec: "/app": stat /app: no such file or directory: unknown',
    "hook": "command exited with 1",
    "runtime": "rpc error: code = Unavailable desc = connection error: desc = "
    f'"transport: Error while dialing: dial unix {_SOCKET}: connect: connection refused"',
    "apiServer": "dial tcp 10.0.0.1:6443: connect: connection refused",
}
"""What is said where the scenario has no words; ``{of}`` is the name."""


class Failures:
    """The failures of a plan, on its clock."""

    def __init__(self, failures: Iterable[Failure], start_ns: int, schedule: Schedule) -> None:
        self._failures = tuple(failures)
        self._start_ns = start_ns
        self._schedule = schedule

    def of(self, what: Failing) -> list[Failure]:
        """All of one kind, whenever they are, in the order of time."""
        found = [each for each in self._failures if each.what == what]
        return sorted(found, key=lambda each: each.from_ns)

    def words(
        self, what: Failing, pod: SimPod | None = None, name: str = "", at_ns: int | None = None
    ) -> str | None:
        """What is said of a failure that is on; None while nothing fails.

        Args:
            pod: that asks; None: the node.
            at_ns: when; None: now.
        """
        now_ns = (self._schedule.now_ns if at_ns is None else at_ns) - self._start_ns
        for each in self._failures:
            if each.what != what or not each.from_ns <= now_ns < each.until_ns:
                continue
            for_pod = not each.pods or (pod and f"{pod.namespace}/{pod.name}" in each.pods)
            if for_pod and each.of in (None, name):
                return each.words or _USUAL[what].replace("{of}", name)
        return None

    def span(self, what: Failing, at_ns: int) -> tuple[int, int] | None:
        """From and until when something fails that does so at an instant of the clock."""
        for each in self._failures:
            from_ns, until_ns = each.from_ns + self._start_ns, each.until_ns + self._start_ns
            if each.what == what and from_ns <= at_ns < until_ns:
                return from_ns, until_ns
        return None

    def names_image(self, image: str) -> bool:
        """Whether containers have to pull an image: it fails at some time."""
        return any(each.what == "image" and each.of == image for each in self._failures)


_Source = tuple[Failing, str]


def _named(what: Failing, source: object, key: str = "name") -> Iterator[_Source]:
    if isinstance(source, dict) and not source.get("optional") and source.get(key):
        yield what, str(source[key])


def volume_sources(volume: Mapping[str, Any]) -> list[_Source]:
    """What a volume of a pod's spec needs: itself, and secrets and config maps in it."""
    found: list[_Source] = [("volume", str(volume.get("name")))]
    projected = volume.get("projected")
    sources = projected.get("sources") if isinstance(projected, dict) else None
    for source in (volume, *objects_of(sources)):
        key = "secretName" if source is volume else "name"
        found += _named("secret", source.get("secret"), key)
        found += _named("configMap", source.get("configMap"))
    return found


def env_sources(container: Mapping[str, Any]) -> list[_Source]:
    """Secrets and config maps that a container's environment needs, in the kubelet's order."""
    found: list[_Source] = []
    for each in objects_of(container.get("envFrom")):
        found += _named("configMap", each.get("configMapRef"))
        found += _named("secret", each.get("secretRef"))
    for source in objects_of([each.get("valueFrom") for each in objects_of(container.get("env"))]):
        found += _named("configMap", source.get("configMapKeyRef"))
        found += _named("secret", source.get("secretKeyRef"))
    return found
