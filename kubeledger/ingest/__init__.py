"""From a node's files to facts: what each line and document says, and what several say together.

Comes in: files, directories, archives. Goes out: facts with their evidence, for the ledger.
Imports ``model``, ``kubelet``, ``ledger`` and ``replay``.
"""
