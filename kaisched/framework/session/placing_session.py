"""What the placement needs of the session whose pods it places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kaisched.framework.plugins.dispatch import AskingSession

if TYPE_CHECKING:
    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.plugins.dispatch import Questions
    from kaisched.framework.session.capacity import Capacity
    from kaisched.framework.session.devices import Devices
    from kaisched.framework.session.ledger import Ledger


class PlacingSession(AskingSession, Protocol):
    """Session as its placement needs it."""

    @property
    def snapshot(self) -> Snapshot:
        """Frozen tables of the cycle."""
        ...

    @property
    def capacity(self) -> Capacity:
        """Room of the nodes as of now."""
        ...

    @property
    def has_moved(self) -> bool:
        """True once something may differ from the snapshot."""
        ...

    @property
    def ledger(self) -> Ledger:
        """Where every task stands, as of now."""
        ...

    @property
    def devices(self) -> Devices | None:
        """Devices for claims as of now; None without claims."""
        ...

    @property
    def ask(self) -> Questions:
        """Questions of the shard."""
        ...
