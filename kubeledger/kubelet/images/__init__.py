"""Image garbage collection, and the disk readings that set it off."""
