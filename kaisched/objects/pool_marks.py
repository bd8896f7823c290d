"""The condition of a pod that says in which node pool its job is, and after how many moves."""

from __future__ import annotations

import re
from typing import Final

from kaisched.objects.labels import pool_name, pool_named

IN_POOL: Final = "kaisched.io/InNodePool"
"""Type of the condition."""
_MOVES: Final = re.compile(r"[0-9]{1,10}", re.ASCII)


def mark_text(pool: str, moves: int) -> str:
    """Return the message of the condition."""
    return f"{pool_name(pool)} {moves}"


def mark_of(text: str) -> tuple[str, int] | None:
    """Return pool and number of moves by the message; None if it has not both."""
    name, _, moves = text.partition(" ")
    if not name or not _MOVES.fullmatch(moves):
        return None
    return pool_named(name), int(moves)
