"""The kubelet's own decisions, one package a subsystem, by version: pure functions."""
