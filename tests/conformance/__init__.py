"""Peer schedulers' own test cases, run through the real cycle and the public functions.

``python -m tests.conformance --cases DIR`` runs every case of a folder. The report and what counts
as a deviation are described in docs/reference/conformance.md.
"""
