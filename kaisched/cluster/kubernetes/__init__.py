"""A real cluster: what an API server says goes into the store, what a cycle decides goes out.

Only this package knows the official client, and only for where the server is and how to log in.
"""
