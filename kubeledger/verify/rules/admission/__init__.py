"""Verification of admission and preemption.

told        first reading: refusals that lists and managers show, the node's name
nodes       first reading: the node object; labels and taints at a time
allocatable what the node had for pods, by machine and settings
adds        which pods were handed to the kubelet, and whose turn it is
podspecs    pod objects as admission gets them
pressure    the eviction manager's conditions, by its signals
inputs      puts a case together: one admission with all that it rests on
case        the case, and the worlds it may have been in
judging, refused, victims    the verdicts; words say why
rule        ties them to the records
"""

from __future__ import annotations
