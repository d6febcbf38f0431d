"""QoS classes and the cgroup values the kubelet writes for pods, containers and levels."""
