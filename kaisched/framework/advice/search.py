"""Finds the changes that let a job start, and of each the least that is enough.

What is advised was tried, and so was a little less, which is not enough. Where no change helps by
itself, what the job waits for after one says what to try together with it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import gcd
from typing import TYPE_CHECKING, Final, NamedTuple

from kaisched.core.axis import CPU, GPU, GPU_UNIT
from kaisched.core.refusals import code_named
from kaisched.framework.advice.advice import Advice, Kind, parts, sentence_of, together
from kaisched.framework.advice.proposals import proposals
from kaisched.framework.advice.trials import Trials
from kaisched.framework.report.turns import Turns
from kaisched.framework.session.batches import batch_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kaisched.framework.advice.advice import Change, Proposal
    from kaisched.framework.report.records import DecisionRecord
    from kaisched.framework.report.result import CycleResult
    from kaisched.framework.session.session import Session

KINDS: Final = 4
"""At most so many kinds of change are tried for a job."""
_DOUBLINGS: Final = 5
"""So often an amount is doubled that starts other jobs first."""
_JOINED: Final = frozenset(
    {Kind.QUOTA, Kind.LIMIT, Kind.NODES, Kind.SELECTOR, Kind.TOLERATIONS, Kind.PREEMPTIBLE}
)
"""Kinds of changes that are tried together."""
_MOST_JOINED: Final = 3


class Untried(Exception):  # noqa: N818 - no error
    """The steps for trials are used up."""


class Verdict(NamedTuple):
    """What a trial showed."""

    helps: bool
    others: bool = False
    """It starts other waiting jobs, and not this one."""


class _Dial(NamedTuple):
    """The amounts that a change may have: from ``low``, which is how it is now, in units."""

    low: int
    unit: int
    """Below 0 where the change lowers an amount."""

    def amounts(self, most: int) -> range:
        """Return the whole units between, the least change first."""
        unit, sign = abs(self.unit), 1 if self.unit > 0 else -1
        return range(sign * (sign * self.low // unit * unit + unit), most, self.unit)


class Search:
    """The search for advice for one job."""

    def __init__(
        self,
        session: Session,
        job: int,
        judge: Callable[[Proposal], Verdict],
        after: Callable[[Proposal], Iterable[Proposal]],
    ) -> None:
        """Start without advice.

        Args:
            session: the session of the cycle, which is over.
            job: the row of the job.
            judge: tries a change; raises :class:`Untried` if it may not.
            after: returns what to try for the job with a change made; raises it likewise.

        """
        self._session, self._job, self._judge, self._after = session, job, judge, after
        self._found: dict[Kind, Advice] = {}

    @property
    def advice(self) -> tuple[Advice, ...]:
        """One change of each kind: the least that helps, else the first that does not."""
        return tuple(self._found.values())

    def run(self, ideas: Iterable[Proposal]) -> bool:
        """Search, beginning with some changes; False if steps did not suffice."""
        try:
            for proposal in ideas:
                known = self._found.get(proposal[0])
                if known is None and len(self._found) == KINDS:
                    break
                if known is None or not known.helps or self._is_cheaper(proposal, known):
                    self._look_at(proposal)
            if not any(it.helps or it.others_first for it in self.advice):
                self._join()
        except Untried:
            return False
        return True

    def _look_at(self, proposal: Proposal) -> None:
        verdict = self._judge(proposal)
        if not verdict.helps:
            failed = Advice(*proposal, helps=False, others_first=verdict.others)
            self._found.setdefault(proposal[0], failed)
        self._is_settled(proposal, verdict)

    def _join(self) -> None:
        """Try what is not enough by itself together with what the job waits for after it."""
        alone = [it for it in self.advice if it.kind in _JOINED]
        for first in alone[:2]:
            joined: Proposal | None = self._wider((first.kind, first.changes))
            for _ in range(_MOST_JOINED - 1):
                if joined is None:
                    break
                if self._is_settled(joined, self._judge(joined)):
                    return
                joined = self._wider(joined)

    def _wider(self, joined: Proposal) -> Proposal | None:
        known = {kind for kind, _ in parts(*joined)}
        for more in self._after(joined):
            kind = more[0]
            if kind in _JOINED and not (kind is Kind.NODES and kind in known):
                wider = together(joined, more)
                if wider != joined:
                    return wider
        return None

    def _is_settled(self, proposal: Proposal, verdict: Verdict) -> bool:
        """Keep the least of a change, or of a larger one, that helps; False if none does."""
        kind, changes = proposal
        failed: tuple[Change, ...] = ()
        for _ in range(_DOUBLINGS):
            if verdict.helps:
                break
            larger = self._larger(kind, changes, is_for_others=verdict.others)
            if larger == changes:
                return False
            failed, changes = changes, larger
            verdict = self._judge((kind, changes))
        if not verdict.helps:
            return False
        known = self._found.get(kind)
        if known is None or not known.helps:
            self._found[kind] = Advice(kind, changes, helps=True, is_least=False)
        least = self._least(kind, changes, failed)
        if known is None or not known.helps or self._is_cheaper(least, known):
            self._found.pop(kind)
            self._found[least[0]] = Advice(*least, helps=True)
        return True

    def _larger(
        self, kind: Kind, changes: tuple[Change, ...], *, is_for_others: bool
    ) -> tuple[Change, ...]:
        """Return larger changes: with room for other jobs too, or for all pods of the batch."""

        def larger(it: Change) -> int:
            own, dial = it.kind or kind, self._dial(kind, it)
            if own is Kind.NODES and not it.resource:
                size = batch_of(self._session, self._job)[1]
                return 2 * it.amount + 1 if is_for_others else max(it.amount, size)
            if own is Kind.MINIMUM:
                return 1
            if own in (Kind.QUOTA, Kind.LIMIT) and dial is not None and is_for_others:
                return 2 * it.amount - dial.low
            return it.amount

        return tuple(replace(it, amount=larger(it)) for it in changes)

    def _is_cheaper(self, proposal: Proposal, known: Advice) -> bool:
        """Tell whether other nodes are cheaper than those that help: by GPUs, then by CPUs."""
        if proposal[0] is not Kind.NODES:
            return False
        nodes = self._session.nodes

        def cost(changes: tuple[Change, ...]) -> tuple[int, int]:
            row, count = list(nodes.name).index(changes[0].on), changes[0].amount
            gpus, cpus = (count * int(nodes.allocatable[at, row]) for at in (GPU, CPU))
            return gpus, cpus

        return cost(proposal[1]) < cost(known.changes)

    # -- the least that helps --------------------------------------------------------------------

    def _least(
        self, kind: Kind, changes: tuple[Change, ...], failed: tuple[Change, ...]
    ) -> Proposal:
        """Return the least of changes that help; ``failed`` are smaller ones that do not."""
        for piece in _pieces(kind, changes):
            rest = [it for it in _pieces(kind, changes) if it != piece]
            if rest and self._judge(together(*rest)).helps:
                (kind, changes), failed = together(*rest), ()
        dials = [self._dial(kind, it) for it in changes]
        is_one = sum(dial is not None for dial in dials) == 1
        for at, dial in enumerate(dials):
            if dial is not None:
                low = failed[at].amount if failed and is_one else dial.low
                amount = self._turned(kind, changes, at, dial._replace(low=low))
                changes = _with_amount(changes, at, amount)
        return kind, changes

    def _turned(self, kind: Kind, changes: tuple[Change, ...], at: int, dial: _Dial) -> int:
        """Return the amount of one change that is enough where one unit less is not."""
        amounts: list[int] = [*dial.amounts(changes[at].amount), changes[at].amount]
        few, enough, middle = -1, len(amounts) - 1, len(amounts) - 2
        while enough - few > 1:
            if self._judge((kind, _with_amount(changes, at, amounts[middle]))).helps:
                enough = middle
            else:
                few = middle
            middle = (few + enough) // 2
        return amounts[enough]

    def _dial(self, kind: Kind, change: Change) -> _Dial | None:
        return _dial(self._session, self._job, kind, change)


def lesser(session: Session, job: int, proposal: Proposal) -> list[Proposal]:
    """Return changes that are a little less: one of them left out, or by a unit smaller."""
    kind, changes = proposal
    pieces = _pieces(kind, changes)
    found = [
        together(*(it for it in pieces if it != piece))
        for piece in (pieces if len(pieces) > 1 else ())
    ]
    for at, change in enumerate(changes):
        dial = _dial(session, job, kind, change)
        if dial is not None and (amounts := dial.amounts(change.amount)):
            found.append((kind, _with_amount(changes, at, amounts[-1])))
    return found


def _dial(session: Session, job: int, kind: Kind, change: Change) -> _Dial | None:
    """Return which amounts a change may have; None for one without."""
    own = change.kind or kind
    if own in (Kind.NODES, Kind.TIME) and not change.resource:
        return _Dial(0, 1)
    if own is Kind.MINIMUM:
        return _Dial(int(session.podsets.minimum[int(session.jobs.first_podset[job])]), -1)
    if own not in (Kind.QUOTA, Kind.LIMIT):
        return None
    queues, row = session.queues, session.axis.position.get(change.resource, -1)
    bound = queues.limit if own is Kind.LIMIT else queues.deserved
    if row < 0 or change.on not in queues.row_of_name:
        return None
    low = int(bound[row, queues.row_of_name[change.on]])
    if change.amount <= low:
        return None
    whole = GPU_UNIT if row in (GPU, CPU) else 0
    unit = gcd(whole, *session.shapes.charge[row].tolist()) or 1
    return _Dial(low, max(unit, (change.amount - low) // _MOST_UNITS))


_MOST_UNITS: Final = 1024


def _pieces(kind: Kind, changes: tuple[Change, ...]) -> list[Proposal]:
    """Return the changes one by one, but those of one node together."""
    return [
        (own, some)
        for own, of_kind in parts(kind, changes)
        for some in ([(it,) for it in of_kind] if own in (Kind.QUOTA, Kind.LIMIT) else [of_kind])
    ]


def _with_amount(changes: tuple[Change, ...], at: int, amount: int) -> tuple[Change, ...]:
    return (*changes[:at], replace(changes[at], amount=amount), *changes[at + 1 :])


# -- the advice of a result ------------------------------------------------------------------------

BUDGET: Final = 100_000
"""The most that the trials of one result may cost, in steps of 5 us: half a second (measured)."""
LOOK: Final = 200
"""The cost of finding the changes to try for a job, in steps of 5 us."""


class Adviser:
    """Tries changes for the pending jobs of one result, until the budget is used up."""

    def __init__(self, result: CycleResult, budget: int = BUDGET) -> None:
        """Start without trials."""
        self._records = result.records
        self._session: Session = result.records.session
        # A trial asks the same plugins: after a failure its result would be of that failure.
        self._left = 0 if result.stats.abandoned or result.failures else budget
        self._trials = Trials(self._session)
        self._turns = Turns(result)

    def record(self, job: int) -> DecisionRecord:
        """Return the record of one job with the advice that was tried."""
        record = self._records.record(job)
        if self._left <= 0:
            return record
        self._left -= LOOK
        search = Search(self._session, job, partial(self._judge, job), partial(self._after, job))
        search.run(proposals(self._session, job, code_named(record.reason, record.plugin)))
        if not search.advice:
            return record
        said = sentence_of(search.advice, ahead=lambda: self._turns.ahead_of(job))
        return replace(record, message=f"{record.message}; {said}", advice=search.advice)

    def records(self) -> Iterator[DecisionRecord]:
        """Return the records of all jobs that stay pending, by name."""
        return (record for _, record in self.records_by_row())

    def records_by_row(self) -> Iterator[tuple[int, DecisionRecord]]:
        """Return the row and the record of each job that stays pending, by name."""
        name = self._session.jobs.name
        rows = sorted(self._records.rows.tolist(), key=lambda row: name[row])
        return ((row, self.record(row)) for row in rows)

    def _judge(self, job: int, proposal: Proposal) -> Verdict:
        if not self._trials.is_known(job, *proposal):
            self._pay()
        helps = self._trials.helps(job, *proposal)
        return Verdict(helps, not helps and self._trials.helps_any(job, *proposal))

    def _after(self, job: int, proposal: Proposal) -> list[Proposal]:
        self._pay()
        return self._trials.after(job, *proposal)

    def _pay(self) -> None:
        if self._left < self._trials.steps:
            raise Untried
        self._left -= self._trials.steps
