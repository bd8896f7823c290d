"""Key columns of questions about order with their names, for reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kaisched.core.axis import FloatVec, IntVec


class NamedKey(NamedTuple):
    """A key column of a question about order, with the plugin that answered it."""

    plugin: str
    name: str
    column: IntVec | FloatVec
    is_negative: bool
    """True where the key is the named number with its sign turned."""

    def shown(self, value: float) -> float:
        """Return the named number of a key."""
        return -value if self.is_negative else value
