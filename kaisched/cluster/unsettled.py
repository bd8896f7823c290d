"""Pods whose owner is not known yet: its kind is followed apart from theirs, and may lag behind.

Such a pod would be taken for a gang of its own. It waits for its owner, but not for long: an owner
that is gone, or may not be read, never comes.
"""

from __future__ import annotations

from typing import Final

PATIENCE_S: Final = 5.0
"""How long a pod waits for its owner to be seen."""


class Unsettled:
    """Who waits, and since when. It waits who is noted, from the next turn on."""

    def __init__(self) -> None:
        """Nobody does."""
        self._noted: dict[str, None] = {}
        self._until: dict[str, float] = {}  # in the order of time
        self._waited: set[str] = set()

    def __contains__(self, key: str) -> bool:
        """Tell whether a pod waits now."""
        return key in self._until

    def note(self, key: str, *, is_unsettled: bool) -> None:
        """Note whether a pod has an owner that is not known."""
        if not is_unsettled:
            self._noted.pop(key, None)
            self._until.pop(key, None)
            self._waited.discard(key)
        elif key not in self._until and key not in self._waited:
            self._noted[key] = None

    def turn(self, now_s: float) -> list[str]:
        """Return who waits from now on and who does no more, by the monotonic clock."""
        changed = list(self._noted)
        self._until.update((key, now_s + PATIENCE_S) for key in changed)
        self._noted.clear()
        while self._until and (first := next(iter(self._until.items())))[1] <= now_s:
            del self._until[first[0]]
            self._waited.add(first[0])
            changed.append(first[0])
        return changed
