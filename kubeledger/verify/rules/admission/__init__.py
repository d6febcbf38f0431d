"""Verification of admission and preemption.

nodes       first reading: the node object; labels and taints at a time
refusals    first reading: what managers refuse, and how refusals are known elsewhere
allocatable what the node had for pods, by machine and settings
podspecs    pod objects as admission gets them
inputs      puts a case together: one admission with all that it rests on
case        the case, and the worlds it may have been in
judging, refused, victims    the verdicts, and why
rule        ties them to the records
"""

from __future__ import annotations
