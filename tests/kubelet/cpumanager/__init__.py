"""Tests of the CPU manager."""
