"""Fold records into state; state at any instant."""
