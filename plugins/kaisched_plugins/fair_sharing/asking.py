"""What a job asks of the flavors of its queue, group by group.

Rule F27 of docs/explanation/fair-sharing.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np

from kaisched import ACTIVE_STATES, Amounts, Session
from kaisched_plugins.fair_sharing.by_flavor import Offer
from kaisched_plugins.fair_sharing.flavors import Chooser, Group, Mode, Request, Way
from kaisched_plugins.fair_sharing.tables import Table


class Combination(NamedTuple):
    """A flavor of each group, and the worst mode of them."""

    flavors: tuple[int, ...]
    mode: Mode


def ranked_flavors(
    chooser: Chooser, group: Group, ask: Amounts, accepted: Collection[int]
) -> Iterator[tuple[int, Way]]:
    """Yield the flavors of a group: the one that is chosen, then without it, and so on."""
    left = set(accepted)
    while left:
        chosen = chooser.choose_one(request(group, ask, left), {})
        if not chosen.flavors:
            return
        ways = [each.way for each in chosen.flavors.values()]
        flavor = next(iter(chosen.flavors.values())).flavor
        yield flavor, min(ways)
        left.discard(flavor)


def request(group: Group, ask: Amounts, accepted: Collection[int]) -> Request:
    """Return what is asked for of a group, in the flavors that are accepted."""
    amounts = {at: int(ask[at]) for at in group.resources if ask[at] > 0}
    return Request(amounts, frozenset(accepted))


def asked_groups(offer: Offer, ask: Amounts) -> list[Group]:
    """Return the groups of which something is asked for."""
    return [group for group in offer.groups if any(ask[at] > 0 for at in group.resources)]


def by_resource(offer: Offer, ask: Amounts, chosen: Combination) -> dict[int, int]:
    """Return the flavor of each resource that is asked for."""
    groups = zip(asked_groups(offer, ask), chosen.flavors, strict=True)
    return {at: flavor for group, flavor in groups for at in group.resources if ask[at] > 0}


def runs_in(session: Session, table: Table, job: int, offer: Offer, group: Group) -> int:
    """Return the flavor of the nodes where pods of a job are active, -1 for none."""
    rows = np.array(session.jobs.tasks[job], np.int64)
    nodes = session.node_of_task_now[rows]
    nodes = nodes[ACTIVE_STATES[session.state_now[rows]] & (nodes >= 0)]
    found = table.nodes(session).flavor_of(offer, group)[nodes]
    found = found[found >= 0]
    return int(found[0]) if found.size else -1
