"""CPUs and memory of NUMA nodes that containers have alone: judged again."""
