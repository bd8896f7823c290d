"""Why a queue that was declared takes no jobs: it has a fault, or its line of parents is broken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

_LONGEST: Final = 20
"""So many queues of a line are looked at: a sentence could not name more, and lines may be long."""


def broken_lines(
    orphans: Iterable[str], parent: Mapping[str, str], left_out: Mapping[str, str]
) -> dict[str, str]:
    """Say of each queue outside the tree where its line of parents ends.

    Args:
        orphans: the queues that are not in the tree.
        parent: parent by name, of all queues without a fault.
        left_out: faults of the others, by name.

    """
    return {name: _broken(name, parent, left_out) for name in orphans}


def _broken(name: str, parent: Mapping[str, str], left_out: Mapping[str, str]) -> str:
    line = [name]
    while (above := parent[line[-1]]) in parent and above not in line:
        if len(line) == _LONGEST:
            return f"queue {name} is below {_LONGEST} queues or more that lead to no root"
        line.append(above)
    if above in line:
        ring = line[line.index(above) :]
        told = " below ".join([*ring, above])
        if len(ring) == 1:
            told = f"{above} below itself"
        where = "is in" if above == name else "is below"
        return f"queue {name} {where} a cycle of queues: {told}"
    who = f"queue {name}" if len(line) == 1 else f"queue {name} is below {line[-1]}, which"
    if above in left_out:
        return f"{who} has the parent {above}, which is left out: {left_out[above]}"
    return f"{who} has the parent {above}, which does not exist"
