"""Device plugins, their devices, and which container holds which."""
