"""Verification of admission and preemption.

foresight   first reading: which ADD was decided how, when pods were made
offers      which pods were handed to the kubelet, in which order, and until when they count
nodes       what the node had for pods, by machine and settings
pressure    the eviction manager's conditions, by its signals
question    one admission with all that it rests on, and the worlds it may have been in
admitted, refused, preempted, failed    the verdicts
words       amounts and pods in sentences
findings    judgements become findings
handovers, sources    names and words that several sources tell
life        until when pods are shown alive
verifier    ties them to the records
"""

from __future__ import annotations
