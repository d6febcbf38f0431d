"""Kills by the kernel when memory ran out: records, the kernel's choice, state."""
