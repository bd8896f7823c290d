"""Pods that could not be bound: each is held back for a while, twice as long every time."""

from __future__ import annotations

from typing import Final

LEAST_S: Final = 1.0
MOST_S: Final = 300.0


class HeldBack:
    """Who is held back until when, by name; failures count until they are forgotten."""

    def __init__(self) -> None:
        """Hold nobody back."""
        self._until_s: dict[str, float] = {}
        self._pause_s: dict[str, float] = {}

    def __contains__(self, key: str) -> bool:
        """Tell whether a pod is held back."""
        return key in self._until_s

    def add(self, key: str, now_s: float) -> None:
        """Hold a pod back from now on."""
        pause_s = min(2 * self._pause_s.get(key, LEAST_S / 2), MOST_S)
        self._pause_s[key], self._until_s[key] = pause_s, now_s + pause_s

    def pop_due(self, now_s: float) -> list[str]:
        """Let those go whose time is over, and return them in order of their names."""
        due = sorted(key for key, until_s in self._until_s.items() if until_s <= now_s)
        for key in due:
            del self._until_s[key]
        return due

    def forget(self, key: str) -> None:
        """Begin anew with a pod: it is bound, or gone."""
        self._until_s.pop(key, None)
        self._pause_s.pop(key, None)
