"""Where many tasks run: this machine's processes, or Ray. Engines know nothing of nodes."""
