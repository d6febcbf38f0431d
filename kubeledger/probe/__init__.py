"""A pod's probes, made from here as its kubelet makes them.

In: a pod's spec and status (a pod list, a ledger, or a kubelet), and the kubelet's version. Out:
what was sent, the time of each phase, what came back, and what the kubelet makes of it. Texts and
rules are ``kubelet.prober``'s; here are sockets and clocks. May import ``record`` and what
stands before it.
"""
