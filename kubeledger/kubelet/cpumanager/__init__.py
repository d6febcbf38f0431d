"""The CPU manager's static policy: which containers have which CPUs alone."""
