"""The node as a whole: its settings, its state, and which subsystem a record concerns."""
