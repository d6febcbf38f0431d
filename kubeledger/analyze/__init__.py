"""From records to answers: SQL, why, what-if, diff, completeness, audit, headlines.

Comes in: a ledger or another source, and a question. Goes out: rows and sentences. Imports all that
leads to records, and ``verify``.
"""
