"""Benchmarks that check their own results, then say how long they took.

``python -m tests.benchmarks`` runs them all; docs/reference/benchmarks.md says what each one is.
"""
