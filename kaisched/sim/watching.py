"""Who looks on while a replay runs: what it may be told, and one that does not care."""

from __future__ import annotations

from typing import Protocol

from kaisched.framework.report.records import CycleResult


class Watch(Protocol):
    """Hears of jobs as they start and stop, and sees the cluster after each cycle.

    Nothing changes between two cycles: what is seen after one holds up to the next.
    """

    def arrive(self, job: int, tick: int) -> None:
        """Take note that a job comes."""
        ...

    def start(self, job: int, tick: int) -> None:
        """Take note that a job starts, or starts again."""
        ...

    def finish(self, job: int, tick: int) -> None:
        """Take note that a job ends by itself."""
        ...

    def stop(self, job: int, tick: int, redone: int, *, is_failure: bool) -> None:
        """Take note that a job is evicted or its node fails, and that it does work again."""
        ...

    def sample(self, tick: int, fair_share: list[int]) -> None:
        """Look at the fair shares, in thousandths of a GPU by queue, that hold at a tick."""
        ...

    def after(self, result: CycleResult, tick: int) -> None:
        """Look at what a cycle decided, once it is done."""
        ...


class Blind:
    """Looks away."""

    def arrive(self, job: int, tick: int) -> None:
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
