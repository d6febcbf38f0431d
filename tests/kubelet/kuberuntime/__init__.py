"""Tests of what a sync of a pod does."""
