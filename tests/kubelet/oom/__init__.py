"""Tests of the kernel's choice."""
