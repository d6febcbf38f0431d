"""What everything speaks: records and their bodies, units, errors, the wire format."""
