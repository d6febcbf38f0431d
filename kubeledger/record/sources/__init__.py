"""Live sources: each is polled and gives observations, from the cursor at which it was left."""
