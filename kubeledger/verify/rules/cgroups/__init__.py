"""Cgroup values, removals and writes, decided again."""
