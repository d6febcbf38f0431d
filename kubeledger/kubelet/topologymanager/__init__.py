"""Topology hints, their merge and admission by NUMA affinity."""
