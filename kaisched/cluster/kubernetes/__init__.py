"""The adapter of a real cluster: watches fill the store, writers carry out a cycle's decisions.

Only this package uses the official client, and only for the address and the credentials.
"""
