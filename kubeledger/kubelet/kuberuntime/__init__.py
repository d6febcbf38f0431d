"""What one sync of a pod does with its sandbox and containers, and the restart back-off."""
