"""Log stores' rows: JSON, journal exports, tables. Comes in: a file; goes out: lines of a journal.

``json_rows`` and ``rows`` cut a file into rows, ``forms`` is the table that says where a row of
each store holds message, time, node and program, and ``lines`` makes of all rows one log in the
order of time.
"""
