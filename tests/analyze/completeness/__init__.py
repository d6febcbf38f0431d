"""Tests of the completeness report."""
