"""A node recorded while it runs.

Comes in: what live sources observe (``sources``), made durable as it is (``capture``). Goes out:
records of a ledger, as they come (``recorder``). Imports ``model``, ``ledger``, ``replay`` and
``ingest``, never the SQL engine.
"""
