"""Everything that differs between kubelet versions, as named facts with their sources."""
