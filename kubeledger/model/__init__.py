"""What everything speaks: records and their bodies, units, errors, and the wire format.

Goes out: plain data and its lines. Imports nothing of the other rooms.
"""
