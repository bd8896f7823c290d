"""Observers of a replay: their interface, and an observer that ignores everything."""

from __future__ import annotations

from typing import Protocol

from kaisched.framework.report.result import CycleResult


class Watch(Protocol):
    """Observer that is told of jobs as they start and stop, and of the cluster after each cycle.

    Nothing changes between two cycles: the state after one holds until the next.
    """

    def arrive(self, job: int, tick: int) -> None:
        """Note that a job arrives."""
        ...

    def move(self, job: int, before: int, tick: int) -> None:
        """Note that a waiting job has left a queue for that of its project in another pool."""
        ...

    def start(self, job: int, tick: int) -> None:
        """Note that a job starts, perhaps not for the first time."""
        ...

    def finish(self, job: int, tick: int) -> None:
        """Note that a job ends by itself."""
        ...

    def stop(self, job: int, tick: int, redone: int, *, is_failure: bool) -> None:
        """Note that a job is evicted or its node fails, and that it will repeat work."""
        ...

    def sample(self, tick: int, fair_share: list[int]) -> None:
        """Note the fair shares, in thousandths of a GPU by queue, at a tick."""
        ...

    def after(self, result: CycleResult, tick: int) -> None:
        """Note the decisions of a cycle, after they have taken effect."""
        ...


class Blind:
    """Looks away."""

    def arrive(self, job: int, tick: int) -> None:
        """Nothing."""

    def move(self, job: int, before: int, tick: int) -> None:
        """Nothing."""

    def start(self, job: int, tick: int) -> None:
        """Nothing."""

    def finish(self, job: int, tick: int) -> None:
        """Nothing."""

    def stop(self, job: int, tick: int, redone: int, *, is_failure: bool) -> None:
        """Nothing."""

    def sample(self, tick: int, fair_share: list[int]) -> None:
        """Nothing."""

    def after(self, result: CycleResult, tick: int) -> None:
        """Nothing."""
