"""Live sources: each gives what it observes in the form that an import reads from files."""
