"""What counts as going wrong: one list, from which import, page, fleet and ``why node`` take it.

``table`` says which kinds there are and how bad they are, ``rows`` where they stand, ``sentences``
what is said of them.

Comes in: the views. Goes out: queries for occurrences, and their words. Imports ``sql``.
"""
