"""Which cards a share gets on its node: lists in, lists out; no state."""

from __future__ import annotations

from typing import Final

from kaisched.core.devices import PromisedCards

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
