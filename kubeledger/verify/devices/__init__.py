"""Devices and their topology: what was granted, refused, given back, and aligned."""
