"""What single messages say: their words and values, one module a subsystem."""
