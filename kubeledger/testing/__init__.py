"""For tests: golden recordings as pytest tests, small scenes.

Comes in: recordings. Goes out: tests. Imports the rooms before it.
"""
