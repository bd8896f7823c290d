"""Which pods to move off the shared GPUs of a node so that one more pod of a shape fits there.

Parts of two cards are no whole card, so amounts do not say who has to move: the pods of one card
do, or enough of them. What the pod asks for besides GPUs is not looked at here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaisched.core.axis import GPU, GPU_UNIT

if TYPE_CHECKING:
    from kaisched.actions.room.items import Item
    from kaisched.framework.session.session import Session

    Items = tuple[Item, ...]
    Parts = dict[int, int]

_NOTHING: tuple[Items, ...] = ((),)


class _Group(NamedTuple):
    """Items without which whole GPUs are free."""

    gpus: int
    items: Items


def choices_by_card(
    session: Session, node: int, shape: int, room: int, items: list[Item]
) -> tuple[Items, ...] | None:
    """Return choices of items without which one more pod than ``room`` fits, as far as cards say.

    None where cards say nothing: the pod asks for no GPU, or no pods share one on the node. One
    choice of no items says that cards have room enough.
    """
    cards = session.capacity.cards
    if cards is None or not cards.counts_for(shape):
        return None
    left, kept = cards.left_and_kept(node)
    if not any(kept):
        return None
    parts = [_parts_of(session, node, item) for item in items]
    groups = _groups(items, parts, kept)
    whole = session.capacity.whole_gpus(node)
    demand = cards.demand_of(shape)
    if demand is None:
        asked = int(session.shapes.request[GPU, shape]) * (room + 1)
        return _emptied(groups, asked // GPU_UNIT - whole)
    take, of_new_card = cards.take_of(shape, node)
    if demand.cards == 1:
        if sum(max(it, 0) // take for it in left) + whole * of_new_card > room:
            return _NOTHING
        some = [_fewest(items, parts, slot, take - it % take) for slot, it in _open(left)]
        return (*(it for it in some if it), *_emptied(groups, 1))
    lack = demand.cards - sum(it >= take for it in left) - whole
    some = [_fewest(items, parts, slot, take - it) for slot, it in _open(left) if it < take]
    return (*_together([it for it in some if it], lack), *_emptied(groups, lack))


def _open(left: list[int]) -> list[tuple[int, int]]:
    return [(slot, it) for slot, it in enumerate(left) if it >= 0]


def _parts_of(session: Session, node: int, item: Item) -> Parts:
    """Return what the pods of an item hold of the shared GPUs of a node, by slot."""
    cards, tasks = session.capacity.cards, session.tasks
    assert cards is not None
    held: Parts = {}
    for task in item.unit.tasks:
        if session.ledger.node_of_task[task] == node:
            for slot, part in cards.parts_of(task, node, int(tasks.shape_of_task[task])).items():
                held[slot] = held.get(slot, 0) + part
    return held


def _groups(items: list[Item], parts: list[Parts], kept: list[int]) -> list[_Group]:
    """Return what empties whole GPUs: all items of a shared one, or an item that holds whole ones.

    ``kept`` is what stays on each card. A card of which a pod must not move is never empty.
    """
    on_slot: dict[int, list[int]] = {}
    for at, held in enumerate(parts):
        for slot in held:
            on_slot.setdefault(slot, []).append(at)
    emptied = {
        slot: frozenset(some)
        for slot, some in on_slot.items()
        if sum(parts[at][slot] for at in some) == kept[slot]
    }
    groups = [
        _Group(sum(other <= some for other in emptied.values()), tuple(items[at] for at in some))
        for some in dict.fromkeys(emptied.values())
    ]
    for item, held in zip(items, parts, strict=True):
        if not held and item.amounts[GPU] >= GPU_UNIT:
            groups.append(_Group(item.amounts[GPU] // GPU_UNIT, (item,)))
    return groups


def _emptied(groups: list[_Group], lack: int) -> tuple[Items, ...]:
    """Return choices that empty enough whole GPUs.

    For one GPU these are all there are: the pods of the cheapest may find no new place. For several
    it is the one with the fewest pods, for each number of GPUs.
    """
    if lack <= 0:
        return _NOTHING
    if lack == 1:
        return tuple(items for gpus, items in groups if gpus)
    best: dict[int, Items] = {0: ()}
    for gpus, items in groups:
        for number, chosen in list(best.items()):
            if number >= lack:
                continue
            more = (*chosen, *(item for item in items if item not in chosen))
            known = best.get(number + gpus)
            if known is None or _pods(more) < _pods(known):
                best[number + gpus] = more
    return tuple(items for number, items in best.items() if number >= lack)


def _fewest(items: list[Item], parts: list[Parts], slot: int, lack: int) -> Items:
    """Return the fewest items of a card that leave so much of it; none if all are not enough."""
    here = sorted(
        ((held[slot], at) for at, held in enumerate(parts) if held.get(slot)),
        key=lambda part: (-part[0], part[1]),
    )
    if sum(part for part, _ in here) < lack:
        return ()
    chosen: list[int] = []
    while lack > 0:
        enough = [(part, -at) for part, at in here if part >= lack and at not in chosen]
        part, at = min(enough) if enough else (here[len(chosen)][0], -here[len(chosen)][1])
        chosen.append(-at)
        lack -= part
    return tuple(items[at] for at in chosen)


def _together(some: list[Items], lack: int) -> tuple[Items, ...]:
    """Return the cheapest choices together, one for each card that is lacking."""
    if lack <= 0:
        return _NOTHING
    if len(some) < lack:
        return ()
    together: Items = ()
    for items in sorted(some, key=_pods)[:lack]:
        together = (*together, *(item for item in items if item not in together))
    return (together,)


def _pods(items: Items) -> int:
    return sum(len(item.unit.tasks) for item in items)
