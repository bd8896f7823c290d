"""Whether a whole plan of evictions may be carried out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Final, NamedTuple

import numpy as np

from kaisched import Amounts, Claim, CodeVec, Session, Units, asked_of
from kaisched_plugins.fair_sharing import refusals
from kaisched_plugins.fair_sharing.quotas import Ask, Holdings, Share
from kaisched_plugins.fair_sharing.tables import Table
from kaisched_plugins.fair_sharing.victims import (
    Lines,
    Rules,
    claim_work,
    contested,
    standing,
    work_of,
)
from kaisched_plugins.fair_sharing.work import (
    FINAL,
    INITIAL,
    NEVER,
    Entry,
    Work,
    borrows_up_to,
    entry_at,
    may_take,
    meeting,
    targets,
    turn_of,
    victim_key,
)

# Which victims of a plan may not go: those that would come first again, and what a queue is owed.
#
# Rules F16 and F25 of docs/explanation/fair-sharing.md.


def unjust(
    holdings: Holdings,
    incoming: Work,
    kept: Sequence[Work],
    lacks: Sequence[int],
    *,
    by_share: bool = True,
) -> Iterator[Work]:
    """Yield the victims that may not be taken; ``holdings`` have lost them all.

    Those that would be admitted before the work they are displaced for, and those of other queues
    without which a queue below where the paths meet would hold less than its own quota. Who comes
    first is decided ``by_share`` (F8), or else by level (F20). ``lacks`` are the rows that the
    claim lacks while the victims run.
    """
    mine: dict[int, Entry] = {}
    for work in kept:
        if work.queue == incoming.queue:
            # Inside a queue shares say nothing about who is served first.
            is_unjust = turn(work) < turn(incoming)
        else:
            node, theirs = meeting(holdings, incoming.queue, work.queue)
            if node not in mine:
                mine[node] = entry_at(holdings, node, incoming)
            before = entry_at(holdings, theirs, work) < mine[node]
            if not by_share:
                before = turn_of(holdings, work) < turn_of(holdings, incoming)
            is_unjust = before or _is_owed(holdings, incoming, work, lacks)
        if is_unjust:
            yield work


def turn(work: Work) -> tuple[float, int, int, float]:
    """Return what work of one queue is ordered by, the first to be served first."""
    return work.usage, -work.priority, work.standing, work.created_s


def _is_owed(holdings: Holdings, incoming: Work, work: Work, lacks: Sequence[int]) -> bool:
    """Tell whether some queue below the meeting point holds its quota or less with the work back.

    Of what the work holds and the claim lacks: what a queue borrows of something else is not what
    the claim wants back.
    """
    holdings.add(work.queue, work.ask)
    held = [at for at, _ in work.ask if at in lacks]
    is_lent = borrows_up_to(holdings, incoming.queue, work.queue, held)
    holdings.take(work.queue, work.ask)
    return not is_lent


# The jobs that wait, by queue, as those that would start if a plan made room for them.


_WAITING: Final = "fair-sharing.waiting"
_CONSTRAINTS: Final = (
    "node_selector",
    "node_terms",
    "node_types",
    "queue_terms",
    "host_ports",
    "pod_affinity",
    "pod_anti_affinity",
    "averse",
    "spread",
    "volume_terms",
    "unbound",
    "wait",
)
"""A job with one of them may fit nowhere, whatever is free: nothing is declined for its sake."""


class Class(NamedTuple):
    """Waiting jobs of one queue that ask for the same."""

    queue: int
    shape: int
    jobs: list[int]
    """The first to be served first."""


def waiting_of(session: Session, table: Table) -> dict[int, list[Class]]:
    """Return the classes of waiting jobs by queue; whether they still wait is asked later.

    Those of the queues in a pool are the pool's.
    """
    known: dict[int, list[Class]] | None = session.found.get(_WAITING)
    if known is not None:
        return known
    jobs = session.jobs
    waits = (jobs.pending > 0) & (jobs.queue_of_job >= 0) & (jobs.refusal == 0)
    rows = np.flatnonzero(waits & (jobs.shape_of_job >= 0))
    rows = rows[np.lexsort((rows, jobs.created_s[rows], -jobs.priority[rows]))]
    podset = jobs.first_podset[rows]
    columns = (
        jobs.queue_of_job[rows],
        jobs.shape_of_job[rows],
        session.podsets.minimum[podset],
        jobs.active[rows],
    )
    classes: dict[tuple[int, ...], Class] = {}
    for row, *key in zip(rows.tolist(), *(column.tolist() for column in columns), strict=True):
        made = classes.get(tuple(key))
        if made is None:
            made = classes[tuple(key)] = Class(key[0], key[1], [])
        made.jobs.append(row)
    constraints = session.shapes.constraints
    found: dict[int, list[Class]] = {}
    for each in classes.values():
        if not any(getattr(constraints[each.shape], name) for name in _CONSTRAINTS):
            found.setdefault(int(table.home[each.queue]), []).append(each)
    session.found[_WAITING] = found
    return found


def first_of(session: Session, each: Class) -> int:
    """Return the first job of a class that still waits, or -1."""
    return next((job for job in each.jobs if session.pending_count(job)), -1)


def free_on_nodes(session: Session) -> Amounts:
    """``(R,)`` what is free on all nodes, with the victims gone."""
    nodes = np.arange(len(session.nodes.name))
    resources = range(len(session.axis))
    free = [np.maximum(session.free(at, nodes), 0).sum() for at in resources]
    return np.array(free, np.int64)


def waiting_work(session: Session, rules: Rules, table: Table, job: int, amounts: Amounts) -> Work:
    """Return a waiting job as work that asks."""
    jobs = session.jobs
    priority = int(jobs.priority[job])
    return Work(
        job,
        int(table.home[jobs.queue_of_job[job]]),
        table.ask(amounts),
        priority,
        float(jobs.created_s[job]),
        name=jobs.name[job],
        usage=rules.used_by(int(jobs.queue_of_job[job])),
        standing=standing(session, job),
        is_high=rules.is_high(priority),
    )


# Whether a victim would take its place back from the claim, once more has started (F16).
#
# In the room that a plan leaves beside the claim other jobs start: victims that the plan needs gone
# in order to be fair, and jobs that wait in the claim's queue. With them the queue of the
# claim may borrow so much that a victim is entitled to the place of the claim again.


_FEW: Final = 8
"""So many jobs of a queue that ask for the same are looked at."""
Sized = tuple[Work, Amounts]
"""Work, and all that it asks for, ``(R,)``."""


def returning(
    session: Session,
    table: Table,
    rules: Rules,
    holdings: Holdings,
    claim: Claim,
    incoming: Work,
    units: Units,
) -> Work | None:
    """Return a victim that would take the place of a claim back; ``holdings`` lost the victims."""
    is_own = units.queue == incoming.queue
    if is_own.all():
        return None
    by_row, jobs = table.by_row(session, units), units.job.tolist()
    after = holdings.copy()
    after.add(incoming.queue, incoming.ask)
    free = free_on_nodes(session) - claim.ask
    mates = []
    for row in np.flatnonzero(is_own)[::-1].tolist():
        work = work_of(session, rules, by_row, row)
        work = work._replace(standing=standing(session, jobs[row]))
        mates.append((work, units.amounts[:, row]))
    mates += _mates(session, table, rules, claim, free)
    mates.sort(key=lambda each: turn(each[0]))
    line, left = [(incoming, claim.ask)], []
    for each in mates:
        if _fits(after, each, free):
            after.add(each[0].queue, each[0].ask)
            free = free - each[1]
            line.append(each)
    if len(line) == 1:  # without more in the queue of the claim nothing has changed for them
        return None
    for row in np.flatnonzero(~is_own)[::-1].tolist():
        each = work_of(session, rules, by_row, row), units.amounts[:, row]
        if _fits(after, each, free):
            after.add(each[0].queue, each[0].ask)
            free = free - each[1]
        else:
            left.append(each)
    taking = _Taking(session, rules, after, free)
    return next((each[0] for each in left if taking.takes(each, line)), None)


def _mates(
    session: Session, table: Table, rules: Rules, claim: Claim, free: Amounts
) -> Iterator[Sized]:
    """Yield jobs that wait in the queue of a claim and might start beside it, a few of each."""
    for each in waiting_of(session, table).get(claim.queue, ()):
        waits = (job for job in each.jobs if job != claim.job and session.pending_count(job))
        for job in islice(waits, _FEW):
            amounts = asked_of(session, job)
            if (amounts > free).any():
                break
            yield waiting_work(session, rules, table, job, amounts), amounts


class _Taking(NamedTuple):
    """What is held and free once all that starts has started."""

    session: Session
    rules: Rules
    holdings: Holdings
    free: Amounts

    def takes(self, sized: Sized, line: Sequence[Sized]) -> bool:
        """Tell whether work would take the first of a line of one queue."""
        work, _ = sized
        now, rules, wanted = self.holdings.copy(), self.rules, line[0][0]
        lacks = contested(now, work)
        open_ = self._open(work, line, lacks)
        now.add(work.queue, work.ask)
        free, taken = self.free, list[Sized]()
        lines = {wanted.queue: [each for each, _ in open_]}
        size_of = {id(each): size for each, size in open_}
        for each in targets(now, work, lines, lacks, rules.strategies, lambda _, at: (at,)):
            taken.append((each, size_of[id(each)]))
            free = free + size_of[id(each)]
            now.take(work.queue, work.ask)
            if _fits(now, sized, free):
                return any(it is wanted for it, _ in _needed(now, sized, taken, free))
            now.add(work.queue, work.ask)
        return False

    def _open(self, work: Work, line: Sequence[Sized], lacks: Sequence[int]) -> list[Sized]:
        """Return what work may take of a line, the first to go first (F11, F12)."""
        policy = self.session.queues.sharing[work.queue].across
        priority = np.array([each.priority for each, _ in line])
        created_s = np.array([each.created_s for each, _ in line])
        may = may_take(policy, work, priority, created_s).tolist()
        some = [
            each
            for each, is_open in zip(line, may, strict=True)
            if is_open and any(at in lacks for at, _ in each[0].ask)
        ]
        rows, by_size = self.holdings.rows, self.rules.by_size
        return sorted(
            some,
            key=lambda it: (-it[0].usage, victim_key(rows, work.queue, it[0], by_size=by_size)),
        )


def _fits(holdings: Holdings, sized: Sized, free: Amounts) -> bool:
    work, amounts = sized
    return bool((amounts <= free).all()) and holdings.fits(work.queue, work.ask)


def _needed(holdings: Holdings, sized: Sized, taken: Sequence[Sized], free: Amounts) -> list[Sized]:
    """Return the victims without which work would not fit, the last one put back first."""
    needed = list(taken)
    for each in reversed(taken[:-1]):
        work, amounts = each
        holdings.add(work.queue, work.ask)
        if _fits(holdings, sized, free - amounts):
            needed = [it for it in needed if it is not each]
            free = free - amounts
        else:
            holdings.take(work.queue, work.ask)
    return needed


# Which waiting job would take the place that a plan makes: no plan is overtaken at once (F16).
#
# Two jobs never displace each other, but three could for ever: a claim takes the place of a small
# job of its own queue, with the idle room beside it. A job of a third queue, which comes before the
# claim but not before the small one, takes it all; and the small one takes its quota back from
# that. So a claim gives way to a job which waits, fits into the place but not beside the claim,
# comes first in the knock-out, and whose walk begins at the queue of the claim.


_MOST: Final = 64
"""So many classes of waiting jobs are looked at for a plan, the lowest shares first."""


class _Place(NamedTuple):
    """What a plan frees, before the claim has it."""

    session: Session
    table: Table
    rules: Rules
    holdings: Holdings
    """Without the victims, and without the claim."""
    incoming: Work
    ask: Amounts
    """``(R,)`` of the claim."""
    free: Amounts
    """``(R,)`` on all nodes."""


def undone(
    session: Session,
    table: Table,
    rules: Rules,
    holdings: Holdings,
    claim: Claim,
    incoming: Work,
    units: Units,
) -> int:
    """Return why a plan would be undone at once, or 0; ``holdings`` lost the victims.

    Only what shares entitle to undoes a plan: a claim of high priority, one that is not preemptible
    and one of a tree without fair sharing keep their places. With flavors nobody is asked: a job
    that waits has chosen none yet.
    """
    is_open = table.is_on[claim.queue] and session.jobs.is_preemptible[claim.job]
    if incoming.is_high or not is_open or table.flavors is not None:
        return 0
    if returning(session, table, rules, holdings, claim, incoming, units):
        return int(refusals.COMES_BACK)
    if overtaken_by(session, table, rules, holdings, claim, incoming):
        return int(refusals.OVERTAKEN)
    return 0


def overtaken_by(
    session: Session, table: Table, rules: Rules, holdings: Holdings, claim: Claim, incoming: Work
) -> Work | None:
    """Return the waiting job that would take the place; ``holdings`` lost the victims."""
    place = _Place(session, table, rules, holdings, incoming, claim.ask, free_on_nodes(session))
    return next(_rivals(place), None)


def _rivals(place: _Place) -> Iterator[Work]:
    """Yield the jobs that would take the place, of those that are looked at."""
    for each, node, mine in islice(_candidates(place), _MOST):
        work = _rival(place, each, node, mine)
        if work is not None:
            yield work


def _candidates(place: _Place) -> Iterator[tuple[Class, int, Entry]]:
    """Yield classes of waiting jobs, level by level as long as the claim's queue borrows there.

    With each the queue below the meeting point, and the entry of the claim there. Queues with a
    share above that of the claim have no job that comes first.
    """
    holdings, incoming = place.holdings, place.incoming
    rows, asked = holdings.rows, [at for at, _ in incoming.ask]
    waiting = waiting_of(place.session, place.table)
    path = rows.path(incoming.queue)
    holdings.add(incoming.queue, incoming.ask)
    borrows = [holdings.is_over(node, asked) for node in path]
    holdings.take(incoming.queue, incoming.ask)
    for (node, above), is_over in zip(pairwise(path), borrows, strict=False):
        if not is_over:  # what lies wholly within a quota is never taken
            return
        mine = entry_at(holdings, node, incoming)
        lower = [
            (holdings.terms(other).share, other)
            for other in rows.children[above]
            if other != node and not holdings.terms(other).share > mine.share
        ]
        lower.sort(key=lambda it: it[0])
        for _, other in lower:
            for leaf in _leaves(holdings, other, waiting):
                yield from ((each, other, mine) for each in waiting[leaf])


def _leaves(holdings: Holdings, node: int, waiting: dict[int, list[Class]]) -> Iterator[int]:
    """Yield the leaves at or below a queue that have waiting jobs."""
    stack = [node]
    while stack:
        queue = stack.pop()
        if queue in waiting:
            yield queue
        stack.extend(holdings.rows.children[queue])


def _rival(place: _Place, each: Class, node: int, mine: Entry) -> Work | None:
    """Return the first job of a class, if the claim would give way to it."""
    session, holdings = place.session, place.holdings
    job = first_of(session, each)
    if job < 0:
        return None
    amounts = asked_of(session, job)
    if not amounts.any():
        return None
    work = waiting_work(session, place.rules, place.table, job, amounts)
    if not _may_take(place, work) or not entry_at(holdings, node, work) < mine:
        return None
    return work if _fits_alone(place, each, work, amounts) else None


def _fits_alone(place: _Place, each: Class, work: Work, amounts: Amounts) -> bool:
    """Tell whether a job fits into the place, but not beside the claim, and begins with it."""
    session, holdings, incoming = place.session, place.holdings, place.incoming
    if (amounts > place.free).any() or not holdings.fits(work.queue, work.ask):
        return False
    is_strict = not session.jobs.is_preemptible[work.row]
    if is_strict and entry_at(holdings, work.queue, work).borrows:
        return False  # what is not preemptible never borrows
    if not _fits_on_nodes(session, each.shape, amounts):
        return False
    holdings.add(incoming.queue, incoming.ask)
    is_beside = bool((amounts + place.ask <= place.free).all())
    is_beside = is_beside and holdings.fits(work.queue, work.ask)
    begins = not is_beside and _begins_at(holdings, work, incoming)
    holdings.take(incoming.queue, incoming.ask)
    return begins


def _may_take(place: _Place, work: Work) -> bool:
    """Tell whether the policy of a job's queue lets it take the claim's place (F11)."""
    incoming = place.incoming
    policy = place.session.queues.sharing[work.queue].across
    if work.is_high:
        return policy != NEVER
    priority, created_s = np.array([incoming.priority]), np.array([incoming.created_s])
    return bool(may_take(policy, work, priority, created_s)[0])


def _fits_on_nodes(session: Session, shape: int, amounts: Amounts) -> bool:
    """Tell whether all pods of a job find room on nodes, one by one."""
    request = session.shapes.request[:, shape]
    at = int(request.argmax())
    return int(session.room_once_released(shape).sum()) * int(request[at]) >= int(amounts[at])


def _begins_at(holdings: Holdings, work: Work, incoming: Work) -> bool:
    """Tell whether the walk of a job begins at the claim's queue (F13); the claim is counted in."""
    lacks = contested(holdings, work)
    rows = holdings.rows
    theirs, mine = set(rows.path(work.queue)), set(rows.path(incoming.queue))
    holdings.add(work.queue, work.ask)
    node = rows.path(incoming.queue)[-1]
    while node != incoming.queue:
        open_ = [
            child
            for child in rows.children[node]
            if child != work.queue and (child in theirs or holdings.is_over(child, lacks))
        ]
        if not open_:
            break
        node = max(open_, key=lambda child: (holdings.terms(child).share, child in mine))
        if node not in mine:
            break
    holdings.take(work.queue, work.ask)
    return node == incoming.queue


# Which sets of victims a claim is entitled to, and whether a plan lasts.
#
# Rules F10 to F16 and F25 of docs/explanation/fair-sharing.md.


def set_codes(
    session: Session,
    table: Table,
    rules: Rules,
    holdings: Holdings,
    claim: Claim,
    units: Units,
    lines: Lines | None,
) -> CodeVec:
    """Return ``(V,)`` why units may not go for a claim along with the others of their set.

    The units of a set are judged one after the other, those of the claim's own queue first. What a
    claim is entitled to rests on those before it, and by the second rule on those before it in its
    line; whether it would come first again, or is owed to its queue, on the whole set. What the
    cycle has started goes first, and cannot go. ``holdings`` stay as they are.
    """
    by_row = table.by_row(session, units)
    incoming = claim_work(session, table, rules, claim)
    incoming = incoming._replace(standing=standing(session, claim.job))
    gate = _Gate(table, rules, holdings, claim, incoming, lines)
    codes = np.zeros(len(units), np.int16)
    sets = np.zeros(len(units), np.int64) if units.alternative is None else units.alternative
    cuts = (np.flatnonzero(sets[1:] != sets[:-1]) + 1).tolist()
    for begin, end in pairwise((0, *cuts, len(units))):
        gone = [task for row in range(begin, end) for task in units.tasks[row]]
        works = [
            work_of(session, rules, by_row, row)._replace(
                standing=standing(session, int(units.job[row]), gone)
            )
            for row in range(begin, end)
        ]
        works.sort(key=lambda work: work.queue != incoming.queue)
        first = {work.row: units.tasks[work.row][0] for work in works}
        for row, code in gate.refusals(works, first):
            codes[row] = code
    return codes


class _Gate:
    """Judges sets of victims of one claim."""

    def __init__(
        self,
        table: Table,
        rules: Rules,
        holdings: Holdings,
        claim: Claim,
        incoming: Work,
        lines: Lines | None,
    ) -> None:
        self._lines = lines
        self._holdings = holdings
        self._incoming = incoming
        self._by_share = bool(table.is_on[claim.queue])
        self._lacks = contested(holdings, incoming)
        holdings.add(incoming.queue, incoming.ask)
        self._is_reclaim = holdings.is_within(incoming.queue, self._lacks)
        holdings.take(incoming.queue, incoming.ask)
        is_last = claim.pass_number > 0 or len(rules.strategies) == 1
        self._strategies = rules.strategies if is_last else rules.strategies[:1]
        self._higher = refusals.HIGHER_SHARE if is_last else refusals.LATER

    def refusals(self, works: Sequence[Work], first: Mapping[int, int]) -> list[tuple[int, int]]:
        """Return the rows of works of one set that may not go, with the codes.

        ``first`` has the first task of each, by row.
        """
        holdings, incoming, own = self._holdings, self._incoming, self._incoming.queue
        holdings.add(own, incoming.ask)
        taken: list[Work] = []
        refused: list[tuple[int, int]] = []
        for work in works:
            started = self._started(work.queue)
            holdings.take(work.queue, started)
            code = self._refusal(work, first)
            holdings.add(work.queue, started)
            if code:
                refused.append((work.row, code))
            else:
                holdings.take(work.queue, work.ask)
                taken.append(work)
        holdings.take(own, incoming.ask)
        if not refused:
            back = unjust(holdings, incoming, taken, self._lacks, by_share=self._by_share)
            refused = [(work.row, int(refusals.COMES_BACK)) for work in back]
        for work in taken:
            holdings.add(work.queue, work.ask)
        return refused

    def _started(self, queue: int) -> Ask:
        """Return what the cycle has started of another queue: it goes first, and cannot go."""
        is_own = queue == self._incoming.queue
        return () if self._lines is None or is_own else self._lines.started_of(queue)

    def _refusal(self, work: Work, first: Mapping[int, int]) -> int:
        """Return why the claim is not entitled to a work after those before it, or 0."""
        holdings, incoming = self._holdings, self._incoming
        if work.queue == incoming.queue:
            return 0
        if not borrows_up_to(holdings, incoming.queue, work.queue, self._lacks):
            return int(refusals.NOT_BORROWING)
        if not self._by_share or incoming.is_high or self._is_reclaim:
            return 0
        mine, theirs = meeting(holdings, incoming.queue, work.queue)
        share = holdings.terms(mine).share
        if FINAL in self._strategies and share <= self._share_without(theirs, work, work.ask):
            return 0
        if INITIAL in self._strategies:
            chosen = set(first.values())
            ahead = self._lines.ahead(work.queue, first[work.row], chosen) if self._lines else ()
            if share < self._share_without(theirs, work, ahead):
                return 0
        return int(self._higher)

    def _share_without(self, node: int, work: Work, ask: Ask) -> Share:
        """Return the share of a queue once a leaf below it holds less."""
        self._holdings.take(work.queue, ask)
        share = self._holdings.terms(node).share
        self._holdings.add(work.queue, ask)
        return share


def plan_codes(
    session: Session, table: Table, rules: Rules, holdings: Holdings, claim: Claim, units: Units
) -> CodeVec:
    """Return ``(V,)`` why units may not go for a claim; ``holdings`` have lost them.

    One refusal is enough: where any of them may not go, there is no such plan.
    """
    incoming = claim_work(session, table, rules, claim)
    incoming = incoming._replace(standing=standing(session, claim.job))
    codes = np.zeros(len(units), np.int16)
    codes[0] = undone(session, table, rules, holdings, claim, incoming, units)
    return codes
