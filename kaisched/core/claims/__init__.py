"""Allocates devices to resource claims: slices, classes and claims as plain data, and a search."""
