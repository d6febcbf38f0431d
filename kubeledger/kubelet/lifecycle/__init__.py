"""Pods and containers as the kubelet's sync loop, admission and runtime manager see them."""
