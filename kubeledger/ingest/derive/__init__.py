"""Decisions without a line of their own, by the kubelet's rules."""
