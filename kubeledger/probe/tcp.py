"""TCP probes: a connection, closed at once."""

from __future__ import annotations

from kubeledger.kubelet.prober.prober import tcp_execution
from kubeledger.kubelet.profile.prober import ProberFacts
from kubeledger.probe.attempt import Attempt, Exchange, TransportError, Watch
from kubeledger.probe.dial import dial


def tcp_attempt(host: str, port: int, timeout_ns: int, facts: ProberFacts) -> Attempt:
    """Execute a TCP probe.

    Source: v1.36.2 pkg/probe/tcp/tcp.go DoTCPProbe
    Differs: no
    """
    watch = Watch(timeout_ns)
    exchange = Exchange()
    error_text: str | None = None
    try:
        connection = dial(host, port, watch, exchange, lingers=facts.sockets_linger_a_second)
        watch.end()
        connection.close()
    except TransportError as error:
        error_text = error.text
    return Attempt(
        execution=tcp_execution(dial_error=error_text),
        exchanges=(exchange,),
        total_ns=watch.elapsed_ns(),
    )
