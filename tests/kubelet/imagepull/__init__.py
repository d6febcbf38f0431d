"""Image pulls: names, credentials, records."""
