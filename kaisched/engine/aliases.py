"""Aliases of names: equal names get equal aliases, which sort as the names do.

First every name is registered with its use; then each gets an alias that says its use. If a name
has several uses (a queue, and the label that names it), the first use in :data:`USES` counts.
Aliases of one use sort as their names do, since ties are decided by name.
"""

from __future__ import annotations

import re
from typing import Final

from kaisched.objects.gpus import is_ours

USES: Final = (
    "queue",
    "pool",
    "node",
    "class",
    "job",
    "pod",
    "subgroup",
    "container",
    "key",
    "value",
    "gate",
    "claim",
    "volume",
    "storage",
    "flavor",
    "scheduler",
)
"""Uses of names; ``namespace`` and ``uid`` are apart, since no other use shares their names."""
_APART: Final = ("namespace", "uid")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_PUBLIC_KEY: Final = re.compile(
    r"([a-z0-9-]+\.)*(kubernetes\.io|k8s\.io|nvidia\.com|amd\.com|intel\.com|run\.ai"
    r"|kai\.scheduler)/[A-Za-z0-9._-]+",
    re.ASCII,
)


class Aliases:
    """Maps names to aliases, once all names are registered."""

    def __init__(self, kept: frozenset[str]) -> None:
        """Start without names; ``kept`` are public names, which are not replaced."""
        self._kept = kept
        self._met: dict[str, dict[str, int]] = {use: {} for use in ("name", *_APART)}
        self._alias: dict[tuple[str, str], str] = {}
        self._is_settled = False

    def __call__(self, use: str, name: str) -> str:
        """Return the alias of a name; before :meth:`settle`, register the name and return it."""
        if not name or self._stays(use, name):
            return name
        world = use if use in _APART else "name"
        if self._is_settled:
            return self._alias[world, name]
        rank = USES.index(use) if world == "name" else 0
        self._met[world][name] = min(rank, self._met[world].get(name, rank))
        return name

    def known(self, use: str, name: str) -> str | None:
        """Return the alias of a registered name, or a name that is kept; else None."""
        if self._stays(use, name):
            return name
        return self._alias.get((use if use in _APART else "name", name))

    def settle(self) -> None:
        """Give every registered name its alias."""
        for world, met in self._met.items():
            # A namespace precedes a slash in keys, and is compared together with it.
            ordered = sorted(met, key=lambda name: name + "/" * (world == "namespace"))
            for rank in sorted(set(met.values())):
                use = USES[rank] if world == "name" else world
                names = [name for name in ordered if met[name] == rank]
                width = len(str(len(names)))
                for number, name in enumerate(names, 1):
                    self._alias[world, name] = f"{use}-{number:0{width}}"
        self._is_settled = True

    def _stays(self, use: str, name: str) -> bool:
        if use in {"value", "subgroup"} and _NUMBER.fullmatch(name):
            return True  # compared as a number by Gt and Lt
        if use == "claim" and is_ours(name):
            return True  # it follows from the annotations of a pod, and is looked for by them
        return name in self._kept or (use == "key" and bool(_PUBLIC_KEY.fullmatch(name)))
