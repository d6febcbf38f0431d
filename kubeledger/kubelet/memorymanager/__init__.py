"""The memory manager's static policy: which containers have memory of which NUMA nodes."""
