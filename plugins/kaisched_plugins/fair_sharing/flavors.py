"""Which flavor work gets: the first of its queue's list that fits, else the best that could fit.

Rules F27 to F29 of docs/explanation/fair-sharing.md. Quotas have a row for each pair of a flavor
and a resource. Resources of one group get the same flavor.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from kaisched_plugins.fair_sharing.classical.levels import level_at
from kaisched_plugins.fair_sharing.holdings import Holdings


class Mode(IntEnum):
    """How a flavor could be had, the worst first."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    """Evictions would be allowed, but no work may be evicted."""
    PREEMPT = 2
    """After evictions in the own queue."""
    RECLAIM = 3
    """After evictions in other queues."""
    FIT = 4


class Way(NamedTuple):
    """How a flavor could be had, and how far up the tree its quota comes from."""

    mode: Mode
    level: int
    """Height of the lowest queue within which the request fits; 0 for the leaf: it borrows
    nothing."""


BEST: Final = Way(Mode.FIT, 0)
WORST: Final = Way(Mode.NO_FIT, 1 << 30)


class Hindrance(IntEnum):
    """Why a flavor does not fit, the mildest first."""

    NOTHING = 0
    WAITING = 1
    """Other work holds the quota."""
    TOO_LARGE = 2
    """The request is larger than all that its queue could ever have."""
    NO_MATCH = 3
    """The pods accept no node of the flavor, or the queue does not offer it."""


@dataclass(frozen=True, slots=True)
class Fungibility:
    """When the search goes on to the next flavor of the list, and which is the best of them."""

    stops_to_borrow: bool = True
    """``whenCanBorrow: MayStopSearch``: a flavor that fits by borrowing is taken."""
    stops_to_preempt: bool = False
    """``whenCanPreempt: MayStopSearch``: a flavor that fits after evictions is taken."""
    prefers_preemption: bool = False
    """``preference: PreemptionOverBorrowing``: the lower level counts first, then the mode."""

    @property
    def may_wait(self) -> bool:
        """Whether work may wait for evictions in a flavor while another fits."""
        return self.stops_to_preempt or self.prefers_preemption


def is_preferred(one: Way, other: Way, rules: Fungibility) -> bool:
    """Tell whether the first way is strictly better."""
    if Mode.NO_FIT in (one.mode, other.mode):
        return one.mode != Mode.NO_FIT and other.mode == Mode.NO_FIT
    if (one.mode == Mode.NO_CANDIDATES) != (other.mode == Mode.NO_CANDIDATES):
        return other.mode == Mode.NO_CANDIDATES
    if rules.prefers_preemption:
        return (one.level, -one.mode) < (other.level, -other.mode)
    return (-one.mode, one.level) < (-other.mode, other.level)


def is_taken(way: Way, rules: Fungibility) -> bool:
    """Tell whether the search ends at a flavor that could be had in this way."""
    if way.mode <= Mode.NO_CANDIDATES:
        return False
    if way.mode != Mode.FIT and not rules.stops_to_preempt:
        return False
    return way.level == 0 or rules.stops_to_borrow


class Group(NamedTuple):
    """Resources that get the same flavor, and the flavors that a queue offers for them."""

    resources: Collection[int]
    flavors: Sequence[int]
    """In the order in which they are tried."""


class Held(NamedTuple):
    """What an earlier, smaller size of the same work holds of a resource: it stays there."""

    flavor: int
    amount: int


@dataclass(frozen=True, slots=True)
class Request:
    """What pods ask for that get their flavors together."""

    amounts: Mapping[int, int]
    """By resource."""
    accepts: Collection[int] | None = None
    """The flavors whose nodes the pods accept; None for all."""
    held: Mapping[int, Held] = field(default_factory=dict)
    """By resource."""
    start: int = 0
    """The place in each list of flavors at which the search begins."""


class Assigned(NamedTuple):
    """The flavor that a resource gets."""

    flavor: int
    way: Way
    tried: int
    """The place of the last flavor that was tried; -1 for the last of the list."""


class Attempt(NamedTuple):
    """A flavor that was tried for the resources of a group."""

    group: int
    """-1 for a resource of no group."""
    flavor: int
    way: Way
    hindrance: Hindrance


class Chosen(NamedTuple):
    """The flavors of a request by resource; none if some resource got no flavor."""

    flavors: Mapping[int, Assigned]
    attempts: Sequence[Attempt]

    @property
    def mode(self) -> Mode:
        """The worst mode of all its resources; FIT if nothing is asked for."""
        if self.attempts and not self.flavors:
            return Mode.NO_FIT
        return min((each.way.mode for each in self.flavors.values()), default=Mode.FIT)

    @property
    def hindrance(self) -> Hindrance:
        """The worst hindrance of all groups; of each group's flavors the mildest counts."""
        if self.flavors:
            return Hindrance.NOTHING
        mildest: dict[int, Hindrance] = {}
        for each in self.attempts:
            if each.way.mode == Mode.NO_FIT:
                known = mildest.get(each.group, each.hindrance)
                mildest[each.group] = min(known, each.hindrance)
        return max(mildest.values(), default=Hindrance.NO_MATCH)


Oracle: TypeAlias = Callable[[int, int], Way]
"""Tells for a row and an amount how it could be had by evictions."""
Found: TypeAlias = tuple[dict[int, Assigned], list[Attempt]]


class Chooser:
    """Chooses flavors for the work of one queue."""

    def __init__(
        self,
        holdings: Holdings,
        queue: int,
        groups: Sequence[Group],
        pair: Mapping[tuple[int, int], int],
        rules: Fungibility,
        oracle: Oracle,
        *,
        may_borrow_after_evictions: bool,
    ) -> None:
        """Take what the queue offers; ``pair`` has the row of each flavor and resource."""
        self._holdings = holdings
        self._queue = queue
        self._groups = groups
        self._pair = pair
        self._rules = rules
        self._oracle = oracle
        self._may_borrow_after_evictions = may_borrow_after_evictions

    def choose(self, requests: Sequence[Request]) -> tuple[list[Chosen], dict[int, int]]:
        """Return the flavors of each request, and what they come to by row.

        Each request sees what those before it have got. The first that gets no flavor is the last.
        """
        usage: dict[int, int] = {}
        done: list[Chosen] = []
        for request in requests:
            chosen = self.choose_one(request, usage)
            done.append(chosen)
            if chosen.mode == Mode.NO_FIT:
                break
            for resource, amount in request.amounts.items():
                if resource in chosen.flavors:
                    at = self._pair[chosen.flavors[resource].flavor, resource]
                    usage[at] = usage.get(at, 0) + amount - _held(request, resource)
        return done, usage

    def choose_one(self, request: Request, usage: Mapping[int, int]) -> Chosen:
        """Return the flavors of one request; ``usage`` counts as held besides."""
        flavors: dict[int, Assigned] = {}
        attempts: list[Attempt] = []
        for resource, amount in request.amounts.items():
            if resource in flavors:
                continue
            number = self._group_of(resource)
            if number < 0:
                if not amount:
                    continue
                return Chosen({}, [*attempts, Attempt(-1, -1, WORST, Hindrance.NO_MATCH)])
            found, tried = self._find(number, request, usage)
            attempts += tried
            if not found:
                return Chosen({}, attempts)
            flavors.update(found)
        return Chosen(flavors, attempts)

    def _group_of(self, resource: int) -> int:
        groups = enumerate(self._groups)
        return next((at for at, group in groups if resource in group.resources), -1)

    def _find(self, number: int, request: Request, usage: Mapping[int, int]) -> Found:
        """Return the flavor for all resources of a group that are asked for."""
        group, last = self._groups[number], -1
        best: dict[int, tuple[int, Way]] = {}
        best_way = WORST
        attempts: list[Attempt] = []
        for last in range(request.start, len(group.flavors)):
            flavor = group.flavors[last]
            if request.accepts is not None and flavor not in request.accepts:
                attempts.append(Attempt(number, flavor, WORST, Hindrance.NO_MATCH))
                continue
            way, ways, hindrance = self._ways(group, flavor, request, usage)
            attempts.append(Attempt(number, flavor, way, hindrance))
            is_last = is_taken(way, self._rules)
            if is_last or is_preferred(way, best_way, self._rules):
                best_way = way
                best = {resource: (flavor, each) for resource, each in ways.items()}
            if is_last:
                break
        tried = -1 if last == len(group.flavors) - 1 else last
        return {at: Assigned(*each, tried) for at, each in best.items()}, attempts

    def _ways(
        self, group: Group, flavor: int, request: Request, usage: Mapping[int, int]
    ) -> tuple[Way, dict[int, Way], Hindrance]:
        """Return how a flavor could be had, all in all and by resource, and what is in the way."""
        worst, hindrance = BEST, Hindrance.NOTHING
        ways: dict[int, Way] = {}
        for resource, amount in request.amounts.items():
            if resource not in group.resources:
                continue
            held = request.held.get(resource)
            if held is not None and held.flavor != flavor:
                worst, hindrance = WORST, Hindrance.NO_MATCH
                continue
            at = self._pair[flavor, resource]
            more = amount - _held(request, resource)
            way, why = self._way(at, usage.get(at, 0) + more)
            ways[resource] = way
            hindrance = max(hindrance, why)
            if is_preferred(worst, way, self._rules):
                worst = way
        return worst, ways, hindrance

    def _way(self, at: int, amount: int) -> tuple[Way, Hindrance]:
        """Return how so much of a row could be had."""
        holdings, queue = self._holdings, self._queue
        if amount > holdings.rows.potential[queue][at]:
            return Way(Mode.NO_FIT, 0), Hindrance.TOO_LARGE
        level, is_inside = level_at(holdings, queue, at, amount)
        if amount <= max(0, holdings.available(queue, at)):
            return Way(Mode.FIT, level), Hindrance.NOTHING
        is_own = amount <= holdings.rows.nominal[queue][at]
        if is_own or is_inside or self._may_borrow_after_evictions:
            return self._oracle(at, amount), Hindrance.NOTHING
        return Way(Mode.NO_FIT, level), Hindrance.WAITING


def _held(request: Request, resource: int) -> int:
    held = request.held.get(resource)
    return held.amount if held is not None else 0
