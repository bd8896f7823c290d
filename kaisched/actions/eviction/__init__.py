"""The search for running work that makes room for a claim, and what it must respect."""
