"""What is said beside the files of ``kaisched init``: what is left to do, and what is not taken."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kaisched.errors import ABSENT, show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.engine.migration.export import Migration, Note

_NUMBER: Final = re.compile(r"\[\d+\]")


def report(made: Migration) -> str:
    """Return the lists as text; equal lines about the entries of a list are one."""
    queues, shards = len(made.queues), len(made.shards)
    lines = [f"{_count(queues, 'queue')}, {_count(shards, 'shard')}"]
    for title, notes in (("left to do", made.told.to_do), ("not taken", made.told.left)):
        lines += ["", f"{title}:", *(_grouped(notes) if notes else ["  nothing"])]
    lines += ["", "with helm:", f"  helm install kaisched deploy/helm/kaisched {made.helm()}"]
    return "\n".join(lines) + "\n"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _grouped(notes: list[Note]) -> Iterator[str]:
    groups: dict[tuple[str, int, str, str], list[Note]] = {}
    for note in notes:
        several = _NUMBER.sub("[]", note.path)
        document = 0 if several != note.path else note.source.document
        groups.setdefault((note.source.file, document, several, note.text), []).append(note)
    for (file, _, path, text), alike in groups.items():
        first = alike[0]
        if len(alike) > 1:
            where = f"{path} ({len(alike)} times)"
        else:
            value = "" if first.value is ABSENT else f" = {show(first.value)}"
            where = f"{first.path}{value}"
        origin = f"document {first.source.document}: " if first.source.document > 1 else ""
        yield f"  {file}: {origin}{where}: {text}"
