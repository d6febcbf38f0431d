"""The eviction manager: which pods a node under pressure gives up, and when."""
