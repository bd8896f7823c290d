"""The daemon, end to end, on an API server."""
