"""Lines of a stream that arrives in arbitrary pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kaisched.errors import ObjectError

LONGEST: Final = 8 << 20
"""Longest line in bytes; an API server keeps no object of more than about 2 MB."""


def lines_of(chunks: Iterable[bytes], longest: int = LONGEST) -> Iterator[bytes]:
    """Yield the lines without line ends; an unfinished last line is dropped.

    Raises:
        ObjectError: a line is too long.

    """
    parts: list[bytes] = []
    held = 0
    for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield from _joined(parts, line)
            held = 0
        if rest:
            parts.append(rest)
            held += len(rest)
        if held > longest:
            raise ObjectError(f"a line of a watch is longer than {longest >> 20} MiB")


def _joined(parts: list[bytes], last: bytes) -> Iterator[bytes]:
    line = b"".join((*parts, last)) if parts else last
    parts.clear()
    if line.strip():
        yield line
