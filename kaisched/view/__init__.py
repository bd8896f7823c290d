"""Live view: what a cycle found, as immutable arrays, and the documents made from it."""
