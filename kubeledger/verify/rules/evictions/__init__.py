"""Verification of what the eviction manager decided."""
