"""The DRA manager."""
