"""Readers of traces: each gives jobs as rows, whatever the file looks like."""
