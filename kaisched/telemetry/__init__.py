"""Metrics and logs, rendered from the results of cycles.

Nothing here makes decisions; actions and core do not know this package.
"""
