"""Off the node: objects below a URL, and ledgers' sealed segments as such objects.

Comes in: a URL (a directory, S3, GCS, Azure), a ledger. Goes out: objects, a copy of the ledger
there, and a ledger from such a copy. Imports ``model`` and ``ledger``.
"""
