"""What the records can and cannot say: the one model of it for all rules.

``coverage`` knows which lines and records may be missing, late or wrong; ``timeline`` is the life
of processes, settings, pods and containers, with what is certain and what is only possible.
Both are filled in the first reading of a history and asked in the second.
"""
