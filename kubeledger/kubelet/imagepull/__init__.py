"""Whether an image is pulled for a container, and what comes of it: EnsureImageExists."""
