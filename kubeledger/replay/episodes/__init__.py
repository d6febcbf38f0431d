"""Episodes: what several records of one subject add up to, derived once, for all who ask.

A record says what was seen at one instant. An episode has a beginning, a course and an end: a
stage in which a pod is stuck until it passes it, a condition of the node until it changes. Each
module holds one kind: a struct that says what is known of one, and a fold that takes records in the
order of the ledger (``take``) and gives what they add up to so far (``episodes``). Nothing is
stored: why, views, timeline, fleet and verification derive the same from the same records.

Comes in: records. Goes out: episodes in the order of their begin. Imports ``model`` and
``kubelet``.
"""
