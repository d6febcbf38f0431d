"""Image GC: when it runs, what it removes in which order, and how it ends."""
