"""Tests of the Parquet history."""
