"""The state store: events of API objects become changes of rows, and a snapshot copies columns."""

from __future__ import annotations

from kaisched.cluster.rowstore import RowStore


class StateStore(RowStore):
    """The present state of one shard, fed by events, frozen on demand."""
