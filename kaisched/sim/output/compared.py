"""Several runs side by side: a name for each, and what else than the policy differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kaisched.sim.output.files import Result
from kaisched.units import format_duration

_MOST_QUEUES: Final = 8


def names_of(results: Sequence[Result]) -> list[str]:
    """Return a name for each run: of runs with equal names, the name of the file."""
    names = [result.outcome.name for result in results]
    files = [result.file for result in results]
    stems = [Path(file).stem for file in files]
    for better in (stems, files):
        is_shared = [
            len({files[at] for at, one in enumerate(names) if one == name}) > 1 for name in names
        ]
        names = [better[at] if is_shared[at] else name for at, name in enumerate(names)]
    return [
        f"{name} ({names[: at + 1].count(name)})" if names.count(name) > 1 else name
        for at, name in enumerate(names)
    ]


def differences_of(results: Sequence[Result]) -> list[str]:
    """Return a sentence for each difference in what the policies were given to divide."""
    names = names_of(results)
    return [
        *_difference("clusters", names, [_cluster(result) for result in results]),
        *_difference("queues", names, _queues(results)),
        *_difference("times", names, [format_duration(it.outcome.until_s) for it in results]),
        *_difference("seeds", names, [f"{result.outcome.seed}" for result in results]),
    ]


def _difference(what: str, names: Sequence[str], values: Sequence[str]) -> list[str]:
    if len(set(values)) <= 1:
        return []
    each = "; ".join(f"{name}: {value}" for name, value in zip(names, values, strict=True))
    return [f"The {what} differ too, not the policies alone: {each}."]


def _cluster(result: Result) -> str:
    counts = Counter(result.node_gpus).items()
    return ", ".join(f"{count} nodes with {gpus:g} GPUs" for gpus, count in sorted(counts))


def _queues(results: Sequence[Result]) -> list[str]:
    """Return for each run the queues that not all runs have."""
    names = [[queue.name for queue in result.outcome.queues] for result in results]
    in_all = set.intersection(*map(set, names))
    return [_listed([name for name in run if name not in in_all]) for run in names]


def _listed(own: Sequence[str]) -> str:
    shown = ", ".join(own[:_MOST_QUEUES]) or "no more"
    return f"{shown}, ... ({len(own)})" if len(own) > _MOST_QUEUES else shown
