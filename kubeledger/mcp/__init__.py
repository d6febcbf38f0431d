"""A Model Context Protocol server: verified answers for agents, read-only.

Comes in: a ledger or a lake, and an agent's questions. Goes out: typed results with the numbers
of the records that they rest on, cut to what was asked for. It holds no model, writes nothing
and reaches nothing but what it was started with. May import all rooms above it.
"""
