"""Tells a usage history from files of something else, which must stay as they are.

It reads bytes only: SQLite would lock a database, change its journal mode, or make files beside it.
"""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

MARK: Final = "CREATE TABLE stretch ("
"""In the first page of every history, or in the log beside it until that is copied."""
_MAGIC: Final = b"SQLite format 3\0"
_PAGE: Final = 4096
_LOG: Final = 64 * 1024
_VERSION, _APPLICATION, _CELLS = slice(60, 64), slice(68, 72), slice(103, 105)
"""Where the first page says who made it, and how many tables it has."""


def why_foreign(path: Path) -> str:
    """Return why a file is no place for a usage history, empty if it is one or may become one.

    A corrupt history is one as long as its first page is whole.

    Raises:
        OSError: the file cannot be read.

    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return ""
    if not stat.S_ISREG(mode):
        return "a folder" if stat.S_ISDIR(mode) else "a device or pipe, no file"
    first = _begin_of(path, _PAGE)
    if first and not first.startswith(_MAGIC):
        return "a file of something else"
    mark, log = MARK.encode(), path.with_name(f"{path.name}-wal")
    if mark in first or (log.is_file() and mark in _begin_of(log, _LOG)):
        return ""
    is_empty = not first or not any(any(first[what]) for what in (_VERSION, _APPLICATION, _CELLS))
    return "" if is_empty else "a database of something else"


def _begin_of(path: Path, size: int) -> bytes:
    with path.open("rb") as file:
        return file.read(size)
