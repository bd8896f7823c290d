"""The domains that a gang of unequal pods, or of subgroups, is tried on together (C3, S6).

Which domains hold such a gang is known only when it is placed. So those that may hold it, by the
sums of what they have, are tried: few ones before more.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice, pairwise
from typing import Final, NamedTuple

import numpy as np

from kaisched import Amounts, IntVec, RowVec, Session
from kaisched_plugins.topology.choosing import MOST_PODS, Chooser, Shapes

_LOOKED_AT: Final = 128
"""How many choices of so many domains are looked at."""
_EACH: Final = 8
"""How many of them are tried in one domain around them."""
_TRIED: Final = 16
"""How many are tried for one batch in all."""
_PLACED: Final = 2048
"""How many pods all these tries together place in vain, each in one order of the pods."""


class Sums(NamedTuple):
    """What the domains of the preferred level have of all that a batch needs."""

    have: Amounts
    """``(K, D)`` pods of each shape that fit, and the amounts of each resource."""
    need: IntVec
    """``(K,)``."""
    kind: RowVec
    """``(D,)`` domains with equal nodes have one number: the choice between them is none."""


def sums_of(session: Session, chooser: Chooser, shapes: Shapes) -> Sums:
    """Return what the domains have for a batch on the room of its chooser."""
    rows = np.arange(len(session.nodes))
    counts = np.array([count for _, count in shapes])
    total = session.shapes.request[:, [shape for shape, _ in shapes]] @ counts
    asked = np.flatnonzero(total)
    places = np.stack([np.minimum(chooser.room_of(shape), MOST_PODS) for shape, _ in shapes])
    free = np.stack([session.free(resource, rows) for resource in asked.tolist()])
    each = np.concatenate((places, free * places.any(axis=0)))
    tree, level = chooser.tree, chooser.preferred
    have = np.stack([tree.sums(column)[level] for column in each])
    kind = _kinds(each, tree.domain_of_node[level], have.shape[1])
    return Sums(have, np.concatenate((counts, total[asked])), kind)


def _kinds(each: Amounts, domain_of_node: RowVec, domains: int) -> RowVec:
    """``(D,)`` number domains by the columns of their nodes."""
    keyed = np.concatenate((each, domain_of_node[None]))
    ranked = keyed[:, np.lexsort(keyed)]
    starts = np.searchsorted(ranked[-1], np.arange(domains + 1))
    nodes = [ranked[:-1, start:end].tobytes() for start, end in pairwise(starts)]
    number = {some: at for at, some in enumerate(dict.fromkeys(nodes))}
    return np.array([number[some] for some in nodes])


def most_tried(pods: int) -> int:
    """Return how many choices are tried for a batch of so many pods."""
    return min(_TRIED, _PLACED // pods)


def few_domains(sums: Sums, ranked: RowVec) -> Iterator[RowVec]:
    """Yield choices of two domains, of three and so on that may hold a batch.

    ``ranked`` has those that there are in the order in which they are filled; this order decides
    between choices of as many.
    """
    ranked = ranked[sums.have[:, ranked].any(axis=0)]
    largest = np.cumsum(-np.sort(-sums.have[:, ranked]), axis=1)
    enough = (largest >= sums.need[:, None]).all(axis=0)
    for count in (np.flatnonzero(enough) + 1).tolist():
        if not 1 < count < len(ranked):
            continue
        some = np.array(list(islice(combinations(ranked.tolist(), count), _LOOKED_AT)))
        may_hold = (sums.have[:, some].sum(axis=2) >= sums.need[:, None]).all(axis=0)
        unlike: dict[bytes, RowVec] = {}
        for domains in some[may_hold]:
            unlike.setdefault(np.sort(sums.kind[domains]).tobytes(), domains)
        yield from list(unlike.values())[:_EACH]
