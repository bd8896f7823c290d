"""Checks of a Topology on its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kaisched.objects.faults import Fault
from kaisched.objects.labels import LABEL_KEY
from kaisched.objects.topology import Topology

MAX_LEVELS: Final = 16
LABEL_FIX: Final = "write one such as topology.kubernetes.io/rack"
"""What to do about a name that no label of a node can have."""
_HOSTNAME: Final = "kubernetes.io/hostname"


def topology_faults(topology: Topology) -> Iterator[Fault]:
    """Yield faults: the number of levels, bad or repeated names, hosts above other levels."""
    levels = topology.spec.levels
    path = ("spec", "levels")
    if not 1 <= len(levels) <= MAX_LEVELS:
        yield Fault(path, f"{len(levels)} levels", fix=f"write 1 to {MAX_LEVELS} levels")
    labels = [level.node_label for level in levels]
    aliases: set[str] = set()
    for at, level in enumerate(levels):
        if not level.node_label:
            yield Fault((*path, at, "nodeLabel"), "empty", fix="write the key of a node label")
        elif level.node_label in labels[:at]:
            fix = "give each level its own label"
            yield Fault((*path, at, "nodeLabel"), "given twice", level.node_label, fix)
        elif not LABEL_KEY.fullmatch(level.node_label):
            yield Fault((*path, at, "nodeLabel"), "no name of a label", level.node_label, LABEL_FIX)
        if level.node_label == _HOSTNAME and at != len(levels) - 1:
            fix = "make it the last level: no level is inside a host"
            yield Fault((*path, at, "nodeLabel"), "a host holds no other level", _HOSTNAME, fix)
        if level.alias and (level.alias in aliases or level.alias in labels):
            fix = "give each level an alias of its own, which is no node label here"
            yield Fault((*path, at, "alias"), "already names a level", level.alias, fix)
        aliases.add(level.alias)
