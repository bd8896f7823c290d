"""What is told to the outside about cycles: metrics and logs, rendered from their results.

Nothing here decides anything; actions and core do not know this package.
"""
