"""The victim search: which running units leave, or move, so that a waiting job fits.

A *place* is where room is made: a node, a few nodes, or the whole cluster. On a place the sets of
units are looked at in the order of what they cost, the cheapest first. A set is taken if the job
then fits, which amounts and cards tell quickly and placing it tells for sure, and if disruption
budgets and plugins allow the whole set. Of many units on a place all that may go are taken, and
each is kept again, the most important first, as long as the job fits. A gang adds up places.

Every search is bounded. The bounds count steps, never seconds.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kaisched.actions.eviction.demand import Demand, Need, Plan, gets_too_much
from kaisched.actions.eviction.victims import PROTECTED, as_units
from kaisched.actions.order.gates import first_shut
from kaisched.actions.room.future import Future
from kaisched.actions.room.placing import has_parts, is_spread, is_tight, least_ask, place_waiting
from kaisched.core.axis import GPU, GPU_UNIT
from kaisched.core.refusals import Refusal, text_of
from kaisched.framework.session.capacity import HUGE
from kaisched.framework.session.node_sets import NodeSet

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from kaisched.actions.eviction.victims import VictimList
    from kaisched.core.axis import Amounts, BoolVec, CodeVec, FloatVec, IntVec, RowVec
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.statement import Statement
    from kaisched.framework.session.units import Claim, Unit

    Settle = Callable[[Statement, list[Unit], Collection[int], bool], list[Unit]]
    """Finds new places for evicted units, on other nodes than some, or lets them stay where they
    may; returns those without a place."""

Cost = tuple[float, ...]
"""What a set costs, the less the better: see :func:`_Attempt._costs`."""

EVERY_SET: Final = 12
"""Of up to so many units every set is looked at: 4,096 sets."""
_FILLED: Final = 8
"""The units of a node that move are filled up to so many with others that may go: 256 sets."""
NODES: Final = 16
"""The sets of so many nodes are compared at a time, the nodes with the least to lose first ..."""
MOST_NODES: Final = 128
"""... and those of at most so many nodes are looked at."""
_ASKED: Final = (1, 8, 32, 128, 512, 2048, 4096)
"""So many sets are judged in the first question, the second ..., of all places together."""
STEPS: Final = 1024
"""What one search may spend ..."""
_PLACING: Final = 16
_PLACING_FEW: Final = 4
"""... on placing its job in a statement; less where every set is looked at."""
_GATES: Final = 1
"""... and where the gates of its queues, or a count, end an attempt before that."""
PASSES: Final = 4
"""At most so many passes: a victim that plugins refuse in each of them is refused for good."""
_MANY: Final = 4
"""More equal pods than this are placed together."""
_TRIES: Final = 8
"""So many sets are tried for one pod of a gang."""
_AGAIN: Final = 8
"""So often units that may not go along are left out of many."""
_JUDGED: Final = 128
"""Of so many units the refusals are counted for the reason of a search without a plan."""
_HERE: Final = "the node that units leave"
OVER_SHARE: Final = int(Refusal.DEVICES_OVER_SHARE)


class Search:
    """Searches victims for the waiting jobs of one action in one cycle."""

    def __init__(self, session: Session) -> None:
        """Start without any computed room."""
        self._session = session
        self._futures: dict[tuple[object, int], Future] = {}

    def future(self, shape: int) -> Future:
        """Return the room of a shape once all releasing pods are gone, as of now."""
        nodes = self._session.placement.nodes
        key = None if nodes is None else nodes.key, shape
        future = self._futures.get(key)
        if future is None or not future.is_current:
            future = self._futures[key] = Future(self._session, shape)
        else:
            future.catch_up()
        return future

    def demand(self, claim: Claim, tasks: RowVec) -> Demand:
        """Count the pods of a claim by shape."""
        shapes: dict[int, int] = {}
        for shape in self._session.tasks.shape_of_task[tasks].tolist():
            shapes[shape] = shapes.get(shape, 0) + 1
        return Demand(claim, tasks, list(shapes.items()))

    def lacks_one(self, demand: Demand) -> bool:
        """Tell whether a claim of equal pods lacks room for just one of them."""
        shape, count = demand.shapes[0]
        return len(demand.shapes) == 1 and count - self.future(shape).total == 1

    def solve(self, demand: Demand, victim_list: VictimList) -> Plan | int:
        """Return a plan with an open statement, or the refusal code."""
        victim_list.forget_gone()
        code = 0
        for number in range(PASSES):
            asked = demand
            if number:
                asked = replace(demand, claim=replace(demand.claim, pass_number=number))
            found = _Attempt(self, self._session, asked, victim_list).find()
            if isinstance(found, Plan):
                return found
            code = found
            if not text_of(found).is_retried:
                break
        return code

    def move(self, demand: Demand, victim_list: VictimList, moving: Moving) -> Plan | int:
        """Return a plan in which units of the list move, and others may go; or the refusal."""
        victim_list.forget_gone()
        return _Attempt(self, self._session, demand, victim_list, moving).find()


class Moving(NamedTuple):
    """How units move."""

    settle: Settle
    most_jobs: int
    """Pods of at most so many jobs move; -1 for no limit."""
    must_evict: bool
    """Whether a plan needs an eviction too: to move work alone is consolidate's."""


class RefusedUnits:
    """Counts why units may not go for one job: the reason of a search without a plan."""

    def __init__(self) -> None:
        """Start without any."""
        self._times: dict[int, int] = {}

    def note(self, code: int, times: int = 1) -> None:
        """Count a refusal."""
        self._times[code] = self._times.get(code, 0) + times

    def note_all(self, codes: CodeVec) -> None:
        """Count the refusals of units; 0 is none."""
        for code, times in zip(*np.unique(codes[codes != 0], return_counts=True), strict=True):
            self.note(int(code), int(times))

    def most_said(self) -> int:
        """Return the most frequent one, those first that the next pass may lift; 0 for none."""
        return max(self._times, key=self._weight, default=0)

    def _weight(self, code: int) -> tuple[bool, int, str]:
        """Return the sort key of a refusal; names break ties, since codes differ by process."""
        text = text_of(code)
        return text.is_retried, self._times[code], text.name


class _Set(NamedTuple):
    """Units that make room, and what they cost."""

    cost: Cost
    at: tuple[int, ...]
    """Their positions in the order in which units would go, the last first: the tie-break."""


@lru_cache(maxsize=EVERY_SET + 1)
def _subsets(count: int) -> BoolVec:
    """Return every set of ``count`` units but the empty one, a row for each, by their last unit."""
    rows = np.arange(1, 1 << count)[:, None]
    bits: BoolVec = (rows >> np.arange(count)) & 1 == 1
    bits.setflags(write=False)
    return bits


class _Attempt:
    """The search for one waiting job, on one set of nodes and in one pass."""

    def __init__(
        self,
        search: Search,
        session: Session,
        demand: Demand,
        victim_list: VictimList,
        moving: Moving | None = None,
    ) -> None:
        self._search = search
        self._session = session
        self._demand = demand
        self._list = victim_list
        self._moving = moving
        self._moves = victim_list.moves
        """The units that would move."""
        self._stuck: set[int] = set()
        """Nodes of which units found no place, or of which every set has been looked at."""
        self._may_stay = False
        """Whether a unit that was to move may stay: a set without it has been looked at else."""
        self._needs = [(search.future(shape), count) for shape, count in demand.shapes]
        self._counts = [Need(session, future, count) for future, count in self._needs]
        self._refused = RefusedUnits()
        self._steps = STEPS
        self._is_refused = False
        """Whether the last attempt ended before the job was placed."""
        self._is_alone = True
        """Whether units are judged alone first, which is not so while others have gone."""
        futures = [future for future, _ in self._needs]
        self._is_exact = (
            moving is None
            and len(futures) == 1
            and futures[0].is_plain
            and not has_parts(session, demand.claim.job)
            and not is_tight(session, demand.tasks)
        )
        """Whether amounts alone tell whether the pods fit."""
        self._ask = least_ask(session, demand.tasks, demand.claim.ask)
        self._is_shut = bool(first_shut(session, demand.claim.action, demand.claim.job, self._ask))
        """Whether a queue on the path of the job is shut while nobody has gone."""
        self._order, self._left_out = self._in_order()
        self._rank = np.full(len(victim_list.victims), -1, np.int64)
        self._rank[self._order] = np.arange(len(self._order))
        has_turns = moving is None and not self._is_by_policy
        self._turn = victim_list.turn if has_turns else np.zeros_like(self._rank)
        """``(V,)`` whose turn it is to give; those that move lose no share, and a policy says who
        goes first."""

    def _in_order(self) -> tuple[RowVec, int]:
        """Return the places of the units, the first to go first, and why others are left out."""
        places, claim = self._list.places, self._demand.claim
        places = places[self._list.victims.job[places] != claim.job]
        if self._is_by_policy and len(places):
            said = self._session.ask.victim_order(self._session, claim, self._list.units(places))
            if said is not None:
                return places[said[0]], said[1]
        return places, 0

    @property
    def _is_by_policy(self) -> bool:
        """Whether a policy says in which order units go; nobody says in which they move."""
        return self._moving is None and self._session.ask.orders_victims

    # -- where room is made ------------------------------------------------------------------------

    def find(self) -> Plan | int:
        """Return the cheapest plan that is found, or the refusal."""
        if (plan := self._with_nobody()) is not None:
            return plan
        if not len(self._order) or not self._could_ever_suffice():
            return self._left_out or self._no_victims()
        for sets in self._tiers():
            for places in self._allowed(sets):
                self._is_refused = False
                if (plan := self._placed(places)) is not None:
                    return plan
                if not self._step():
                    return int(Refusal.SEARCH_BUDGET)
        if len(self._order) > EVERY_SET:
            return self._of_moved_gang() if self._moving is not None else self._of_all()
        return self._why_not()

    def _with_nobody(self) -> Plan | None:
        """Promise the job what earlier jobs of the cycle left to it, or None.

        Without evictions in the cycle allocate has found already that there is no room, unless a
        policy wished for evictions first.
        """
        is_open = bool(self._session.outcome.evictions) or self._is_by_policy
        if self._moving is not None:
            is_open = not self._moving.must_evict
        fits = is_open and all(future.total >= count for future, count in self._needs)
        return self._placed([]) if fits else None

    def _tiers(self) -> Iterator[Iterator[_Set]]:
        """Yield sets of units that are compared with each other, what costs least first."""
        if len(self._order) <= EVERY_SET:
            yield self._sets(self._able(self._order))
            return
        missing = [(future, count - future.total) for future, count in self._needs]
        lacking = [future for future, lack in missing if lack > 0]
        if len(lacking) == 1 and max(lack for _, lack in missing) == 1:
            yield self._single_pods(lacking[0])
            for groups in islice(self._node_tiers(lacking[0]), self._most_tiers):
                yield merge(*map(self._sets, groups))

    @property
    def _most_tiers(self) -> int | None:
        """How many groups of nodes are looked at; of evictions with moves one: most find none."""
        return 1 if self._moving is not None and self._moving.must_evict else None

    def _single_pods(self, future: Future) -> Iterator[_Set]:
        """Yield units of one pod that alone make room for a pod more, while nothing costs less.

        That is up to the turn of the first unit that would have to go with others.
        """
        if self._is_by_policy or self._moving or self._session.capacity.is_by_card(future.shape):
            return
        node, place, held = self._list.pods.by_node([at for at, _ in future.asked])
        lack = self._session.capacity.without().lack(future.asked, np.maximum(future.room, 0) + 1)
        lack = lack.take(node, axis=1)
        goes = self._rank.take(place) >= 0
        if future.allowed is not None:
            goes &= future.allowed.take(node)
        use = goes & (self._list.sizes.take(place) == 1)
        use &= np.logical_and.reduce(held >= lack, axis=0)
        if self._list.victims.split_off:
            use &= ~np.isin(place, list(self._list.victims.along))
        turn = self._turn.take(place)
        among = goes & ~use & np.logical_or.reduce((held > 0) & (lack > 0), axis=0)
        use &= turn <= turn.min(where=among, initial=np.iinfo(np.int64).max)
        found = place[use]
        turn, rank = turn[use], self._rank.take(found)
        priority, lost = self._list.priority.take(found), self._list.lost.take(found)
        for at in _lowest((turn, priority, lost, rank), _ASKED[-2]).tolist():
            cost = (float(turn[at]), 1.0, float(priority[at]), float(lost[at]))
            yield _Set(cost, (int(rank[at]),))

    def _node_tiers(self, future: Future) -> Iterator[list[RowVec]]:
        """Yield the units of a few nodes at a time, the nodes with the least to lose first."""
        nodes = self._by_node(future)
        while groups := list(islice(nodes, 1 if self._is_by_policy else NODES)):
            groups = [self._able(group) for group in groups]
            yield [group for group in groups if group.size]

    def _entries(self, future: Future) -> tuple[RowVec, RowVec, Amounts]:
        """Return nodes, places and amounts of the units on nodes that a shape may use.

        They are sorted by node, and on a node in the order in which units would go.
        """
        node, place, held = self._list.pods.by_node([at for at, _ in future.asked])
        use = self._rank.take(place) >= 0
        if future.is_plain:  # what frees nothing that is lacking does not help
            count = max(count for each, count in self._needs if each is future)
            lack = self._session.capacity.without().lack(future.asked, np.full(1, count))
            use &= np.logical_or.reduce((held > 0) & (lack.take(node, axis=1) > 0), axis=0)
        if future.allowed is not None:
            use &= future.allowed.take(node)
        at = use.nonzero()[0]
        if self._order is not self._list.places:
            key = node.take(at) * len(self._rank) + self._rank.take(place.take(at))
            at = at[key.argsort(kind="stable")]
        return node.take(at), place.take(at), held.take(at, axis=1)

    def _by_node(self, future: Future) -> Iterator[RowVec]:
        """Yield the units on each node that could have room for a pod more, by what they cost."""
        node, place, held = self._entries(future)
        if not node.size:
            return
        starts = np.flatnonzero(np.diff(node, prepend=-1))
        ends = np.append(starts[1:], len(node))
        rows = node[starts]
        left = self._session.capacity.without()
        lack = left.lack(future.asked, np.maximum(future.room[rows], 0) + 1, rows)
        if self._session.capacity.cards is not None:
            # The last pod on a shared GPU frees all of it, and so more than it holds.
            lack = np.where(np.array([at == GPU for at, _ in future.asked])[:, None], 0, lack)
        could = np.logical_and.reduce(np.add.reduceat(held, starts, axis=1) >= lack, axis=0)
        enough = _enough(node, held, lack)
        if self._is_by_policy:
            keys: list[IntVec] = [self._rank[place[enough]]]
        else:
            goes = np.arange(len(node)) <= enough.repeat(ends - starts)
            turn = np.maximum.reduceat(np.where(goes, self._turn[place], 0), starts)
            most = np.maximum.reduceat(held // self._list.sizes.take(place), starts, axis=1)
            pods = np.maximum(-(-lack // np.maximum(most, 1)), 1).max(axis=0)
            keys = [self._rank[place[starts]], pods, turn]
        order = np.lexsort(keys)
        for at in order[could[order]][:MOST_NODES].tolist():
            if ends[at] - starts[at] <= EVERY_SET:
                self._stuck.add(int(rows[at]))
            yield place[starts[at] : ends[at]]

    def _able(self, places: RowVec) -> RowVec:
        """Return those of some units that may go at all, each judged alone; or may move."""
        if self._is_by_policy or not self._is_alone:
            return places  # with less of its own queue a claim may be entitled to more
        able = self._judged(places, np.arange(len(places))) == 0
        if self._moving is None:
            alone: RowVec = places[able]
            return alone
        here: RowVec = places[able & ~self._list.moves[places]]
        if self._moving.must_evict and not here.size:
            return here
        # Where these move to, others may have to go: of those that may go along, the first.
        rest = self._order[:_JUDGED]
        rest = rest[~self._list.moves[rest] & ~np.isin(rest, places)]
        codes = self._list.judged(self._demand.claim, np.concatenate((here, rest)))
        more = rest[codes[len(here) :] == 0][: max(_FILLED - len(places), 0)]
        return self._sorted(np.concatenate((places[able | self._list.may_move[places]], more)))

    # -- the sets of units on a place --------------------------------------------------------------

    def _sets(self, places: RowVec) -> Iterator[_Set]:
        """Yield sets of some units that make room as far as counting tells, the cheapest first."""
        if len(places) <= EVERY_SET:
            return self._every_set(places)
        kept = self._kept_by_counts(self._may_go(places))
        few = [_Set(self._cost_of(kept), self._last_first(kept))] if len(kept) else []
        return merge(few, *map(self._every_set, self._parts(places)))

    def _parts(self, places: RowVec) -> Iterator[RowVec]:
        """Yield parts of many units on a node: those that hold the most; or of a few GPUs each."""
        amounts = self._list.victims.amounts.take(places, axis=1)
        largest = np.lexsort((self._rank[places], -amounts[GPU]))[:EVERY_SET]
        yield places[np.sort(largest)]
        on_gpu: dict[tuple[int, int], list[int]] = {}
        for place in places.tolist():
            for gpu in self._shared_gpus(place):
                on_gpu.setdefault(gpu, []).append(place)
        part: list[int] = []
        for some in sorted(on_gpu.values(), key=len):
            if len({*part, *some}) > EVERY_SET:
                yield self._sorted(part)
                part = []
            if len(some) <= EVERY_SET:
                part += [place for place in some if place not in part]
        yield self._sorted(part)

    def _shared_gpus(self, place: int) -> set[tuple[int, int]]:
        """Return node and slot of the GPUs that a unit shares."""
        session, cards = self._session, self._session.capacity.cards
        if cards is None:
            return set()
        shape_of_task, node_of_task = session.tasks.shape_of_task, session.ledger.node_of_task
        return {
            (node, slot)
            for task in self._list.unit(place).tasks
            if (node := int(node_of_task[task])) >= 0
            for slot in cards.parts_of(task, node, int(shape_of_task[task]))
        }

    def _sorted(self, places: Sequence[int] | RowVec) -> RowVec:
        some = np.array(places, np.int64)
        found: RowVec = some[np.argsort(self._rank[some])]
        return found

    def _every_set(self, places: RowVec) -> Iterator[_Set]:
        bits = _subsets(len(places))
        bits = bits[self._are_whole(places, bits)]
        fits = self._fit(places, bits)
        if self._is_exact and not self._is_by_policy:
            # Whoever refuses a set refuses a larger one.
            fits = _minimal(bits, fits)
        bits = bits[fits]
        if self._moving is not None and len(bits):
            stuck = self._without_place(places, bits) & self._list.moves[places]
            bits = bits[~stuck.any(axis=1)]
        if not len(bits):
            return
        costs = self._costs(places, bits)
        rank = self._rank[places].tolist()
        for row in np.lexsort((np.arange(len(bits)), *costs[::-1])).tolist():
            at = tuple(rank[it] for it in bits[row].nonzero()[0][::-1].tolist())
            yield _Set(tuple(float(each[row]) for each in costs), at)

    def _costs(self, places: RowVec, bits: BoolVec) -> list[FloatVec | IntVec]:
        """Return columns ``(B,)`` of what sets cost, the most important first.

        Where a policy orders victims, the set that ends first in that order is the cheapest. Else
        queues give in their order what they have above their shares; then the fewest pods go
        or move; of as many the least important, and then those whose GPUs have worked the least,
        for they begin anew. Between equals the order of victims decides.
        """
        if self._is_by_policy:
            return []
        turn = np.where(bits, self._turn[places], 0).max(axis=1)
        priority = np.where(bits, self._list.priority[places], np.iinfo(np.int64).min)
        pods, lost = bits @ self._list.sizes[places], bits @ self._list.lost[places]
        return [turn, pods, priority.max(axis=1), lost]

    def _cost_of(self, places: RowVec) -> Cost:
        bits = np.ones((1, len(places)), np.bool_)
        return tuple(float(each[0]) for each in self._costs(places, bits))

    def _last_first(self, places: RowVec) -> tuple[int, ...]:
        return tuple(np.sort(self._rank[places])[::-1].tolist())

    def _are_whole(self, places: RowVec, bits: BoolVec) -> BoolVec:
        """Tell which sets have, with each unit, all that goes along with it."""
        whole = np.ones(len(bits), np.bool_)
        if not self._list.victims.split_off:
            return whole
        column = {place: at for at, place in enumerate(places.tolist())}
        for place, at in column.items():
            for other in self._list.along(place):
                has_other = bits[:, column[other]] if other in column else False
                whole &= ~bits[:, at] | has_other
        return whole

    def _fit(self, places: RowVec, bits: BoolVec) -> BoolVec:
        """Tell which sets, once gone, leave room for all pods as far as counting tells.

        Each shape is counted alone, and so is each queue on the path of the job.
        """
        enough = self._are_open(places, bits)
        for future, count in self._needs:
            node, place, _ = self._list.pods.by_node([])
            use = self._list.pods.is_among(places).take(place)
            if future.allowed is not None:
                use &= future.allowed[node]
            rows = np.unique(node[use])
            room = self._room_on(future, places, bits, rows)
            enough &= future.total - int(future.room[rows].sum()) + room.sum(axis=1) >= count
        return enough

    def _are_open(self, places: RowVec, bits: BoolVec) -> BoolVec:
        """Tell for which sets the queues on the path of the job take it once they have gone."""
        session, claim = self._session, self._demand.claim
        is_open = np.ones(len(bits), np.bool_)
        if not self._is_shut or not session.ask.rests_on_sums(session):
            return is_open
        victims, tree = self._list.victims, session.queues.tree
        evicted = ~self._moves[places]
        amounts = victims.amounts.take(places, axis=1) * evicted
        ask = np.repeat(self._ask[:, None], len(bits), axis=1)
        job = np.full(len(bits), claim.job)
        for queue in tree.path(int(session.jobs.queue_of_job[claim.job])).tolist():
            below = [queue in tree.path(leaf) for leaf in victims.queue[places].tolist()]
            held = session.ledger.held[:, [queue]] - (amounts * below) @ bits.T
            strict = np.repeat(session.ledger.held_non_preemptible[:, [queue]], len(bits), axis=1)
            rows = np.full(len(bits), queue)
            codes = session.ask.queue_gate(session, claim.action, rows, job, ask, held, strict)
            if codes is not None:
                is_open &= codes == 0
        return is_open

    def _room_on(self, future: Future, places: RowVec, bits: BoolVec, rows: RowVec) -> IntVec:
        """``(B, N')`` how many pods of a shape fit on some nodes at most, once sets have gone."""
        capacity, asked = self._session.capacity, future.asked
        by_card = capacity.is_by_card(future.shape)
        node, place, held = self._list.pods.by_node([at for at, _ in asked])
        entry = np.flatnonzero(self._list.pods.is_among(places).take(place))
        entry = entry[np.isin(node[entry], rows)]
        column = np.full(len(self._rank), -1)
        column[places] = np.arange(len(places))
        column, row = column[place[entry]], np.searchsorted(rows, node[entry])
        free = capacity.free()
        room = np.full((len(bits), len(rows)), HUGE)
        for (resource, amount), freed in zip(asked, held[:, entry], strict=True):
            if by_card and resource == GPU:
                continue
            on_node = np.zeros((len(places), len(rows)), np.int64)
            np.add.at(on_node, (column, row), freed)
            np.minimum(room, (bits @ on_node + free[resource, rows]) // amount, out=room)
        if by_card:
            for at, each in enumerate(rows.tolist()):
                room[:, at] = np.minimum(room[:, at], self._on_cards(future, places, bits, each))
        np.maximum(room, 0, out=room)
        return room

    def _on_cards(self, future: Future, places: RowVec, bits: BoolVec, node: int) -> IntVec:
        """``(B,)`` how many pods fit on the GPUs of a node at most, once sets have gone.

        A shared GPU is whole again when all pods on it have gone.
        """
        session, cards = self._session, self._session.capacity.cards
        assert cards is not None
        left, stays = (np.array(each, np.int64) for each in cards.left_and_kept(node))
        parts = np.zeros((len(places), len(left)), np.int64)
        whole = np.zeros(len(places), np.int64)
        for at, unit in enumerate(map(self._list.unit, places.tolist())):
            for task in unit.tasks:
                if session.ledger.node_of_task[task] != node:
                    continue
                shape = int(session.tasks.shape_of_task[task])
                held = cards.parts_of(task, node, shape)
                for slot, part in held.items():
                    parts[at, slot] += part
                if not held:
                    whole[at] += int(session.shapes.request[GPU, shape]) // GPU_UNIT
        freed = bits @ parts
        emptied = (stays > 0) & (freed >= stays)
        gpus = session.capacity.whole_gpus(node) + bits @ whole + emptied.sum(axis=1)
        demand = cards.demand_of(future.shape)
        if demand is None:
            return np.asarray(gpus // max(dict(future.asked)[GPU] // GPU_UNIT, 1))
        take, of_new_card = cards.take_of(future.shape, node)
        open_ = np.where((left >= 0) & ~emptied, left + freed, 0)
        return np.asarray(((open_ // take).sum(axis=1) + gpus * of_new_card) // demand.cards)

    def _kept_by_counts(self, places: RowVec) -> RowVec:
        """Return the first of some units that suffice, less those without which the pods fit too.

        There are none where all of them are too few. The most important are kept first.
        """
        going: dict[int, Unit] = {}
        for place in places.tolist():
            if self._are_met():
                break
            for each in (*self._list.along(place), place):
                if each not in going:
                    going[each] = self._list.unit(each)
                    self._count(going[each], 1)
        kept: list[int] = []
        is_enough = self._are_met()
        for place, unit in reversed(going.items()):
            self._count(unit, -1)
            if not self._are_met() or self._is_bound(place, kept):
                self._count(unit, 1)
                kept.append(place)
        for place in kept:
            self._count(going[place], -1)
        return np.array(kept[::-1] if is_enough else [], np.int64)

    def _are_met(self) -> bool:
        return all(need.is_met for need in self._counts)

    def _count(self, unit: Unit, sign: int) -> None:
        """Count the room of a unit as free (1), or as held again (-1)."""
        for need in self._counts:
            need.shift(unit.tasks, sign)

    def _is_bound(self, place: int, kept: Sequence[int]) -> bool:
        """Tell whether a unit goes along with one that goes."""
        along = self._list.victims.along if self._list.victims.split_off else {}
        return any(place in along.get(other, ()) for other in kept)

    # -- a gang, or more units than every set of them could be looked at ---------------------------

    def _of_gang(self) -> RowVec:
        """Return units of so many nodes that together have room for all pods, by counting.

        The nodes that lose the least for a pod more come first.
        """
        chosen = self._order[:0]
        for future, count in self._needs:
            missing = count - future.total
            if missing <= 0:
                continue
            node, place, held = self._entries(future)
            if self._moving is not None:
                use = ~np.isin(node, list(self._stuck))
                node, place, held = node[use], place[use], held[:, use]
            use = np.isin(place, self._may_go(self._steps_of(future, node, place, held)))
            node, place, held = node[use], place[use], held[:, use]
            if not node.size:
                return chosen[:0]
            gain = self._gains(future, node, held)
            steps = np.flatnonzero(gain)
            if not steps.size:
                return chosen[:0]
            order = steps[np.argsort(self._step_keys(node, place, steps), kind="stable")]
            last = int(np.searchsorted(gain[order].cumsum(), missing))
            if last >= len(order):
                return chosen[:0]
            ends = np.full(int(node.max()) + 1, -1)
            np.maximum.at(ends, node[order[: last + 1]], order[: last + 1])
            upto = np.arange(len(node)) <= ends[node]
            chosen = np.union1d(chosen, place[upto])
        return chosen[np.argsort(self._rank[chosen])]

    def _steps_of(self, future: Future, node: RowVec, place: RowVec, held: Amounts) -> RowVec:
        """Return the units of nodes that could have room for a pod more, the cheapest first."""
        steps = np.flatnonzero(self._gains(future, node, held))
        if not steps.size:
            return place[:0]
        key = np.full(len(node), np.iinfo(np.int64).max)
        keys = self._step_keys(node, place, steps)
        at = np.searchsorted(steps, np.arange(len(node)))
        inside = at < len(steps)
        same = np.zeros(len(node), np.bool_)
        same[inside] = node[steps[at[inside]]] == node[inside]
        key[same] = keys[at[same]]
        order = np.lexsort((np.arange(len(node)), key))[: int(same.sum())]
        _, first = np.unique(place[order], return_index=True)
        found: RowVec = place[order][np.sort(first)]
        return found

    def _gains(self, future: Future, node: RowVec, held: Amounts) -> IntVec:
        """``(P,)`` how many pods more fit on its node once a unit has gone, after those before."""
        starts = np.flatnonzero(np.diff(node, prepend=-1))
        lengths = np.diff(starts, append=len(node))
        freed = held.cumsum(axis=1)
        freed -= (freed.take(starts, axis=1) - held.take(starts, axis=1)).repeat(lengths, axis=1)
        free = self._session.capacity.free()
        room = np.full(len(node), HUGE)
        for (resource, amount), more in zip(future.asked, freed, strict=True):
            np.minimum(room, (free[resource, node] + more) // amount, out=room)
        before = np.concatenate(([0], room[:-1]))
        before[starts] = np.maximum(future.room[node[starts]], 0)
        gain: IntVec = np.maximum(room, 0) - np.maximum(before, 0)
        return np.maximum(gain, 0)

    def _step_keys(self, node: RowVec, place: RowVec, steps: RowVec) -> IntVec:
        """``(K,)`` what steps on nodes are ordered by: each as late as those before it there."""
        if self._is_by_policy:
            key = self._rank[place[steps]]
        else:
            pods = np.concatenate(([0], self._list.sizes[place].cumsum()))
            begins = np.concatenate(([0], steps[:-1] + 1))
            starts = np.flatnonzero(np.diff(node, prepend=-1))
            begins = np.maximum(begins, starts[np.searchsorted(starts, steps, side="right") - 1])
            key = (pods[steps + 1] - pods[begins]) * len(self._rank) + self._rank[place[steps]]
            key += self._turn[place[steps]] * (int(key.max()) + 1)
        first = np.flatnonzero(np.diff(node[steps], prepend=-1))
        shift = np.arange(len(first)).repeat(np.diff(first, append=len(steps))) * (
            int(key.max()) + 1
        )
        found: IntVec = np.maximum.accumulate(key + shift) - shift
        return found

    def _of_moved_gang(self) -> Plan | int:
        """Return a plan for a gang in which units move, or the refusal.

        Nodes of units that find no new place are left out of the next attempt.
        """
        self._may_stay = True
        while (places := self._of_gang()).size and self._move_few(places, self._moves[places]):
            known = len(self._stuck)
            plan = self._placed(places.tolist())
            if plan is not None:
                return plan
            if not self._step() or len(self._stuck) == known:
                return int(Refusal.SEARCH_BUDGET)
        return self._why_not()

    def _of_all(self) -> Plan | int:
        """Return a plan at the cost of the cheapest nodes' units or else of any; or the refusal."""
        # Units that free nothing for the job could use up what their queue may lose.
        helpful = [self._entries(future)[1] for future, _ in self._needs]
        some = self._sorted(np.unique(np.concatenate(helpful)))
        gang = self._of_gang() if self._is_exact else self._pod_by_pod()
        for units in (gang, some, self._order):
            if (plan := self._of_many(units)) is not None:
                return plan
        return self._why_not()

    def _pod_by_pod(self) -> RowVec:
        """Return units that make room for one pod after the other, those with most GPUs first.

        Each pod that finds no room gets the cheapest set that is allowed along with those before.
        """
        before = self._needs, self._counts, self._rank, self._is_shut
        self._rank, self._is_shut, self._is_alone = self._rank.copy(), False, False
        shapes, request = self._session.tasks.shape_of_task, self._session.shapes.request
        tasks = self._demand.tasks
        tasks = tasks[np.argsort(-request[GPU, shapes[tasks]], kind="stable")]
        chosen: list[int] = []
        statement = self._session.statement()
        for at in range(len(tasks)):
            if place_waiting(self._session, statement, tasks[at : at + 1]):
                continue
            future = self._search.future(int(shapes[tasks[at]]))
            self._needs, self._counts = [(future, 1)], [Need(self._session, future, 1)]
            groups = next(self._node_tiers(future), [])
            sets = [*islice(merge(*map(self._sets, groups)), _ASKED[-2])]
            statement.rollback()
            more = next(
                (
                    places
                    for places in islice(self._allowed(iter(sets), chosen), _TRIES)
                    if self._again(statement, [*chosen, *places], tasks[: at + 1])
                ),
                None,
            )
            if more is None:
                chosen = []
                break
            chosen += more
            self._rank[more] = -1  # what has gone makes room once
        statement.rollback()
        self._needs, self._counts, self._rank, self._is_shut = before
        self._is_alone = True
        for shape, _ in self._demand.shapes:
            self._search.future(shape)
        return self._sorted(chosen)

    def _again(self, statement: Statement, places: list[int], tasks: RowVec) -> bool:
        """Evict units and place some of the pods one by one; without room nothing is done."""
        gone = [task for place in places for task in self._list.unit(place).tasks]
        statement.evict_all(np.array(gone, np.int64))
        if all(
            place_waiting(self._session, statement, tasks[at : at + 1]) for at in range(len(tasks))
        ):
            return True
        statement.rollback()
        return False

    def _of_many(self, places: RowVec) -> Plan | None:
        """Return a plan at the cost of as few of these units as possible, or None.

        Units that may not go along with the others are left out, and the rest is tried again.
        """
        for turn in range(_AGAIN):
            # Where more than amounts decides, the units in the way may not be the first to go.
            if self._is_exact or turn:
                places = self._may_go(places)
            if not places.size or not self._could_suffice(places):
                return None
            kept = self._first_that_suffice(places)
            codes = self._judged(kept)
            if kept.size and not codes.any():
                return self._placed(kept.tolist())
            if not kept.size and turn:
                return None
            self._refused.note_all(codes)
            places = places[~np.isin(places, kept[codes != 0])]
        return None

    def _first_that_suffice(self, places: RowVec) -> RowVec:
        """Return the first of some units that suffice, without those that are not needed."""
        kept = self._kept_by_counts(places)
        if (self._is_exact and not self._is_shut) or (kept.size and self._works(kept.tolist())):
            return kept
        size = max(len(kept), 1)
        while size < 2 * len(places) and self._step():
            if self._works(places[:size].tolist()):
                return np.array(self._fewest(places[:size].tolist()), np.int64)
            size *= 2
        return kept[:0]

    def _works(self, places: list[int]) -> bool:
        """Tell whether the pods can be placed with some units gone."""
        plan = self._placed(places)
        if plan is not None:
            self._undo(plan.statement)
        return plan is not None

    def _fewest(self, places: list[int]) -> list[int]:
        """Let units stay, the most important first, while the pods fit and steps are left.

        At first many units are left out together: of a long list few may be needed.
        """
        left = places[::-1]
        size = max(1, len(left) // 2)
        while left and len(places) > 1 and self._step():
            some = set(left[:size])
            rest = [place for place in places if place not in some]
            bound = {it for place in rest for it in self._list.along(place)}
            rest = [place for place in places if place not in some or place in bound]
            if len(rest) == len(places):
                left = left[size:]
            elif self._works(rest):
                places, left = rest, left[size:]
                size = min(2 * size, max(1, len(left) // 2))
            else:
                if size == 1:
                    left = left[1:]
                size = max(1, size // 2)
        return places

    # -- whether what moves finds a place ----------------------------------------------------------

    def _stuck_of(self, places: RowVec) -> list[Unit]:
        """Return the units of a set that would move and find no place."""
        lacking = self._without_place(places, np.ones((1, len(places)), np.bool_))[0]
        return [self._list.unit(place) for place in places[lacking & self._moves[places]].tolist()]

    def _without_place(self, places: RowVec, bits: BoolVec) -> BoolVec:
        """``(B, U)`` which units of sets find no place while the pods have room, by amounts.

        Most moves fail in a full cluster: the job takes the room that the moved pods need. All
        units of a set leave their nodes. A pod of one may then be on a node, its own or another,
        only if the job still has room enough there and elsewhere. Where that is open, it finds one.
        """
        session, (future, count) = self._session, self._needs[0]
        lacking = np.zeros(bits.shape, np.bool_)
        of_unit = [self._shapes_of(place) for place in places.tolist()]
        futures = {shape: self._search.future(shape) for shape in set().union(*of_unit)}
        if len(self._needs) > 1 or not self._decide_amounts([future, *futures.values()]):
            return lacking
        wanted = sorted({at for each in (future, *futures.values()) for at, _ in each.asked})
        node, place, held = self._list.pods.by_node(wanted)
        use = np.isin(place, places)
        node, place, held = node[use], place[use], held[:, use]
        rows, row = np.unique(node, return_inverse=True)
        column = np.full(len(self._rank), -1)
        column[places] = np.arange(len(places))
        freed = np.zeros((len(wanted), len(places), len(rows)), np.int64)
        freed[:, column[place], row] = held  # one entry for each unit and node
        free = session.capacity.free()[wanted]
        after = free[:, None, rows] + bits @ freed
        is_here = bits @ (freed > 0).any(axis=0)  # a pod may stay where it could not start
        request = session.shapes.request[wanted]
        elsewhere = np.ones(len(session.nodes), np.bool_)
        elsewhere[rows] = False

        def room_in(amounts: Amounts, nodes: RowVec | slice) -> IntVec:
            own = [(wanted.index(at), amount) for at, amount in future.asked]
            room: IntVec = np.minimum.reduce([amounts[at] // amount for at, amount in own])
            np.maximum(room, 0, out=room)
            return room if future.allowed is None else room * future.allowed[nodes]

        room = room_in(after, rows)
        to_spare = int(future.room[elsewhere].sum()) + room.sum(axis=1) - count
        for shape, moved in futures.items():
            ask = request[:, shape]
            fits = np.logical_and.reduce(after >= ask[:, None, None], axis=0)
            outside = np.logical_and.reduce(free >= ask[:, None], axis=0) & elsewhere
            if moved.allowed is not None:
                fits &= is_here | moved.allowed[rows]
                outside &= moved.allowed
            lost = room - room_in(after - ask[:, None, None], rows)
            has_place = (fits & (lost <= to_spare[:, None])).any(axis=1)
            lost = future.room - room_in(free - ask[:, None], slice(None))
            has_place |= to_spare >= lost[outside].min(initial=HUGE)
            lacking |= ~has_place[:, None] & np.array([shape in shapes for shapes in of_unit])
        return lacking & bits

    def _shapes_of(self, place: int) -> set[int]:
        return set(self._session.tasks.shape_of_task[list(self._list.unit(place).tasks)].tolist())

    def _decide_amounts(self, futures: list[Future]) -> bool:
        """Tell whether pods that may go to a node need nothing but amounts there."""
        session = self._session
        return (
            all(future.is_plain for future in futures)
            and session.capacity.cards is None
            and session.devices is None
            and session.placement.nodes is None
            and not session.ask.has_node_sets(session)
        )

    # -- whether a set may go ----------------------------------------------------------------------

    def _judged(self, places: RowVec, sets: RowVec | None = None) -> CodeVec:
        """Return the codes of budgets and plugins for the units of a set, or of several."""
        if self._moving is None:
            return self._list.judged(self._demand.claim, places, sets)
        codes = np.zeros(len(places), np.int16)
        evicted = np.flatnonzero(~self._list.moves[places])
        if evicted.size:
            some = None if sets is None else sets[evicted]
            codes[evicted] = self._list.judged(self._demand.claim, places[evicted], some)
        return codes

    def _may_go(self, places: RowVec) -> RowVec:
        """Return the units that may go together: those in the way of others are left out.

        Where a policy orders victims, all of them: it is asked about the sets that suffice.
        """
        while places.size and not self._is_by_policy:
            codes = self._judged(places)
            if not codes.any():
                break
            self._refused.note_all(codes)
            places = places[codes == 0]
            if self._list.victims.split_off:
                has = set(places.tolist())
                whole = [has.issuperset(self._list.along(place)) for place in places.tolist()]
                places = places[whole]
        return places

    def _allowed(self, sets: Iterator[_Set], also: Sequence[int] = ()) -> Iterator[list[int]]:
        """Yield the sets that budgets and plugins allow as a whole, by the places of their units.

        They are asked about a few sets at first, and then about more at a time; each along with
        the units that go ``also``.
        """
        for asked in _ASKED:
            some = list(islice(sets, asked))
            if not some:
                return
            chosen = [self._order[list(each.at[::-1])] for each in some]
            whole = [self._in_turn([*also, *each.tolist()]) if also else each for each in chosen]
            flat = np.concatenate(whole)
            of_set = np.arange(len(whole)).repeat([len(each) for each in whole])
            codes = self._judged(flat, of_set)
            if self._moving is not None:
                yield from self._with_moves(chosen, codes)
                continue
            refused = set(of_set[codes != 0].tolist())
            for at, each in enumerate(chosen):
                if at not in refused:
                    yield each.tolist()

    def _with_moves(self, sets: list[RowVec], codes: CodeVec) -> Iterator[list[int]]:
        """Yield the sets in which what may not be evicted may move, having noted what moves."""
        ends = np.cumsum([len(each) for each in sets])
        for each, refused in zip(sets, np.split(codes != 0, ends[:-1]), strict=True):
            moves = self._list.moves[each] | refused
            if (self._list.may_move[each] | ~moves).all() and self._move_few(each, moves):
                self._moves = self._list.moves.copy()
                self._moves[each] = moves
                yield each.tolist()

    def _in_turn(self, places: Sequence[int]) -> RowVec:
        """Return units in the order in which they would go."""
        turn = {place: at for at, place in enumerate(self._order.tolist())}
        return np.array(sorted(places, key=turn.__getitem__), np.int64)

    def _move_few(self, places: RowVec, moves: BoolVec) -> bool:
        """Tell whether units of no more jobs move than may, and some are evicted if they must."""
        if self._moving is None:
            return True
        if self._moving.must_evict and moves.all():
            return False
        jobs = len(np.unique(self._list.victims.job[places[moves]]))
        return self._moving.most_jobs < 0 or jobs <= self._moving.most_jobs

    # -- whether the pods fit ----------------------------------------------------------------------

    def _could_ever_suffice(self) -> bool:
        """Tell whether the pods could fit if every unit were gone."""
        return self._session.capacity.cards is not None or all(
            self._list.most(future.shape, future.allowed) >= count for future, count in self._needs
        )

    def _could_suffice(self, places: RowVec) -> bool:
        """Tell whether the pods could fit if some units were gone, whatever plugins say."""
        if self._session.capacity.cards is not None:
            return True
        return all(
            self._list.room_without(places, future.shape, future.allowed) >= count
            for future, count in self._needs
        )

    def _step(self) -> bool:
        """Count an attempt to place the job; False when no more are left."""
        is_small = len(self._order) <= EVERY_SET and self._moving is None
        cost = _PLACING_FEW if is_small else _PLACING
        self._steps -= _GATES if self._is_refused else cost
        return self._steps >= 0

    def _placed(self, places: list[int]) -> Plan | None:
        """Place the pods with some units gone or moved, in a statement; None where that fails."""
        session = self._session
        moved = [self._list.unit(place) for place in places if self._moves[place]]
        units = [self._list.unit(place) for place in places if not self._moves[place]]
        if moved and self._list.beyond_budgets(np.array(places, np.int64)).any():
            self._is_refused = True
            return None
        if moved and (stuck := self._stuck_of(np.array(places, np.int64))):
            self._note_stuck(stuck)
            self._is_refused = True
            return None
        tasks = np.array([task for unit in units + moved for task in unit.tasks], np.int64)
        for turn, (nodes, moves_first) in enumerate(self._ways(moved)):
            if turn and not self._step():
                break
            statement = session.statement()
            statement.evict_all(tasks)
            if not self._is_borne_out(units):
                self._undo(statement)
                return None
            if moves_first:
                barred = nodes_of(session, units + moved)
                is_done = self._settled(statement, moved, barred) and self._put(statement)
            else:
                with session.placement.within(nodes):
                    is_done = self._put(statement)
                is_done = is_done and self._settled(statement, moved, ())
            if is_done:
                return Plan(statement, units, self._demand.claim.pass_number, movers=moved)
            self._undo(statement)
        return None

    def _undo(self, statement: Statement) -> None:
        """Roll an attempt back, and the room that was counted while it stood."""
        statement.rollback()
        for future, _ in self._needs:
            future.catch_up()

    def _ways(self, moved: list[Unit]) -> Iterator[tuple[NodeSet | None, bool]]:
        """Yield on which nodes to place the pods, and whether units move before that.

        With units that move, a single pod is tried on each of their nodes too.
        """
        around = self._session.placement.nodes
        yield around, False
        if not moved:
            return
        if len(self._demand.tasks) == 1:
            every = np.arange(len(self._session.nodes))
            for node in sorted(nodes_of(self._session, moved)):
                here = NodeSet(_HERE, every == node)
                yield (here if around is None else around.meet(here)), False
        yield around, True

    def _is_borne_out(self, units: list[Unit]) -> bool:
        """Ask the plan gate about units that have gone."""
        session = self._session
        if not units or not session.ask.has_plan_gates:
            return True
        codes = session.ask.plan_gate(session, self._demand.claim, as_units(session, units))
        if codes is not None:
            self._refused.note_all(codes)
        return codes is None or not codes.any()

    def _settled(self, statement: Statement, moved: list[Unit], barred: Collection[int]) -> bool:
        """Find new places for units that move, and remember the nodes of those without one."""
        if not moved or self._moving is None:
            return True
        if any(is_spread(self._session, shape) for shape, _ in self._demand.shapes):
            barred = {*barred, *nodes_of(self._session, moved)}  # what stays is spread as before
        left = self._moving.settle(statement, moved, barred, self._may_stay)
        self._note_stuck(left)
        return not left

    def _note_stuck(self, units: list[Unit]) -> None:
        self._stuck.update(nodes_of(self._session, units))

    def _put(self, statement: Statement) -> bool:
        """Place the pods; False without room, or where a queue would get more than it may take.

        Once anybody goes every pod gets a promise, even where it would fit now: a queue at its
        limit has to lose the victims first.
        """
        session, demand = self._session, self._demand
        claim, tasks, shape = demand.claim, demand.tasks, demand.shapes[0][0]
        if code := first_shut(session, claim.action, claim.job, self._ask):
            self._refused.note(code)
            self._is_refused = True
            return False
        mark = statement.checkpoint()
        if self._is_exact and len(tasks) > _MANY and not is_spread(session, shape):
            nodes = session.placement.choose_future(shape, len(tasks))
            if nodes is None:
                return False
            statement.promise(tasks, nodes, shape)
        else:
            if not place_waiting(session, statement, tasks):
                return False
            if mark or session.outcome.evictions:
                statement.pipeline_all(mark)
        if gets_too_much(session, claim, tasks):
            self._refused.note(OVER_SHARE)
            return False
        return True

    # -- why there is no plan ----------------------------------------------------------------------

    def _why_not(self) -> int:
        if self._left_out:
            return self._left_out
        if self._moving is None:
            self._refused.note_all(self._judged(self._order[:_JUDGED]))
        return self._refused.most_said() or self._no_victims()

    def _no_victims(self) -> int:
        """Return NO_VICTIMS, or the refusal of budgets if they protect sufficient units."""
        protected = self._list.protected
        if protected.size and self._could_suffice(np.concatenate((self._order, protected))):
            return PROTECTED
        return int(Refusal.NO_VICTIMS)


def _minimal(bits: BoolVec, fits: BoolVec) -> BoolVec:
    """``(B,)`` which of the sets that fit do not without any one of their units."""
    weights = 1 << np.arange(bits.shape[1])
    masks = bits @ weights
    known = np.zeros(1 << bits.shape[1], np.bool_)
    known[masks] = fits
    found = fits.copy()
    for at, weight in enumerate(weights.tolist()):
        found &= ~(bits[:, at] & known[masks & ~weight])
    return found


def nodes_of(session: Session, units: Sequence[Unit]) -> set[int]:
    """Return the nodes on which pods of units ran when the cycle began."""
    rows = [task for unit in units for task in unit.tasks]
    return set(session.tasks.node_of_task[rows].tolist())


def _lowest(keys: tuple[IntVec, ...], most: int) -> RowVec:
    """Return where the lowest of some keys are, in order, about so many; the first counts most."""
    some = np.arange(len(keys[0]))
    for key in keys:
        if len(some) <= 4 * most:
            break
        bound = np.partition(key[some], most)[most]
        lower = some[key[some] < bound]
        some = some[key[some] <= bound]
        if lower.size:
            break
    order: RowVec = some[np.lexsort([key[some] for key in keys[::-1]])]
    return order


def _enough(node: RowVec, held: Amounts, lack: Amounts) -> RowVec:
    """``(K,)`` the entry of each node up to which its units free what is lacking ``(R', K)``.

    It is the last one where all of them are too few.
    """
    starts = np.flatnonzero(np.diff(node, prepend=-1))
    lengths = np.diff(starts, append=len(node))
    freed = held.cumsum(axis=1)
    freed -= (freed.take(starts, axis=1) - held.take(starts, axis=1)).repeat(lengths, axis=1)
    is_enough: BoolVec = np.logical_and.reduce(freed >= lack.repeat(lengths, axis=1), axis=0)
    is_enough[starts + lengths - 1] = True
    at = np.flatnonzero(is_enough)
    found: RowVec = at[np.diff(node[at], prepend=-1) > 0]
    return found
