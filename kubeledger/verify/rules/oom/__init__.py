"""Kills by the kernel: whether it could choose the process, and what other settings change."""
