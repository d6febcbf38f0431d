"""From records to answers: SQL, why, what-if, diff, completeness, audit, headlines."""
