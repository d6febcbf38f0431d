"""The node's state as tables for people; times in UTC, long IDs cut.

The narrow form leaves columns out, and cuts what does not fit the screen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

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
T = TypeVar("T")

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

    def objects(self, title: str, columns: str, rows: Rows) -> None:
        """A table of objects, sorted: of each come the cells, then itself.

        Args:
            columns: ``since=since_ts_ns`` shows a field of the object, any other the next cell.
        """
        heads, _, fields = zip(*(each.partition("=") for each in columns.split(", ")), strict=True)
        shown = []
        for *cells, about in rows:
            given = iter(cells)
            shown.append([self._field(about, name) if name else next(given) for name in fields])
        shown.sort(key=lambda row: [(isinstance(cell, str), cell) for cell in row])
        self.table(title, ", ".join(heads), shown)

    def _field(self, about: object, name: str) -> Any:  # noqa: ANN401 # of any type
        value = getattr(about, name)
        if name.endswith("_ts_ns"):
            return self.time(value)
        if isinstance(value, tuple):
            return " ".join(value)
        return _yes(value) if value is None or isinstance(value, bool) else value

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


def _inner(nested: Mapping[str, Mapping[Any, T]]) -> Iterator[tuple[str, str, T]]:
    """What is inside, with its outer and its inner key."""
    return ((outer, name, held) for outer, inner in nested.items() for name, held in inner.items())


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
    rows = []
    for key, pod in pods:
        since = page.time(pod.decided_ts_ns or pod.since_ts_ns)
        shown = pod.phase, _admission(pod), pod.qos_class, since, _containers(pod), pod.uid
        rows.append((_name(state, key), *shown))
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
    rows, in_use = [], {name: set[str]() for name in manager.resources}
    for key, containers in manager.pods.items():
        for container, resource, held in _inner(containers):
            numa = " ".join(sorted(held.numa or ()))
            rows.append((resource, _holder(state, key, held), container, numa, held))
            in_use.setdefault(resource, set()).update(held.device_ids)
    columns = "resource, pod, container, devices=device_ids, numa, since=since_ts_ns"
    page.objects("devices", columns, rows)
    plugins = [(name, len(in_use[name]), each) for name, each in manager.resources.items()]
    columns = "resource, total=total, healthy=healthy, in use, "
    columns += "registered=registered_ts_ns, stopped=stopped_ts_ns"
    page.objects("device plugins", columns, plugins)


def _claims(state: NodeState, page: _Page) -> None:
    rows = []
    for key, _, held in _inner(state.dra.pods):
        for driver, given in (held.drivers or {"": ()}).items():
            named = (
                f"{d.pool}/{d.device}" if d.device else " ".join(d.cdi_device_ids) for d in given
            )
            pod = held.pod or _name(state, key)
            rows.append((f"{held.namespace}/{held.claim}", pod, driver, " ".join(named), held))
    page.objects("claims", "claim, pod, driver, devices, since=since_ts_ns", rows)


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
    rows = [(_holder(state, key, held), name, held) for key, name, held in _inner(manager.pods)]
    page.objects("cpus", "pod, container, cpus=cpu_set, since=since_ts_ns", rows)
    shown = {
        "policy": manager.policy,
        "reserved": manager.reserved_cpu_set,
        "shared pool": manager.default_cpu_set,
    }
    if text := ", ".join(f"{name} {value}" for name, value in shown.items() if value):
        click.echo(f"{printable(text)}")


def _memory(state: NodeState, page: _Page) -> None:
    rows = []
    for key, container, held in _inner(state.memorymanager.pods):
        holder = _holder(state, key, held)
        for block in held.blocks or ():
            numa = ",".join(map(str, block.numa_nodes))
            rows.append((holder, container, block.type, str(block.size_bytes), numa, held))
        if not held.blocks:
            rows.append((holder, container, "", "", "", held))
    page.objects("memory", "pod, container, type, bytes, numa, since=since_ts_ns", rows)


def _topology(state: NodeState, page: _Page) -> None:
    rows = []
    for key, container, each in _inner(state.topologymanager.pods):
        numa = "any" if each.numa_nodes is None else ",".join(map(str, each.numa_nodes))
        rows.append((_name(state, key), container or "(pod)", numa, each))
    columns = "pod, container, numa, preferred=preferred, admitted=admit, policy=policy, "
    page.objects("topology", columns + "since=since_ts_ns", rows)


def _probes(state: NodeState, page: _Page) -> None:
    rows = []
    for key, containers in state.prober.pods.items():
        for container, probe_type, each in _inner(containers):
            hold = "on hold" if each.on_hold else ""
            ticks = " ".join(f"{result} {count}" for result, count in sorted(each.ticks.items()))
            rows.append((_name(state, key), container, probe_type, hold, ticks, each))
    columns = "pod, container, type, result=cached_result, last*=last_result, run=run, hold, "
    page.objects("probes", columns + "last tick=last_tick_ts_ns, ticks*", rows)


def _images(state: NodeState, page: _Page) -> None:
    images = [(_short(image_id), image) for image_id, image in state.images.images.items()]
    columns = "image, bytes=size_bytes, in use=in_use, pinned=pinned, "
    columns += "first detected*=first_detected_ts_ns, last used=last_used_ts_ns"
    page.objects("images", columns, images)
    fs, run = state.images.image_fs, state.images.last_run
    if fs is not None:
        click.echo(f"image filesystem: {fs.available_bytes} of {fs.capacity_bytes} bytes free")
    if run is not None:
        when = page.time(run.finished_ts_ns or run.started_ts_ns)
        outcome = f"{run.outcome or 'running'}, {counted(run.images_removed, 'image')} removed"
        click.echo(f"last garbage collection: {when} {outcome}")
        if run.error:
            click.echo(f"  {printable(run.error)}")
    columns = "signal, available=available, capacity=capacity, read=read_ts_ns"
    page.objects("eviction signals", columns, state.images.signals.items())


def _pulls(state: NodeState, page: _Page) -> None:
    pulls = state.imagepull
    failing = [
        (_name(state, key), image, pull.error or pull.reason or "", pull)
        for key, image, pull in _inner(pulls.failing)
    ]
    columns = "pod, image, failures=failures, last failed=failed_ts_ns, "
    page.objects("pulls that fail", columns + "held back=held_back_ts_ns, error", failing)
    may = []
    for reference, pulled in pulls.pulled.items():
        for image, users in pulled.users.items():
            named = " ".join((*users.secrets, *users.service_accounts))
            may.append((image, reference, "all pods" if users.everyone else named, pulled))
    page.objects("pulled images", "image, ID, may be used by, since=updated_ts_ns", may)
    rows = [(image, page.time(ts_ns)) for image, ts_ns in sorted(pulls.pulling.items())]
    page.table("images to be pulled", "image, read", rows)


def _cgroups(state: NodeState, page: _Page) -> None:
    rows = []
    for path, each in state.cgroups.cgroups.items():
        limit = "max" if each.memory_limit_bytes in _NO_LIMIT else each.memory_limit_bytes
        files = " ".join(f"{name}={value}" for name, value in sorted(each.unified.items()))
        rows.append((path, _name(state, each.pod_uid or ""), limit, files, each))
    columns = "cgroup, pod, qos*=qos_class, cpu shares=cpu_shares, quota us=cpu_quota_us, "
    page.objects("cgroups", columns + "period us*=cpu_period_us, memory limit, v2 files*", rows)


def _preemptions(state: NodeState, page: _Page) -> None:
    rows = []
    for each in state.preemption.victims.values():
        missing = " ".join(f"{i.resource}:{i.quantity}" for i in each.insufficient)
        rows.append((f"{each.namespace}/{each.pod}", missing, each))
    columns = "victim, preemptor=preemptor, insufficient, evicted=evicted, awaited=awaiting, "
    page.objects("preemption victims on the node", columns + "since=since_ts_ns", rows)


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
