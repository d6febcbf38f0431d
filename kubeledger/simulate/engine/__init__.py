"""A whole node on a virtual clock, its kubelet deciding as the real one."""
