"""In-place resizes: what is allocated to pods, and which changes of their resources are."""
