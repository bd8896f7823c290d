"""Trees without fair sharing: who takes from whom is decided by quota, tree and priority.

Rules F20 to F25 of docs/explanation/fair-sharing.md.
"""
