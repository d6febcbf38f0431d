"""A whole node on a virtual clock: scenarios, and the engine that plays them.

Comes in: a scenario, as people write it. Goes out: records as a real node's import would give them.
Imports the rooms before it; the engine only ``model``, ``kubelet`` and ``replay.node``.
"""
