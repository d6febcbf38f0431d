"""All that is found out about a bundle before its first record is written."""
