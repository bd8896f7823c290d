"""The flavors that jobs may have as of now, as sets of nodes in the order in which they are tried.

Rules F27 to F30 of docs/explanation/fair-sharing.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, product
from typing import Final

import numpy as np

from kaisched import (
    Amounts,
    BoolVec,
    CodeVec,
    RowVec,
    Session,
)
from kaisched_plugins.fair_sharing import refusals
from kaisched_plugins.fair_sharing.asking import (
    Combination,
    asked_groups,
    by_resource,
    ranked_flavors,
    request,
    runs_in,
)
from kaisched_plugins.fair_sharing.by_flavor import FlavorSet, Offer, accepts, flavors_of
from kaisched_plugins.fair_sharing.flavors import (
    Chooser,
    Group,
    Mode,
)
from kaisched_plugins.fair_sharing.holdings import Ask, Holdings
from kaisched_plugins.fair_sharing.obstacles import Obstacle, Obstacles, code_of, obstacle_of
from kaisched_plugins.fair_sharing.oracle import Oracle, held_at_start
from kaisched_plugins.fair_sharing.paths import is_beyond_quota
from kaisched_plugins.fair_sharing.tables import Now, Table, as_columns
from kaisched_plugins.fair_sharing.work import NEVER

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
            any(
                all(
                    holdings.used[leaf][row] + amount <= holdings.rows.subtree[leaf][row]
                    for row, amount in asked
                )
                for asked in self.possible(leaf, ask[:, at])
            )
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
