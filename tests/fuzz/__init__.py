"""Fuzzing: foreign bytes of every kind, changed at random, against what must always hold."""
