"""The flavors of jobs in a cycle: their sets of nodes, and what is in the way of each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import partial
from itertools import islice, product
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from kaisched import (
    ACTIVE_STATES,
    Amounts,
    BoolVec,
    CodeVec,
    RowVec,
    Session,
)
from kaisched_plugins.fair_sharing import refusals
from kaisched_plugins.fair_sharing.flavors import (
    Chooser,
    FlavorSet,
    Group,
    Hindrance,
    Mode,
    Offer,
    Request,
    Way,
    accepts,
    flavors_of,
)
from kaisched_plugins.fair_sharing.quotas import Ask, Holdings
from kaisched_plugins.fair_sharing.tables import Now, Table, as_columns, is_beyond_quota
from kaisched_plugins.fair_sharing.work import NEVER, Work, may_take

# What is in the way of a flavor: of several reasons why a job gets none, the one to tell.


class Obstacle(IntEnum):
    """What is in the way of a flavor, the mildest first."""

    WAITING = 0
    """Other work holds the quota."""
    TOO_LARGE = 1
    """The request is larger than all that the queue could ever have."""
    NO_NODES = 2
    """No node has the labels of the flavor."""
    NO_MATCH = 3
    """The pods do not select its nodes, or the queue offers no flavor at all."""


Obstacles: TypeAlias = Mapping[int, Obstacle]
"""By flavor, in the order of the queue's list."""

_CODES: Final = {
    Obstacle.WAITING: refusals.NO_ROOM,
    Obstacle.TOO_LARGE: refusals.TOO_LARGE,
    Obstacle.NO_NODES: refusals.NO_NODES,
    Obstacle.NO_MATCH: refusals.NO_FLAVOR,
}


def obstacle_of(hindrance: Hindrance | None, *, is_present: bool) -> Obstacle:
    """Return what is in the way of a flavor that the pods select."""
    if not is_present:
        return Obstacle.NO_NODES
    return Obstacle.TOO_LARGE if hindrance == Hindrance.TOO_LARGE else Obstacle.WAITING


def code_of(groups: Sequence[Obstacles]) -> int:
    """Return the refusal: of a group's flavors the mildest obstacle counts, of groups the worst.

    Without any obstacle there are flavors of all groups, but no node is of all of them.
    """
    worst = max((min(each.values(), default=Obstacle.NO_MATCH) for each in groups), default=None)
    return int(refusals.NO_NODES if worst is None else _CODES[worst])


# Whether evictions could make room in a flavor, judged by quotas and policies alone (F28, F29).


def tasks_at_start(session: Session) -> RowVec:
    """Return the active tasks of known jobs and nodes, as the cycle began."""
    tasks = session.tasks
    runs = ACTIVE_STATES[tasks.state] & (tasks.node_of_task >= 0) & (tasks.job_of_task >= 0)
    rows: RowVec = runs.nonzero()[0]
    return rows[session.jobs.queue_of_job[tasks.job_of_task[rows]] >= 0]


def held_at_start(session: Session, table: Table) -> Holdings:
    """Return what queues held as the cycle began."""
    tasks = tasks_at_start(session)
    leaves = np.zeros((len(table.rows), len(table.is_leaf)), np.int64)
    queue = table.home[session.jobs.queue_of_job[session.tasks.job_of_task[tasks]]]
    table.count(session, leaves, queue, tasks, session.tasks.node_of_task[tasks])
    return Holdings(table.quotas, leaves)


class Oracle:
    """The jobs that ran as the cycle began, and what evicting them could give back."""

    def __init__(self, session: Session, table: Table) -> None:
        """Count what each preemptible job holds, by row of the quotas."""
        tasks, jobs = tasks_at_start(session), session.jobs
        job = session.tasks.job_of_task[tasks]
        keeps = jobs.is_preemptible[job]
        tasks, job = tasks[keeps], job[keeps]
        rows, where = np.unique(job, return_inverse=True)
        self._held = np.zeros((len(table.rows), len(rows)), np.int64)
        table.count(session, self._held, where, tasks, session.tasks.node_of_task[tasks])
        self._leaf, self._root = table.home[jobs.queue_of_job[rows]], table.root
        self._priority, self._created_s = jobs.priority[rows], jobs.created_s[rows]

    def way(
        self, session: Session, holdings: Holdings, job: int, leaf: int, at: int, amount: int
    ) -> Way:
        """Return how a job could have so much of a row."""
        sharing, jobs = session.queues.sharing[leaf], session.jobs
        taker = Work(-1, leaf, (), int(jobs.priority[job]), float(jobs.created_s[job]))
        lacks = amount - holdings.available(leaf, at)
        is_own = self._leaf == leaf
        over = [holdings.is_over(queue, (at,)) for queue in range(len(self._root))]
        is_open = np.array(over, np.bool_)[self._leaf] & (
            self._root[self._leaf] == self._root[leaf]
        )
        others = self._given(sharing.across, taker, ~is_own & is_open, at)
        mode = Mode.NO_CANDIDATES
        if others and others >= lacks:
            mode = Mode.RECLAIM
        elif (own := self._given(sharing.within, taker, is_own, at)) and own + others >= lacks:
            mode = Mode.PREEMPT
        return Way(mode, _level_by_quota(holdings, leaf, at, amount))

    def _given(self, policy: str, taker: Work, among: BoolVec, at: int) -> int:
        """Return what jobs hold of a row that a policy lets other work take."""
        may = among & may_take(policy, taker, self._priority, self._created_s)
        return int(self._held[at][may].sum())


def _level_by_quota(holdings: Holdings, leaf: int, at: int, amount: int) -> int:
    """Return the height of the lowest queue on a path whose quota is large enough."""
    rows = holdings.rows
    path = rows.path(leaf)
    return rows.height[next((it for it in path if amount <= rows.subtree[it][at]), path[-1])]


# What a job asks of the flavors of its queue, group by group.
#
# Rule F27 of docs/explanation/fair-sharing.md.


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


# The flavors that jobs may have as of now, as sets of nodes in the order in which they are tried.
#
# Rules F27 to F30 of docs/explanation/fair-sharing.md.


_MOST: Final = 64
"""At most so many combinations of flavors of several groups are tried: all that one group has."""


class Choices:
    """Answers for one cycle, remembered while nothing moves."""

    def __init__(
        self,
        table: Table,
        now: Now,
        strict: Now,
        waited: Collection[str] = (),
        *,
        is_nominating: bool = False,
    ) -> None:
        """Choose nothing yet.

        ``strict`` counts non-preemptible work; ``waited`` are the jobs of :meth:`waiting` of the
        last cycle. With ``is_nominating`` each job has one flavor for the whole cycle, chosen by
        what was held when the cycle began.
        """
        self._is_nominating = is_nominating
        self._start: Holdings | None = None
        self._oracle: Oracle | None = None
        self._waited = frozenset(waited)
        self._table = table
        self._now = now
        self._strict = strict
        self._moves = -1
        self._known: dict[object, list[Combination]] = {}

    def strict(self, session: Session) -> Holdings:
        """Return what non-preemptible work holds, to be changed by whoever asks."""
        return self._strict.copy(session)

    def offer(self, leaf: int) -> Offer | None:
        """Return what a leaf queue offers; None in a tree without flavors."""
        flavors = self._table.flavors
        return None if flavors is None else flavors.offer_of.get(leaf)

    def amounts(self, session: Session, job: RowVec, ask: Amounts) -> Amounts:
        """``(F, K)`` what jobs ask for by row: of the set of nodes that is tried, or as chosen."""
        tried = flavors_of(session.node_set)
        leaf = self._table.home[session.jobs.queue_of_job[job]].tolist()
        asked = [
            self._table.ask_of(leaf[at], ask[:, at], tried)
            if tried or self.offer(leaf[at]) is None
            else self.asked(session, row, ask[:, at])
            for at, row in enumerate(job.tolist())
        ]
        return as_columns(asked, len(self._table.rows))

    def codes(self, session: Session, queue: RowVec, job: RowVec, ask: Amounts) -> CodeVec:
        """Return, asked about the leaf of a job, why no flavor has room for it, or 0."""
        codes = np.zeros(len(queue), np.int16)
        for at in np.flatnonzero(self._table.is_leaf[queue]).tolist():
            codes[at] = self.code(session, int(job[at]), ask[:, at])
        return codes

    def always_borrow(self, session: Session, queue: RowVec, ask: Amounts) -> BoolVec:
        """Tell, ``(K,)``, where non-preemptible work would borrow in whatever flavor."""
        over = [
            all(
                is_beyond_quota(self._strict.holdings(session), leaf, asked)
                for asked in self.possible(leaf, ask[:, at])
            )
            for at, leaf in enumerate(queue.tolist())
        ]
        return np.array(over, np.bool_)

    def stay_within(self, session: Session, queue: RowVec, ask: Amounts) -> BoolVec:
        """Tell, ``(K,)``, which leaf queues stay within their quota in some flavor."""
        holdings = self._now.holdings(session)
        within = [
            any(holdings.stays_within(leaf, asked) for asked in self.possible(leaf, ask[:, at]))
            for at, leaf in enumerate(queue.tolist())
        ]
        return np.array(within, np.bool_)

    def code(self, session: Session, job: int, ask: Amounts) -> int:
        """Return why a job has no room in its queue's tree now, or 0."""
        leaf = int(self._table.home[session.jobs.queue_of_job[job]])
        offer, table = self.offer(leaf), self._table
        tried = flavors_of(session.node_set)
        if offer is None or tried:
            return self._code_with(session, job, table.ask_of(leaf, ask, tried))
        combinations = self._combinations(session, job, leaf, offer, ask)
        if not combinations:
            return code_of(self.obstacles(session, job, ask))
        if not self._on(session, offer, ask, combinations[0]).any():
            return int(refusals.NO_NODES)
        if combinations[0].mode != Mode.FIT and self._waits(session, job, offer):
            fits = any(each.mode == Mode.FIT for each in combinations)
            return int(refusals.EVICTIONS_FIRST if fits else refusals.NO_ROOM)
        code = int(refusals.NO_ROOM)
        for each in combinations:
            if each.mode == Mode.FIT:
                asked = table.ask_of(leaf, ask, by_resource(offer, ask, each))
                code = self._code_with(session, job, asked)
                if not code:
                    return 0
        return code

    def sets(
        self, session: Session, job: int, ask: Amounts, *, after_evictions: bool
    ) -> list[FlavorSet] | None:
        """Return the sets of nodes for a job, the first to be tried first; None without flavors."""
        leaf = int(self._table.home[session.jobs.queue_of_job[job]])
        offer = self.offer(leaf)
        if offer is None:
            return None
        found: list[FlavorSet] = []
        combinations = self._combinations(session, job, leaf, offer, ask)
        if not after_evictions and self._waits(session, job, offer):
            first = combinations[0].mode if combinations else Mode.NO_FIT
            combinations = combinations if first == Mode.FIT else []
        least = Mode.PREEMPT if after_evictions else Mode.FIT
        for each in combinations:
            if each.mode < least:
                continue
            flavors = by_resource(offer, ask, each)
            asked = self._table.ask_of(leaf, ask, flavors)
            code = self._code_with(session, job, asked)
            if code == 0 or (after_evictions and code != refusals.STRICT):
                found.append(self._set(session, offer, ask, each, flavors))
        return found

    def asked(self, session: Session, job: int, ask: Amounts) -> Ask:
        """Return what a job asks for in the flavor that it would get."""
        leaf = int(self._table.home[session.jobs.queue_of_job[job]])
        offer = self.offer(leaf)
        if offer is None:
            return self._table.ask_of(leaf, ask, {})
        combinations = self._combinations(session, job, leaf, offer, ask)
        best = next((it for it in combinations if it.mode == Mode.FIT), None)
        chosen = best or next(iter(combinations), None)
        flavors = {} if chosen is None else by_resource(offer, ask, chosen)
        return self._table.ask_of(leaf, ask, flavors)

    def possible(self, leaf: int, ask: Amounts) -> Iterator[Ask]:
        """Yield what a request comes to in all combinations of flavors that its queue offers."""
        offer = self.offer(leaf)
        if offer is None:
            yield self._table.ask_of(leaf, ask, {})
            return
        every = product(*(group.flavors for group in asked_groups(offer, ask)))
        for flavors in islice(every, _MOST):
            chosen = Combination(flavors, Mode.FIT)
            yield self._table.ask_of(leaf, ask, by_resource(offer, ask, chosen))

    def obstacles(self, session: Session, job: int, ask: Amounts) -> list[Obstacles]:
        """Return what is in the way of the flavors of each group that a job can have none of."""
        leaf = int(self._table.home[session.jobs.queue_of_job[job]])
        offer = self.offer(leaf)
        if offer is not None and self._is_unlisted(leaf, offer, ask):
            return [{}]
        return [ways for _, is_had, ways in self.looked_at(session, job, ask) if not is_had]

    def looked_at(
        self, session: Session, job: int, ask: Amounts
    ) -> Iterator[tuple[Group, bool, Obstacles]]:
        """Yield each group that a job asks for, whether it can have a flavor, and what each lacks.

        Of a group that it can have a flavor of, those after it were not looked at.
        """
        leaf = int(self._table.home[session.jobs.queue_of_job[job]])
        offer = self.offer(leaf)
        if offer is None:
            return
        chooser, nodes = self._chooser(session, job, leaf, offer), self._table.nodes(session)
        for group in asked_groups(offer, ask):
            accepted = self._accepted(session, job, offer, group)
            present = nodes.present(offer, group)
            chosen = chooser.choose_one(request(group, ask, present.intersection(accepted)), {})
            ways = {it.flavor: it.hindrance for it in chosen.attempts}
            yield (
                group,
                bool(chosen.flavors),
                {
                    flavor: Obstacle.NO_MATCH
                    if flavor not in accepted
                    else obstacle_of(ways.get(flavor), is_present=flavor in present)
                    for flavor in group.flavors
                },
            )

    def names(self) -> Sequence[str]:
        """Return the names of the flavors."""
        assert self._table.flavors is not None  # else nobody asks
        return self._table.flavors.names

    def label(self, chosen: Sequence[int]) -> str:
        """Return the name of the set of nodes of some flavors."""
        names = dict.fromkeys(self.names()[each] for each in chosen)
        return f"flavor {' and '.join(names)}"

    # -- one job ---------------------------------------------------------------------------------

    def _code_with(self, session: Session, job: int, asked: Ask) -> int:
        """Return why a job has no room for what it asks for, or 0."""
        leaf = int(self._table.home[session.jobs.queue_of_job[job]])
        if not self._now.holdings(session).fits(leaf, asked):
            return int(refusals.NO_ROOM)
        if not session.jobs.is_preemptible[job]:
            strict = self._strict.holdings(session)
            return int(refusals.STRICT) if is_beyond_quota(strict, leaf, asked) else 0
        return 0

    def _waits(self, session: Session, job: int, offer: Offer) -> bool:
        """Tell whether a job waits for evictions in its first flavor.

        Not if it has promises, nor if it waited in vain in the last cycle.
        """
        if not offer.rules.may_wait or session.jobs.name[job] in self._waited:
            return False
        rows = list(session.jobs.tasks[job])
        return not (session.tasks.nominated_node[rows] >= 0).any()

    def waiting(self, session: Session) -> list[str] | None:
        """Return the jobs that waited for evictions in vain, to take the next flavor after all."""
        flavors = self._table.flavors
        if flavors is None:
            return None
        wait = [leaf for leaf, it in flavors.offer_of.items() if it.rules.may_wait]
        queue = session.jobs.queue_of_job
        rows = np.flatnonzero((queue >= 0) & np.isin(self._table.home[queue], wait))
        rows = rows[(session.pending_of(rows) > 0) & (session.job_active_now[rows] == 0)]
        names = (session.jobs.name[row] for row in rows.tolist())
        return sorted(name for name in names if name not in self._waited) or None

    def _set(
        self,
        session: Session,
        offer: Offer,
        ask: Amounts,
        chosen: Combination,
        flavors: Mapping[int, int],
    ) -> FlavorSet:
        label = self.label(chosen.flavors) if chosen.flavors else "any flavor"
        return FlavorSet(label, self._on(session, offer, ask, chosen), flavors=flavors)

    def _on(self, session: Session, offer: Offer, ask: Amounts, chosen: Combination) -> BoolVec:
        """Return the nodes that are of the flavors of all groups."""
        nodes = self._table.nodes(session)
        mask = np.ones(len(session.nodes), np.bool_)
        for group, flavor in zip(asked_groups(offer, ask), chosen.flavors, strict=True):
            mask &= nodes.flavor_of(offer, group) == flavor
        return mask

    def _combinations(
        self, session: Session, job: int, leaf: int, offer: Offer, ask: Amounts
    ) -> list[Combination]:
        """Return a flavor for each group, the first to be tried first.

        Where a job may have another flavor later in a cycle, those without any node are left out.
        """
        if session.moves != self._moves and not self._is_nominating:
            self._moves = session.moves
            self._known.clear()
        jobs = session.jobs
        groups = asked_groups(offer, ask)
        accepted = [self._accepted(session, job, offer, group) for group in groups]
        if not self._is_nominating:
            present = [self._table.nodes(session).present(offer, group) for group in groups]
            both = zip(accepted, present, strict=True)
            accepted = [tuple(it for it in some if it in there) for some, there in both]
        turn = int(jobs.priority[job]), float(jobs.created_s[job])
        key = leaf, ask.tobytes(), tuple(accepted), turn
        known = self._known.get(key)
        if known is None:
            chooser = self._chooser(session, job, leaf, offer)
            ranked = [
                list(ranked_flavors(chooser, group, ask, accepts))
                for group, accepts in zip(groups, accepted, strict=True)
            ]
            if self._is_unlisted(leaf, offer, ask):
                ranked.append([])
            every = [
                Combination(
                    tuple(flavor for flavor, _ in each),
                    min((way.mode for _, way in each), default=Mode.FIT),
                )
                for each in islice(product(*ranked), 1 if self._is_nominating else _MOST)
            ]
            if len(groups) > 1 and not self._is_nominating:
                every = [it for it in every if self._on(session, offer, ask, it).any()]
            known = self._known[key] = every
        return known

    def _is_unlisted(self, leaf: int, offer: Offer, ask: Amounts) -> bool:
        """Tell whether a resource is asked for that is of flavors, none of them offered."""
        assert self._table.flavors is not None  # the offer is of its table
        listed = {resource for group in offer.groups for resource in group.resources}
        wanted = np.flatnonzero(self._table.flavors.is_flavored[:, leaf] & (ask > 0)).tolist()
        return not listed.issuperset(wanted)

    def _accepted(self, session: Session, job: int, offer: Offer, group: Group) -> tuple[int, ...]:
        """Return the flavors of a group that a job accepts: where it runs, else by its labels."""
        if session.job_active_now[job] > 0:
            own = runs_in(session, self._table, job, offer, group)
            if own >= 0:
                return (own,)
        shape = int(session.jobs.shape_of_job[job])
        rows = list(session.jobs.tasks[job])
        shapes = [shape] if shape >= 0 else np.unique(session.tasks.shape_of_task[rows]).tolist()
        labels = dict(offer.labels)
        every = [session.shapes.constraints[each] for each in shapes]
        return tuple(
            flavor
            for flavor in group.flavors
            if all(accepts(each, labels[flavor]) for each in every)
        )

    def _chooser(self, session: Session, job: int, leaf: int, offer: Offer) -> Chooser:
        sharing = session.queues.sharing[leaf]
        if self._is_nominating:
            if self._start is None:
                self._start = held_at_start(session, self._table)
            holdings = self._start
        else:
            holdings = self._now.holdings(session)
        if self._oracle is None:
            self._oracle = Oracle(session, self._table)
        is_sharing = bool(self._table.is_on[leaf])
        return Chooser(
            holdings,
            leaf,
            offer.groups,
            self._table.pair,
            offer.rules,
            partial(self._oracle.way, session, holdings, job, leaf),
            may_borrow_after_evictions=(is_sharing and sharing.across != NEVER)
            or sharing.borrowing != NEVER,
        )
