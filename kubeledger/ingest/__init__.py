"""From a node's files to records."""
