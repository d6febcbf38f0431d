"""A whole node on a virtual clock: scenarios as people write them, and the engine that plays them."""
