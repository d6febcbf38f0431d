"""What records say: the observations and decisions of each subsystem, plain data."""
