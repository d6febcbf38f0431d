"""A history is what is asked about: the records of one node, of a ledger or of any source."""
