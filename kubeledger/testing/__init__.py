"""For tests: golden recordings as pytest tests, small scenes, random scenarios, schemas.

Comes in: recordings, or a seed. Goes out: tests and plans. Imports the rooms before it.
"""
