"""Advice on pending jobs, tried within a budget: the record, and the changes that would help."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from kaisched.core.refusals import code_named
from kaisched.framework.advice.advice import Advice, Kind, sentence_of
from kaisched.framework.advice.proposals import proposals
from kaisched.framework.advice.trials import Trials

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.framework.advice.advice import Change
    from kaisched.framework.report.records import CycleResult, DecisionRecord
    from kaisched.framework.session.session import Session

BUDGET: Final = 100_000
"""The most that the trials of one result may cost, in steps of 5 us: half a second (measured)."""
TRIALS: Final = 4
"""At most so many changes are tried for a job."""
LOOK: Final = 200
"""The cost of finding the changes to try for a job, in steps of 5 us."""


def more_nodes(changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """Return more nodes to try: other jobs may be placed first on those that were tried."""
    return (replace(changes[0], amount=2 * changes[0].amount + 1), *changes[1:])


class Adviser:
    """Tries changes for the pending jobs of one result, until the budget is used up."""

    def __init__(self, result: CycleResult, budget: int = BUDGET) -> None:
        """Start without trials."""
        self._records = result.records
        self._session: Session = result.records.session
        # A trial asks the same plugins: after a failure its result would be of that failure.
        self._left = 0 if result.stats.abandoned or result.failures else budget
        self._trials = Trials(self._session)

    def record(self, job: int) -> DecisionRecord:
        """Return the record of one job with the advice that was tried."""
        return self._advised(job, self._records.record(job))

    def records(self) -> Iterator[DecisionRecord]:
        """Return the records of all jobs that stay pending, by name."""
        return (record for _, record in self.records_by_row())

    def records_by_row(self) -> Iterator[tuple[int, DecisionRecord]]:
        """Return the row and the record of each job that stays pending, by name."""
        name = self._session.jobs.name
        rows = sorted(self._records.rows.tolist(), key=lambda row: name[row])
        return ((row, self.record(row)) for row in rows)

    def _advised(self, job: int, record: DecisionRecord) -> DecisionRecord:
        advice: list[Advice] = []
        found = proposals(self._session, job, code_named(record.reason, record.plugin))
        for kind, changes in islice(found if self._left >= self._trials.steps else (), TRIALS):
            if self._left < self._trials.steps:
                break
            advice.append(self._tried(job, kind, changes))
        if not advice:
            return record
        message = f"{record.message}; {sentence_of(advice)}"
        return replace(record, message=message, advice=tuple(advice))

    def _tried(self, job: int, kind: Kind, changes: tuple[Change, ...]) -> Advice:
        is_enough = self._helps(job, kind, changes)
        if kind is Kind.NODES and not is_enough and self._left >= self._trials.steps:
            more = more_nodes(changes)
            if self._helps(job, kind, more):
                return Advice(kind, more, helps=True)
        return Advice(kind, changes, is_enough)

    def _helps(self, job: int, kind: Kind, changes: tuple[Change, ...]) -> bool:
        is_known = self._trials.is_known(job, kind, changes)
        self._left -= LOOK if is_known else self._trials.steps
        return self._trials.helps(job, kind, changes)
