"""Mutants: small changes of the code, each of which a test of a rule should notice."""
