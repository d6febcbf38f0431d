"""What several lines and documents say together, one assembler a subsystem."""
