"""Cases: one decision with all its input, as JSON; decided or judged without a ledger."""
