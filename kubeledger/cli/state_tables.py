"""The node's state as tables for people; times in UTC, long IDs cut.

The narrow form leaves columns out, and cuts what does not fit the screen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import click

from kubeledger.cli.output import counted, printable, write_table
from kubeledger.kubelet.cpumanager.reducer import HeldCpus
from kubeledger.kubelet.devicemanager.reducer import HeldDevices
from kubeledger.kubelet.lifecycle.state import ContainerState, PodState
from kubeledger.kubelet.memorymanager.reducer import HeldMemory
from kubeledger.model.bodies.cgroups import ResourceAmounts
from kubeledger.model.units import NS_PER_S, format_ts
from kubeledger.replay.node.state import PARTS, NodeState

Rows = Iterable[Sequence[Any]]

_ID_WIDTH = 19  # sha256: and twelve digits, as the runtimes' own tools show them
_NS_PER_DAY = 24 * 3600 * NS_PER_S
_NO_LIMIT = (9223372036854771712, -1)  # of memory, in cgroup v1 and in v2


def write_tables(state: NodeState, parts: Collection[str], width_max: int | None = None) -> None:
    """Print the parts one after the other, each under its name.

    Args:
        parts: names of ``PARTS``.
        width_max: columns of the screen, for the narrow form; None is the wide form.
    """
    at = "nothing recorded" if state.ts_ns is None else format_ts(state.ts_ns)
    click.echo(f"{printable(state.node)}  after record {state.seq}  {at}")
    page = _Page(width_max, state.ts_ns)
    for part, write in _PARTS.items():
        if part in parts:
            write(state, page)


class _Page:
    """Takes tables; see ``write_tables``."""

    def __init__(self, width_max: int | None, now_ns: int | None) -> None:
        self._width_max = width_max
        self._day = None if now_ns is None else now_ns // _NS_PER_DAY

    def table(self, title: str, columns: str, rows: Rows) -> None:
        """A table under its name; columns as ``write_table`` takes them."""
        rows = list(rows)
        click.echo(f"\n{title.upper()} ({len(rows)})")
        if rows:
            self.rows(columns, rows)

    def rows(self, columns: str, rows: Rows) -> None:
        """A table without a name."""
        form = "wide" if self._width_max is None else "table"
        write_table(columns, rows, form, self._width_max)

    def time(self, ts_ns: int | None) -> str:
        """To the millisecond; in the narrow form to the second, of another day with the day."""
        if ts_ns is None:
            return ""
        if self._width_max is None:
            return format_ts(ts_ns - ts_ns % 1_000_000)
        text = format_ts(ts_ns - ts_ns % NS_PER_S)
        return text[11:19] if ts_ns // _NS_PER_DAY == self._day else text[5:19].replace("T", " ")


def _short(identifier: str | None) -> str:
    return (identifier or "")[:_ID_WIDTH]


def _yes(value: bool | None) -> str:
    return "" if value is None else ("yes" if value else "no")


def _name(state: NodeState, key: str) -> str:
    """What people call a pod; its key when its name is unknown."""
    pod = state.lifecycle.pods.get(key)
    return f"{pod.namespace}/{pod.name}" if pod is not None and pod.name else key


def _kubelet(state: NodeState, page: _Page) -> None:
    kubelet = state.kubelet
    row = (kubelet.version, kubelet.pid, page.time(kubelet.started_ts_ns), kubelet.restarts)
    columns = "version, pid, started, restarts"
    page.table("kubelet", columns, [row] if kubelet.started_ts_ns is not None else [])
    for conflict in state.conflicts:
        click.echo(f"conflict: {printable(conflict)}")


def _machine(state: NodeState, page: _Page) -> None:
    machine = state.machine
    capacity, allocatable = machine.capacity or {}, machine.allocatable or {}
    rows = [
        (name, capacity.get(name), allocatable.get(name))
        for name in sorted(capacity.keys() | allocatable.keys())
    ]
    numa_nodes = machine.numa_nodes
    facts = {
        "CPUs": machine.cpus,
        "memory in bytes": machine.memory_capacity_bytes,
        "NUMA nodes by number": None if numa_nodes is None else ", ".join(map(str, numa_nodes)),
        "pressure conditions": None
        if machine.pressure is None
        else ", ".join(
            f"{name} since {page.time(since)}" for name, since in sorted(machine.pressure.items())
        )
        or "none",
    }
    click.echo("\nMACHINE")
    for name, value in facts.items():
        click.echo(f"{name}: {'not known' if value is None else value}")
    if rows:
        page.rows("resource, capacity, allocatable", rows)


def _pods(state: NodeState, page: _Page) -> None:
    pods = sorted(state.lifecycle.pods.items(), key=lambda item: (_name(state, item[0]), item[0]))
    rows = [
        (
            _name(state, key),
            pod.phase,
            _admission(pod),
            pod.qos_class,
            page.time(pod.decided_ts_ns or pod.since_ts_ns),
            _containers(pod),
            pod.uid,
        )
        for key, pod in pods
    ]
    columns = "pod, phase, admitted, qos*, since, containers, uid*"
    page.table("pods", columns, rows)


def _admission(pod: PodState) -> str:
    words = [_yes(pod.admitted)]
    if pod.admitted is False:
        words = [f"no: {pod.reason}"]
    words += [w for w, is_so in (("deleting", pod.deleting), ("ended", pod.terminated)) if is_so]
    return ", ".join(word for word in words if word)


def _containers(pod: PodState) -> str:
    texts = [f"{name} {_container(c)}" for name, c in sorted(pod.containers.items())]
    texts += [f"{_short(identifier)} running" for identifier in sorted(pod.unnamed)]
    return "; ".join(texts)


def _container(container: ContainerState) -> str:
    if container.running:
        text = "running"
    elif container.container_id is None and container.finished_ts_ns is None:
        text = "waiting"
    else:
        text = "ended" if container.exit_code is None else f"ended {container.exit_code}"
    if container.kill_reason is not None:
        text += f", killed: {container.kill_reason}"
    if container.oom_kills:
        text += f", OOM kills {container.oom_kills}"
    if container.restart_count:
        text += f", restarts {container.restart_count}"
    if container.back_off_s is not None:
        text += f", back-off {container.back_off_s}s"
    return text


def _holder(state: NodeState, key: str, held: HeldCpus | HeldDevices | HeldMemory) -> str:
    return f"{held.namespace}/{held.pod}" if held.pod else _name(state, key)


def _devices(state: NodeState, page: _Page) -> None:
    manager = state.devicemanager
    rows = sorted(
        (resource, _holder(state, key, held), container, " ".join(held.device_ids),
         " ".join(sorted(held.numa or ())), page.time(held.since_ts_ns))
        for key, containers in manager.pods.items()
        for container, resources in containers.items()
        for resource, held in resources.items()
    )  # fmt: skip
    page.table("devices", "resource, pod, container, devices, numa, since", rows)
    in_use = {
        name: {d for row in rows if row[0] == name for d in row[3].split(" ")}
        for name in manager.resources
    }
    plugins = [
        (name, r.total, r.healthy, len(in_use[name]), page.time(r.registered_ts_ns),
         page.time(r.stopped_ts_ns))
        for name, r in sorted(manager.resources.items())
    ]  # fmt: skip
    columns = "resource, total, healthy, in use, registered, stopped"
    page.table("device plugins", columns, plugins)


def _claims(state: NodeState, page: _Page) -> None:
    rows = sorted(
        (f"{held.namespace}/{held.claim}", held.pod or _name(state, key), driver,
         " ".join(f"{d.pool}/{d.device}" if d.device else " ".join(d.cdi_device_ids)
                  for d in devices), page.time(held.since_ts_ns))
        for key, claims in state.dra.pods.items()
        for held in claims.values()
        for driver, devices in (held.drivers or {"": ()}).items()
    )  # fmt: skip
    page.table("claims", "claim, pod, driver, devices, since", rows)


def _resources(state: NodeState, page: _Page) -> None:
    """What pods have been given where the runtime was told something else."""
    allocation = state.allocation
    rows = sorted(
        (_name(state, key), name, _amounts(given), _amounts(told))
        for key, pod in allocation.allocated.items()
        if key in allocation.actuated
        for name, given in pod.containers.items()
        if (told := allocation.actuated[key].containers.get(name)) != given
    )
    page.table("resizes under way", "pod, container, allocated, actuated", rows)


def _amounts(given: ResourceAmounts | None) -> str:
    if given is None:
        return ""
    lists = {"requests": given.requests, "limits": given.limits}
    return "; ".join(
        f"{kind} {', '.join(f'{name} {amount}' for name, amount in sorted(amounts.items()))}"
        for kind, amounts in lists.items()
        if amounts
    )


def _cpus(state: NodeState, page: _Page) -> None:
    manager = state.cpumanager
    rows = sorted(
        (_holder(state, key, held), container, held.cpu_set, page.time(held.since_ts_ns))
        for key, containers in manager.pods.items()
        for container, held in containers.items()
    )
    page.table("cpus", "pod, container, cpus, since", rows)
    shown = {
        "policy": manager.policy,
        "reserved": manager.reserved_cpu_set,
        "shared pool": manager.default_cpu_set,
    }
    if text := ", ".join(f"{name} {value}" for name, value in shown.items() if value):
        click.echo(f"{printable(text)}")


def _memory(state: NodeState, page: _Page) -> None:
    rows = sorted(
        (_holder(state, key, held), container, block.type if block else "",
         str(block.size_bytes) if block else "",
         ",".join(map(str, block.numa_nodes)) if block else "", page.time(held.since_ts_ns))
        for key, containers in state.memorymanager.pods.items()
        for container, held in containers.items()
        for block in held.blocks or (None,)
    )  # fmt: skip
    page.table("memory", "pod, container, type, bytes, numa, since", rows)


def _topology(state: NodeState, page: _Page) -> None:
    rows = sorted(
        (_name(state, key), container or "(pod)",
         "any" if a.numa_nodes is None else ",".join(map(str, a.numa_nodes)),
         _yes(a.preferred), _yes(a.admit), a.policy or "", page.time(a.since_ts_ns))
        for key, containers in state.topologymanager.pods.items()
        for container, a in containers.items()
    )  # fmt: skip
    columns = "pod, container, numa, preferred, admitted, policy, since"
    page.table("topology", columns, rows)


def _probes(state: NodeState, page: _Page) -> None:
    rows = sorted(
        (_name(state, key), container, probe_type, worker.cached_result,
         worker.last_result or "", worker.run, "on hold" if worker.on_hold else "",
         page.time(worker.last_tick_ts_ns),
         " ".join(f"{result} {count}" for result, count in sorted(worker.ticks.items())))
        for key, containers in state.prober.pods.items()
        for container, workers in containers.items()
        for probe_type, worker in workers.items()
    )  # fmt: skip
    columns = "pod, container, type, result, last*, run, hold, last tick, ticks*"
    page.table("probes", columns, rows)


def _images(state: NodeState, page: _Page) -> None:
    rows = [
        (_short(image_id), image.size_bytes, _yes(image.in_use), _yes(image.pinned),
         page.time(image.first_detected_ts_ns), page.time(image.last_used_ts_ns))
        for image_id, image in sorted(state.images.images.items())
    ]  # fmt: skip
    columns = "image, bytes, in use, pinned, first detected*, last used"
    page.table("images", columns, rows)
    fs, run = state.images.image_fs, state.images.last_run
    if fs is not None:
        click.echo(f"image filesystem: {fs.available_bytes} of {fs.capacity_bytes} bytes free")
    if run is not None:
        when = page.time(run.finished_ts_ns or run.started_ts_ns)
        outcome = f"{run.outcome or 'running'}, {counted(run.images_removed, 'image')} removed"
        click.echo(f"last garbage collection: {when} {outcome}")
        if run.error:
            click.echo(f"  {printable(run.error)}")
    signals = [
        (name, signal.available, signal.capacity, page.time(signal.read_ts_ns))
        for name, signal in sorted(state.images.signals.items())
    ]
    page.table("eviction signals", "signal, available, capacity, read", signals)


def _pulls(state: NodeState, page: _Page) -> None:
    pulls = state.imagepull
    failing = sorted(
        (_name(state, key), image, pull.failures, page.time(pull.failed_ts_ns),
         page.time(pull.held_back_ts_ns), pull.error or pull.reason or "")
        for key, images in pulls.failing.items()
        for image, pull in images.items()
    )  # fmt: skip
    columns = "pod, image, failures, last failed, held back, error"
    page.table("pulls that fail", columns, failing)
    may = sorted(
        (image, reference, "all pods" if users.everyone
         else " ".join((*users.secrets, *users.service_accounts)), page.time(pulled.updated_ts_ns))
        for reference, pulled in pulls.pulled.items()
        for image, users in pulled.users.items()
    )  # fmt: skip
    page.table("pulled images", "image, ID, may be used by, since", may)
    rows = [(image, page.time(ts_ns)) for image, ts_ns in sorted(pulls.pulling.items())]
    page.table("images to be pulled", "image, read", rows)


def _cgroups(state: NodeState, page: _Page) -> None:
    rows = [
        (path, _name(state, c.pod_uid or ""), c.qos_class, c.cpu_shares,
         c.cpu_quota_us, c.cpu_period_us,
         "max" if c.memory_limit_bytes in _NO_LIMIT else c.memory_limit_bytes,
         " ".join(f"{name}={value}" for name, value in sorted(c.unified.items())))
        for path, c in sorted(state.cgroups.cgroups.items())
    ]  # fmt: skip
    columns = "cgroup, pod, qos*, cpu shares, quota us, period us*, memory limit, v2 files*"
    page.table("cgroups", columns, rows)


def _preemptions(state: NodeState, page: _Page) -> None:
    rows = sorted(
        (f"{v.namespace}/{v.pod}", v.preemptor or "",
         " ".join(f"{i.resource}:{i.quantity}" for i in v.insufficient),
         _yes(v.evicted), _yes(v.awaiting), page.time(v.since_ts_ns))
        for v in state.preemption.victims.values()
    )  # fmt: skip
    columns = "victim, preemptor, insufficient, evicted, awaited, since"
    page.table("preemption victims on the node", columns, rows)


def _settings(state: NodeState, page: _Page) -> None:
    given = {n: s for n, s in state.settings.items() if s.source != "default"}
    rows = [(name, setting.value, setting.source) for name, setting in sorted(given.items())]
    page.table("settings", "setting, value, source", rows)
    defaults = len(state.settings) - len(given)
    if defaults:
        click.echo(f"and {defaults} left at their default (see -o json)")


def _counts(state: NodeState, page: _Page) -> None:
    counts = PARTS["counts"](state)
    rows = [(what, "not known" if count is None else count) for what, count in counts.items()]
    page.table("counts", "what, how often", rows)


_PARTS: dict[str, Callable[[NodeState, _Page], None]] = {
    write.__name__.removeprefix("_"): write
    for write in (
        *(_kubelet, _machine, _pods, _devices, _claims, _resources, _cpus, _memory, _topology),
        *(_probes, _images, _pulls, _cgroups, _preemptions, _settings, _counts),
    )
}
