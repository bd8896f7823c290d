"""A store of our own in one file: nothing else has to run."""

from kaisched.usage.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
