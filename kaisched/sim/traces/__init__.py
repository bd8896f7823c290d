"""Readers of traces: each returns jobs as rows, whatever the format of the file."""
