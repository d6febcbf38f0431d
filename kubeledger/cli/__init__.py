"""The command line: one file a command group.

Comes in: arguments. Goes out: text, files and exit codes. Imports any room; nothing imports it.
"""
