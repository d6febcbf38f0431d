"""Probes: workers, results and what follows from them."""
