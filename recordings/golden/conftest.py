"""What must fail is no test of this directory; name it, and it is collected."""

collect_ignore = ["mutated"]
