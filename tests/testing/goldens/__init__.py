"""What makes the golden recordings of ``recordings/golden``, one function a behaviour."""
