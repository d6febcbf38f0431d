"""For tests: golden recordings as pytest tests, and small scenes."""
