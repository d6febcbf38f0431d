"""Verification of admission and preemption.

nodes       the node object, its labels and taints, and what it had for pods
inputs      puts a case together: one admission with all that it rests on
case        the case, and the worlds it may have been in
judging, refused, victims    the verdicts, and why
rule        ties them to the records
"""

from __future__ import annotations
