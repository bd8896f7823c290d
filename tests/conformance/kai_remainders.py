"""KAI's own rule of division, played through to see whether its remainders do what ours never do.

Two things can happen there: the units that rounding left over at one priority go to a lower one
before the queues they were cut from are served, and a queue is rounded up above what it asked for.
No history (k = 0), one resource, in its whole units. Recognises cases, and decides none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tests.conformance.amounts import exact

UNLIMITED = -1


@dataclass
class _Queue:
    id: str
    priority: int
    created: float
    weight: Fraction
    requestable: Fraction
    share: Fraction
    remainder: Fraction = Fraction(0)

    @property
    def wants(self) -> Fraction:
        return self.requestable - self.share


@dataclass
class Played:
    """What the rule gives, and what happened on the way."""

    share: dict[str, Fraction] = field(default_factory=dict)
    leaks_to_lower_priority: bool = False
    exceeds_request: bool = False


def play(
    amount: Fraction, siblings: Sequence[Mapping[str, Any]], resource: str, phase: str
) -> Played:
    """Divide among siblings; ``phase`` is a ``fair_share`` case's function."""
    queues = [_queue(queue, queue[resource], amount) for queue in siblings]
    left = amount
    if phase == "over_quota_only":
        for queue, given in zip(queues, siblings, strict=True):
            queue.share = exact(given[resource]["fair_share"])
    else:
        left = max(Fraction(0), amount - sum(queue.share for queue in queues))
    played = Played()
    has_remainder = False
    for priority in sorted({queue.priority for queue in queues}, reverse=True):
        level = [queue for queue in queues if queue.priority == priority]
        before = left
        left = _rounds(level, left)
        played.leaks_to_lower_priority |= has_remainder and left < before
        has_remainder |= left > 0 and any(queue.remainder for queue in level)
    order = sorted(
        (queue for queue in queues if queue.remainder),
        key=lambda queue: (-queue.priority, -queue.remainder, queue.created, queue.id),
    )
    for queue in order:
        given = min(Fraction(1), left)
        played.exceeds_request |= given > queue.wants
        queue.share += given
        left -= given
    played.share = {queue.id: queue.share for queue in queues}
    return played


def _queue(queue: Mapping[str, Any], share: Mapping[str, Any], amount: Fraction) -> _Queue:
    request, limit = exact(share["request"]), exact(share["max_allowed"])
    requestable = request if limit == UNLIMITED else min(request, limit)
    deserved = amount if share["deserved"] == UNLIMITED else exact(share["deserved"])
    return _Queue(
        queue["id"],
        queue.get("priority") or 0,
        queue.get("created_order") or 0,
        max(Fraction(0), exact(share["over_quota_weight"])),
        requestable,
        min(deserved, requestable),
    )


def _rounds(level: Iterable[_Queue], left: Fraction) -> Fraction:
    """Share what is left among the queues of one priority; return what remains."""
    goes_on = True
    while goes_on and left > 0:
        active = [queue for queue in level if queue.wants > 0 and queue.weight > 0]
        total = sum(queue.weight for queue in active)
        start, goes_on = left, False
        for queue in active:
            part = start * queue.weight / total
            goes_on |= queue.wants < part
            is_full = queue.wants <= part
            given = queue.wants if is_full else Fraction(math.floor(part))
            queue.remainder = Fraction(0) if is_full else part - given
            queue.share += given
            left -= given
    return left


def play_case(case: Mapping[str, Any]) -> list[Played]:
    """Play every division of a fair-share case, down the tree where it has one."""
    asked = case["input"]
    if case["kind"] == "fair_share":
        return [
            play(exact(amount), asked["queues"], name, case["function"])
            for name, amount in asked["total"].items()
        ]
    found = []
    amounts: dict[str | None, Fraction] = {None: exact(asked["total"]["gpu"])}
    while amounts:
        below: dict[str | None, Fraction] = {}
        for parent, amount in amounts.items():
            siblings = [queue for queue in asked["queues"] if queue["parent"] == parent]
            if siblings:
                found.append(play(amount, siblings, "gpu", "deserved_then_over_quota"))
                below.update(found[-1].share)
        amounts = below
    return found
