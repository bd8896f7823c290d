"""GPUs that pods share: their table, the order in which they are filled, and what shares count.

Until a pod that asks for memory of a GPU has a node, it counts in its queue by the smallest GPU of
the cluster. On a node it counts by the GPU of that node, which is never more (rule V2). A part
counts at least so much of each GPU as a shard says: however thin, it keeps the GPU from whole pods.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from kaisched.core.axis import GPU, record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaisched.core.axis import Amounts, BoolVec, IntVec, ResourceAxis, RowVec
    from kaisched.core.tables import JobTable, NodeTable, ShapeTable, TaskTable


CARD: Final = 1_000_000
"""Millionths: a fraction of a card is a whole number of them."""
THOUSANDTH: Final = CARD // 1000
LEAST_SHARE: Final = 50
"""Thousandths of a GPU that a part counts at least in its queue, unless a shard says otherwise."""


class DeviceDemand(NamedTuple):
    """A pod's demand on GPUs besides whole GPUs and MIG instances, which are resources."""

    fraction: int = 0
    """Millionths of each card, rounded up; 0 for a pod that asks for memory, or for no share."""
    memory_mib: int = 0
    """MiB of each card; 0 for a pod that asks for a fraction, or for no share."""
    cards: int = 1
    """Different cards of one node that the pod has a share of."""
    is_reservation: bool = False
    """The pod holds a card for the pods of its group, and no part of the card."""
    legacy_slices: int = 0
    """MIG slices that a running pod has taken by annotation, unseen by the device plugin."""
    least: int = LEAST_SHARE
    """Thousandths of a GPU that its part of each card counts at least in its queue."""

    @property
    def is_share(self) -> bool:
        """Whether the pod asks for a part of a card."""
        return bool(self.fraction or self.memory_mib)

    @property
    def has_cards(self) -> bool:
        """Whether the pod is on open cards."""
        return self.is_share or self.is_reservation

    def take(self, card_mib: int) -> int:
        """Return what it takes of a card of so many MiB, in millionths of a MiB (rule V6)."""
        return self.fraction * card_mib or self.memory_mib * CARD

    def least_milli(self, largest_mib: int) -> int:
        """Return the thousandths of a GPU that it counts in the amounts of its node, rounded down.

        ``largest_mib`` is the size of the largest card, so that amounts never refuse what a card
        has room for.
        """
        part = self.fraction
        if self.memory_mib and largest_mib:
            part = min(self.memory_mib * CARD // largest_mib, CARD)
        return max(part // THOUSANDTH, 1) * self.cards if self.is_share else 0

    def milli_gpus(self, card_mib: int) -> int:
        """Return the thousandths of a GPU that it counts in its queue (rule V2).

        ``card_mib`` is the size of a card; 0, when no size is known, counts memory as nothing.
        """
        part = self.fraction
        if self.memory_mib:
            part = min(self.memory_mib * CARD // card_mib, CARD) if card_mib else 0
            if not part:
                return 0
        milli = max((part + THOUSANDTH // 2) // THOUSANDTH, 1, self.least)
        return milli * self.cards if part else 0


class ShareSpread(NamedTuple):
    """Over what shares are spread; else they are packed (rule V8)."""

    nodes: bool = False
    """Scores alone choose the node; else a node with an open card that fits comes first."""
    cards: bool = False
    """On its node a share opens a card if it can; else an open card that fits comes first."""


class PromisedCards(NamedTuple):
    """The cards of a promise, on the node that is promised."""

    opened: tuple[int, ...] = ()
    """Slots of cards that are open and stay so."""
    later: tuple[int, ...] = ()
    """Numbers of cards that will be whole: promises with the same number share a card."""


@record
class CardTable:
    """The open cards: GPUs that pods share. Columns ``(N,)`` or ``(N, G)``, by node and slot.

    A slot is a name for a card, not the index of hardware; closed slots hold no task.
    """

    cards: IntVec
    """``(N,)`` GPUs of each node that pods may share."""
    size: IntVec
    """``(N,)`` millionths of a MiB of each card; of a MiB in all where its memory is unknown."""
    used: Amounts
    """``(N, G)`` what tasks hold of each card, leaving tasks included."""
    leaving: Amounts
    """``(N, G)`` the part of it that leaving tasks will release."""
    tasks: Amounts
    """``(N, G)`` how many tasks hold a part of each card."""
    slots_of_task: Mapping[int, tuple[int, ...]]
    """The slots of each task that holds a share, on its node."""
    group_of_slot: Mapping[tuple[int, int], str]
    """The group of each open card, by node row and slot."""
    milli: IntVec
    """``(N,)`` thousandths of GPUs that tasks with shares take in the amounts of their node."""
    milli_leaving: IntVec
    """``(N,)`` the part of it that is leaving."""
    is_closed: BoolVec
    """``(N, G)`` cards that take no more shares: nothing holds them, or not for long."""
    is_blind: BoolVec
    """``(N,)`` nodes with a GPU in use that nothing holds: whole GPUs are given out by the device
    plugin, which may give this one."""
    is_reserved: BoolVec
    """``(N, G)`` cards that a reservation pod holds or is about to: it leaves once nothing uses its
    card."""
    awaited: IntVec
    """``(N,)`` how many reservation pods are about to be there: each will take a pod slot."""


def changed_cards(old: CardTable | None, new: CardTable | None) -> BoolVec | slice:
    """Return the rows of the nodes whose cards differ; all of them without one of the tables."""
    if old is None or new is None or old.used.shape != new.used.shape:
        return slice(None)
    changed: BoolVec = (old.cards != new.cards) | (old.size != new.size)
    changed |= old.is_blind != new.is_blind
    for name in ("used", "leaving", "tasks", "is_closed", "is_reserved"):
        changed |= (getattr(old, name) != getattr(new, name)).any(axis=1)
    for name in ("milli", "milli_leaving", "awaited"):
        changed |= getattr(old, name) != getattr(new, name)
    return changed


def with_nodes_like(
    table: CardTable, like: int, milli_gpus: int, count: int, *, may_share: bool
) -> CardTable:
    """Return the table with more empty nodes, whose cards are like those of a node."""
    cards = milli_gpus // 1000 if may_share else 0
    wide, pair = ((0, count), (0, 0)), (0, count)
    return replace(
        table,
        cards=np.append(table.cards, [cards] * count),
        size=np.append(table.size, [table.size[like]] * count),
        used=np.pad(table.used, wide),
        leaving=np.pad(table.leaving, wide),
        tasks=np.pad(table.tasks, wide),
        milli=np.pad(table.milli, pair),
        milli_leaving=np.pad(table.milli_leaving, pair),
        is_closed=np.pad(table.is_closed, wide),
        is_blind=np.pad(table.is_blind, pair),
        is_reserved=np.pad(table.is_reserved, wide),
        awaited=np.pad(table.awaited, pair),
    )


# -- the order in which GPUs are filled ------------------------------------------------------------

_MOST_PODS: Final = 1024
"""No node takes more pods than this."""


def card_order(
    left: list[int], tasks: list[int], take: int, count: int, whole: int | None = None
) -> tuple[list[int], list[int]]:
    """Choose open cards for a task and closed slots for the rest of its cards (rule V8).

    ``left`` is what each open card has left, -1 for a card that may take nothing; ``tasks`` is 0
    for a closed slot. Slots beyond the lists are closed. Shares are packed, or spread if
    ``whole`` says how many cards can be opened.
    """
    fits = [
        (rest if whole is None else -rest, tasks[slot], slot)
        for slot, rest in enumerate(left)
        if rest >= take
    ]
    chosen = [slot for _, _, slot in sorted(fits)[: count - min(whole or 0, count)]]
    if len(chosen) == count:
        return chosen, []
    closed = [slot for slot, number in enumerate(tasks) if not number]
    closed += range(len(tasks), len(tasks) + count)
    return chosen, closed[: count - len(chosen)]


def promised_order(
    left: tuple[list[int], list[int]],
    tasks: tuple[list[int], list[int]],
    take: int,
    count: int,
    whole: int | None = None,
) -> PromisedCards:
    """Choose cards for a promise: open ones, and cards that will be whole, by number.

    ``left`` and ``tasks`` are of open cards and of promised cards that will be whole, as for
    :func:`card_order`. Packed, open cards come first; spread, cards that nobody is promised.
    """
    if whole is None:
        opened, _ = card_order(left[0], tasks[0], take, count)
        if len(opened) == count:
            return PromisedCards(tuple(opened))
        later, closed = card_order(left[1], tasks[1], take, count - len(opened))
        return PromisedCards(tuple(opened), (*later, *closed))
    width = len(left[0])
    chosen, _ = card_order([*left[0], *left[1]], [*tasks[0], *tasks[1]], take, count, whole)
    _, closed = card_order([], tasks[1], take, count - len(chosen))
    later = [slot - width for slot in chosen if slot >= width]
    return PromisedCards(tuple(slot for slot in chosen if slot < width), (*later, *closed))


def pods_left(left: list[int], take: int) -> int:
    """Return how many pods fit that take a share of one open card each."""
    return sum([rest // take for rest in left if rest >= take])


def place(
    left: list[int], tasks: list[int], size: int, take: int, count: int, whole: int | None = None
) -> int:
    """Put a pod on the cards that :func:`card_order` chooses, and return how many it opens.

    The lists are changed. ``size`` is what a new card has.
    """
    chosen, closed = card_order(left, tasks, take, count, whole)
    for slot in chosen:
        left[slot] -= take
        tasks[slot] += 1
    for slot in closed:
        if slot == len(tasks):
            left.append(size - take)
            tasks.append(1)
        else:
            left[slot], tasks[slot] = size - take, 1
    return len(closed)


def pods_on_several(
    pools: list[list[int]],
    whole: int,
    size: int,
    take: int,
    asked: tuple[int, int],
    *,
    is_spread: bool = False,
) -> int:
    """Return how many pods fit that take a share of several cards each, chosen one by one.

    ``asked`` is how many cards each takes a share of, and the pod slots that are free.
    Packed, the cards of the first pool come first, and each pod takes the least that is left;
    spread, it opens cards as long as there are some, and takes the most that is left. A pod takes
    a slot, and each card that it opens another.
    """
    cards, slots = asked
    if is_spread:
        pools = [[left for pool in pools for left in pool]]
    pods = 0
    while pods < _MOST_PODS and slots > 0:
        can_open = min(whole, slots - 1)
        lacking, opens = cards, min(can_open, cards) if is_spread else 0
        for pool in pools:
            fits = sorted(
                (-left if is_spread else left, at) for at, left in enumerate(pool) if left >= take
            )[: lacking - opens]
            for _, at in fits:
                pool[at] -= take
            lacking -= len(fits)
        if lacking > can_open or (lacking and take > size):
            return pods
        whole -= lacking
        slots -= 1 + lacking
        pools[-1].extend([size - take] * lacking)
        pods += 1
    return pods


# -- what shares count in queues -------------------------------------------------------------------


@record
class MemoryCharges:
    """What shapes that ask for memory count by cards of different sizes. Columns ``(S,)``."""

    memory_mib: IntVec
    """MiB of each card; 0 for a shape that asks for no memory."""
    cards: IntVec
    """How many cards."""
    least: IntVec
    """Thousandths of a GPU that a part of a card counts at least."""
    least_mib: int
    """The smallest card of the cluster."""
    most_mib: int
    """The largest one."""

    def saved(self, shape: RowVec, size: IntVec | int) -> IntVec:
        """``(K,)`` thousandths of a GPU that shapes count less than by the smallest card.

        ``size`` has the MiB of their cards. One that is unknown counts as the smallest.
        """
        memory, cards = self.memory_mib.take(shape), self.cards.take(shape)
        least = self.least.take(shape)
        size = np.minimum(np.maximum(size, self.least_mib), self.most_mib)
        return (_milli(memory, self.least_mib, least) - _milli(memory, size, least)) * cards

    def like(self, shapes: RowVec) -> MemoryCharges:
        """Return the columns of these shapes."""
        columns = self.memory_mib.take(shapes), self.cards.take(shapes), self.least.take(shapes)
        return MemoryCharges(*columns, self.least_mib, self.most_mib)


def memory_charges(
    demands: Iterable[DeviceDemand | None], least_mib: int, most_mib: int
) -> MemoryCharges:
    """Return what shapes with these demands count."""
    of_shape = [(0, 1, 0) if it is None else (it.memory_mib, it.cards, it.least) for it in demands]
    memory, cards, least = np.array(of_shape, np.int64).reshape(-1, 3).T
    return MemoryCharges(memory, cards, least, least_mib, most_mib)


def _milli(memory_mib: IntVec, card_mib: IntVec | int, least: IntVec) -> IntVec:
    """``(K,)`` what :meth:`DeviceDemand.milli_gpus` says of one card, for many at once."""
    part = np.minimum(memory_mib * CARD // card_mib, CARD)
    nearest = np.maximum((part + THOUSANDTH // 2) // THOUSANDTH, 1)
    counted: IntVec = np.maximum(nearest, least) * (part > 0)
    return counted


class World(Protocol):
    """Where tasks are, and whose they are: a snapshot or a session."""

    @property
    def axis(self) -> ResourceAxis:
        """The resources by row."""
        ...

    @property
    def jobs(self) -> JobTable:
        """Jobs by row."""
        ...

    @property
    def nodes(self) -> NodeTable:
        """Nodes by row."""
        ...

    @property
    def tasks(self) -> TaskTable:
        """Tasks by row, as the cycle began."""
        ...

    @property
    def shapes(self) -> ShapeTable:
        """Shapes by row."""
        ...


def charges(world: World, tasks: RowVec | list[int], nodes: RowVec | None = None) -> Amounts:
    """``(R, K)`` what tasks count in their queues, where they are or on other ``nodes``."""
    tasks = np.asarray(tasks, np.int64)
    shape = world.tasks.shape_of_task.take(tasks)
    each: Amounts = world.shapes.charge.take(shape, axis=1)
    by_card = world.shapes.by_card
    if by_card is not None:
        nodes = world.tasks.node_of_task.take(tasks) if nodes is None else nodes
        each[GPU] -= by_card.saved(shape, card_mib(world.nodes, nodes))
    return each


def gpus_of(world: World, tasks: list[int]) -> int:
    """Return the thousandths of GPUs that tasks count where they are."""
    if world.shapes.by_card is not None:
        return int(charges(world, tasks)[GPU].sum())
    return int(world.shapes.charge[GPU].take(world.tasks.shape_of_task[tasks]).sum())


def card_mib(table: NodeTable, nodes: RowVec) -> IntVec:
    """``(K,)`` MiB of each card of nodes; 0 for no node."""
    if table.cards is None:
        return np.zeros(len(nodes), np.int64)
    size: IntVec = np.append(table.cards.size, 0)[nodes] // CARD
    return size


def least_charges(shapes: ShapeTable) -> Amounts:
    """``(R, S)`` the least that shapes count on any node: on the largest card of the cluster."""
    if shapes.by_card is None:
        return shapes.charge
    least = shapes.charge.copy()
    every = np.arange(least.shape[1])
    least[GPU] -= shapes.by_card.saved(every, shapes.by_card.most_mib)
    return least
