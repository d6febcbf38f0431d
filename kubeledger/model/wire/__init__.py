"""Records as bytes: the catalogue of kinds, the line format, upcasters, the hash chain."""
