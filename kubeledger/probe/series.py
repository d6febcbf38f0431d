"""Probes, each repeated at its period, and their results."""

from __future__ import annotations

import heapq
import ipaddress
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from kubeledger.kubelet.kube.urls import DEFAULT_PORTS, parse_url
from kubeledger.kubelet.prober.httpget import user_agent
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.kubelet.profile.resolve import resolve
from kubeledger.model.errors import BadInputError
from kubeledger.model.units import NS_PER_S
from kubeledger.probe.attempt import Attempt, Exchange
from kubeledger.probe.grpc import need_h2
from kubeledger.probe.replies import offered_protocols
from kubeledger.probe.run import ProbedTick, probe_once, status_of, worker_of
from kubeledger.probe.target import PodTarget, ProbePlan


class Difference(msgspec.Struct, frozen=True):
    """One difference.

    Attributes:
        what: one or two words.
        says: what the kubelet does, and what curl does instead.
        matters: it may explain that one succeeds and the other fails here.
    """

    what: str
    says: str
    matters: bool = False


def differences(
    target: PodTarget,
    plan: ProbePlan,
    tick: ProbedTick,
    facts: ProberFacts,
    environ: Mapping[str, str],
) -> list[Difference]:
    """What differs, that which matters here first.

    Args:
        environ: of the shell from which curl would be called.
    """
    last = tick.attempts[-1]
    own: list[Difference] = []
    if plan.handler == "tcp":
        says = (
            "the kubelet connects and closes, sends nothing and reads nothing: it succeeds with a "
            "server that hangs, for which the kernel accepts"
        )
        own = [Difference("what is asked", says, tick.outcome == "success")]
    elif plan.handler != "http":
        own = [] if facts.grpc_dials_like_others else [_PROXIED]
        own += [
            Difference("protocol", _GRPC, tick.outcome != "success"),
            Difference("refused", _GRPC_REFUSED, _dialing(last)),
        ]
    found = [*own, *_of_timeout(plan, last)]
    if plan.handler == "http":
        found += [*_of_http(last), *_of_tls(last), *_of_proxies(last, environ)]
    return sorted([*found, *_of_place(target, plan, last)], key=lambda each: not each.matters)


_GRPC = (
    "the kubelet speaks HTTP/2 in clear text and calls grpc.health.v1.Health/Check; it knows no "
    "TLS and no credentials"
)
_GRPC_REFUSED = (
    "the kubelet goes on connecting until the timeout: a refused connection is reported as one "
    "that took too long"
)
_PROXIED = Difference(
    "proxy",
    "before 1.27 the kubelet's gRPC uses the proxy that HTTPS_PROXY of its own environment names",
    True,
)
_COVERS = {
    "http": "lookup, connection, TLS, all redirects and the body",
    "tcp": "lookup and connection",
}


def _of_timeout(plan: ProbePlan, last: Attempt) -> Iterator[Difference]:
    timeout_s = plan.spec.timeout_seconds
    tight = last.total_ns * 2 >= timeout_s * 1_000_000_000
    covers = _COVERS.get(plan.handler or "", "connection and call")
    yield Difference(
        "timeout",
        f"the kubelet's {timeout_s} s cover {covers} together; curl has no timeout "
        f"(--max-time {timeout_s})",
        tight,
    )
    if last.execution.outcome == "error" and last.exchanges and last.exchanges[-1].status:
        yield Difference(
            "body",
            "a body that cannot be read to its end is an error, which the kubelet tries twice more "
            "and then ignores: such a probe neither fails nor succeeds",
            True,
        )


def _of_http(last: Attempt) -> Iterator[Difference]:
    if not last.exchanges:
        return
    first, final = last.exchanges[0], last.exchanges[-1]
    status = final.status or 0
    sent = [line for line in first.sent if line.partition(":")[0] in ("User-Agent", "Accept")]
    host = next((h for h in map(_host_sent, first.sent) if h), "")
    yield Difference(
        "headers",
        f"the kubelet sends {', '.join(sent) or 'none of its own'}, and closes; curl sends its own "
        "User-Agent and keeps the connection",
        status >= 400,
    )
    url = parse_url(first.url)
    curls = url.host.removesuffix(f":{DEFAULT_PORTS.get(url.scheme, '')}")
    if host and host != curls:
        yield Difference("Host", f"the kubelet sends {host}, curl {curls}", status >= 300)
    if len(last.exchanges) > 1 or 300 <= status < 400 or last.not_followed:
        says = (
            "the kubelet follows redirects to the same host name, at most ten; curl none (-L: all)"
        )
        if last.not_followed:
            says += f"; {last.not_followed} is another host, so the probe succeeds with a warning"
        yield Difference("redirects", says, True)
    if status >= 400:
        yield Difference("status", f"{status} fails the probe; curl ends with 0 unless -f", True)
    if final.body_cut:
        yield Difference("body", "the kubelet reads 10 KiB of the body; curl all of it", True)


def _of_tls(last: Attempt) -> Iterator[Difference]:
    if any(exchange.url.startswith("https:") for exchange in last.exchanges):
        yield Difference(
            "TLS",
            "the kubelet checks no certificate and shows none, and names the host of the URL to "
            "the server, not that of a Host header; curl checks it (-k: not)",
            True,
        )
        if "h2" not in offered_protocols():
            yield Difference(
                "HTTP/2",
                "the kubelet offers HTTP/2 over TLS, as curl does; this command does not without "
                "h2 (pip install 'kubeledger[probe]')",
                True,
            )


def _of_proxies(last: Attempt, environ: Mapping[str, str]) -> Iterator[Difference]:
    secure = any(exchange.url.startswith("https:") for exchange in last.exchanges)
    names = ("https_proxy", "HTTPS_PROXY") if secure else ("http_proxy",)
    found = [name for name in (*names, "all_proxy", "ALL_PROXY") if environ.get(name)]
    if found:
        curls = f"curl uses that of {found[0]} unless NO_PROXY names the host"
        yield Difference("proxy", f"the kubelet uses no proxy; {curls}", True)


def _of_place(target: PodTarget, plan: ProbePlan, last: Attempt) -> Iterator[Difference]:
    handlers = plan.handlers
    host = (handlers.http_get.host if handlers.http_get else "") or (
        handlers.tcp_socket.host if handlers.tcp_socket else ""
    )
    failed = _dialing(last)
    if _is_loopback(host):
        whose = "the node's, which is the pod's own" if target.host_network else "the node's"
        yield Difference("address", f"{host} is {whose} loopback for the kubelet", True)
    elif not host:
        where, asks = "inside of the container", f"the kubelet asks {target.ip} from the node"
        if target.host_network:
            asks = f"the pod is on the node's network: the kubelet asks {target.ip}"
            where = "on the node"
        says = f"{asks}; a server that listens on 127.0.0.1 answers curl {where} only"
        yield Difference("address", says, failed)
    ips = [each.get("ip") for each in (target.raw.get("status") or {}).get("podIPs") or ()]
    if len(ips) > 1 and not host:
        asked = ", ".join(map(str, ips))
        says = f"of {asked} the kubelet asks the first only; curl by a name tries both"
        yield Difference("IPv6", says, failed)


def _dialing(last: Attempt) -> bool:
    """No connection came about."""
    final = last.exchanges[-1] if last.exchanges else Exchange()
    return not final.local and final.status is None and "first_byte" not in final.phases_ns


def _host_sent(line: str) -> str:
    for name in ("Host: ", ":authority: "):
        if line.startswith(name):
            return line.removeprefix(name)
    return ""


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class ProbeSeries(msgspec.Struct, kw_only=True):
    """One probe and its ticks.

    Attributes:
        not_run: why it was not made, and what to do instead; empty where it was.
        ticks: in order.
        differences: of curl, as of the last tick.
    """

    plan: ProbePlan
    not_run: str = ""
    ticks: list[ProbedTick] = []
    differences: list[Difference] = []


def run_series(
    target: PodTarget,
    plans: Sequence[ProbePlan],
    version_text: str,
    environ: Mapping[str, str],
    *,
    repeat: int = 1,
    period_ns: int | None = None,
    seen: Callable[[ProbePlan, ProbedTick], None] = lambda _plan, _tick: None,
) -> list[ProbeSeries]:
    """Make all probes ``repeat`` times, one after the other.

    Args:
        environ: of the shell from which curl would be called.
        repeat: how often each.
        period_ns: from one tick of a probe to its next; None: the probe's own.

    Returns:
        (n,) series, in the order of ``plans``.

    Raises:
        BadInputError: the pod has no IP.
        BadQuestionError: a gRPC probe without h2.
    """
    facts, agent = resolve(version_text).prober, user_agent(version_text)
    if any(plan.handler == "grpc" for plan in plans):
        need_h2()
    if not target.ip and any(plan.handler in ("http", "tcp", "grpc") for plan in plans):
        raise BadInputError(
            f"pod {target.namespace}/{target.name} has no IP yet",
            advice="--address IP, or a newer pod list",
        )
    series = [ProbeSeries(plan=plan, not_run=_not_run(target, plan)) for plan in plans]
    workers = [worker_of(target, plan, facts) for plan in plans]
    due = [(0, index) for index, each in enumerate(series) if not each.not_run]
    while due:
        due_ns, index = heapq.heappop(due)
        time.sleep(max(0, due_ns - time.monotonic_ns()) / NS_PER_S)
        began_ns = time.monotonic_ns()
        each = series[index]
        tick = probe_once(target, each.plan, workers[index], facts, agent)
        each.ticks.append(tick)
        seen(each.plan, tick)
        if len(each.ticks) < repeat:
            own_ns = each.plan.spec.period_seconds * NS_PER_S
            heapq.heappush(due, (began_ns + (own_ns if period_ns is None else period_ns), index))
    for each in series:
        if each.ticks:
            each.differences = differences(target, each.plan, each.ticks[-1], facts, environ)
    return series


def _not_run(target: PodTarget, plan: ProbePlan) -> str:
    """An exec probe is a command in the container, which only the runtime can start."""
    if plan.handler != "exec":
        return ""
    import shlex

    raw = plan.handlers.exec or {}
    command = raw.get("command")
    status = status_of(target, plan)
    container_id = status.container_id.partition("://")[2] if status else ""
    words = [str(word) for word in command] if isinstance(command, list) else []
    return (
        "exec probes are not run from here; kubectl exec "
        f"-n {target.namespace} {target.name} -c {plan.container.name} -- {shlex.join(words)}; "
        f"or on the node: crictl exec --sync --timeout {plan.spec.timeout_seconds} "
        f"{container_id or 'CONTAINER'} {shlex.join(words)}"
    )
