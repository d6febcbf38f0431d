"""For tests: golden recordings as pytest tests, small scenes, schemas.

Comes in: recordings. Goes out: tests. Imports the rooms before it.
"""
