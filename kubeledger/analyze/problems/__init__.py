"""What counts as going wrong: one list, from which import, page, fleet and ``why node`` take it.

``told`` gathers what a node's records tell, ``rows`` finds in it what went wrong, ``table`` says
which kinds there are and how bad they are, ``sentences`` what is said of them.

Comes in: records. Goes out: occurrences, and their words. Imports ``wording``.
"""
