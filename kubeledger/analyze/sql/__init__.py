"""SQL over a ledger: projections, views, shipped queries."""
