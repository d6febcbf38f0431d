"""Records on disk: appended, chained, sealed, proved, recovered, dropped when they are old.

Comes in: batches of facts. Goes out: records, and a Parquet copy of them (``history``). Imports
``model``.
"""
