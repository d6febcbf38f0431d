"""The kubelet's own decisions, one package a subsystem, by version.

Comes in: a version's profile and the inputs of a decision. Goes out: what the kubelet decides, or
may decide; what a subsystem remembers of its records. Imports ``model``. Pure: no clock, no I/O.
"""
