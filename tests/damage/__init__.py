"""No byte of what is stored changes, and no file is lost, without being told."""
