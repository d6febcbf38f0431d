"""Preemption: which pods the kubelet evicts so that a critical pod fits."""
