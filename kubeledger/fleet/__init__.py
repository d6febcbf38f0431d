"""Many nodes: each imported and verified by one function, on any engine, into one lake.

Comes in: sources (bundles, archives, ledgers) by path or URL. Goes out: a lake of Parquet files
and markers, and answers from it. ``docs/fleet.md`` has the design.
"""
