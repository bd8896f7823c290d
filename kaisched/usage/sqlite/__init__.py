"""Usage store in one file of our own, which needs no other process."""

from kaisched.usage.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
