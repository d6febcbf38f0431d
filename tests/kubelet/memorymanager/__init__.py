"""Tests of the memory manager."""
