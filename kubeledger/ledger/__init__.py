"""The ledger directory: segments on disk, durability, recovery, snapshots."""
