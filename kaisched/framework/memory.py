"""What a shard remembers between cycles.

``facts`` may affect decisions: they are JSON-like, serialised with a cycle's input, and can be
rebuilt from the API after a restart. ``hints`` only save time: dropping them changes no byte of any
result (a law of the tests).
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from kaisched.core.axis import record

if TYPE_CHECKING:
    from collections.abc import Mapping


@record
class Memory:
    """Facts by plugin or action name, hints by the name of the cache."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    hints: dict[str, Any] = field(default_factory=dict)

    def without_hints(self) -> Memory:
        """Return the same facts and no hints."""
        return Memory(self.facts, {})
