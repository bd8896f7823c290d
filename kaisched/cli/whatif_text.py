"""The difference that a change makes, as tables and as ``kaisched.io/whatif/v1``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kaisched.cli.printing import Column, print_table
from kaisched.cli.when_text import bounded, when_document, when_lines
from kaisched.engine.planning import failures_of
from kaisched.engine.replaying import replay
from kaisched.sim.forecast.forecast import Forecast, world_of
from kaisched.sim.forecast.history import past_of
from kaisched.sim.forecast.settling import settled
from kaisched.units import format_amount
from kaisched.view.documents import queue_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.daemon.taking import Taken
    from kaisched.engine.recording import Recording
    from kaisched.engine.replaying import Replay
    from kaisched.framework.report.records import QueueShare
    from kaisched.sim.forecast.settling import Eviction, JobState, Settled

SCHEMA: Final = "kaisched.io/whatif/v1"
_JOBS: Final = (Column("JOB"), Column("QUEUE", may_go=True), Column("WITHOUT"), Column("WITH"))
_REASONS: Final = (Column("JOB"), Column("BECAUSE"))
_EVICTIONS: Final = (Column("POD"), Column("BY", may_go=True), Column("FOR"), Column("BECAUSE"))
_QUEUES: Final = (
    Column("QUEUE"),
    Column("FAIR SHARE", is_number=True),
    Column("ALLOCATED", is_number=True),
    Column("REQUESTED", is_number=True, may_go=True),
    Column("DESERVED", is_number=True, may_go=True),
)
_AMOUNTS: Final = ("fair_share", "allocated", "requested", "deserved")
_MOST_FORECASTS: Final = 10


@dataclass(frozen=True)
class Difference:
    """A state without and with a change, each after all has settled."""

    without: Settled
    with_it: Settled
    warnings: list[str]
    problems: list[str]
    """Problems of objects and of plugins; also among the warnings."""
    foreseen: dict[str, Forecast]
    """By submitted job that waits: when it may start."""

    def jobs(self) -> Iterator[tuple[str, str, JobState | None, JobState | None]]:
        """Yield the name and queue of the jobs that differ, without and with the change."""
        for name in sorted(self.without.jobs.keys() | self.with_it.jobs.keys()):
            before, after = self.without.jobs.get(name), self.with_it.jobs.get(name)
            if before is None or after is None or _state(before) != _state(after):
                there = after or before
                yield name, there.queue if there is not None else "", before, after

    def evictions(self) -> list[Eviction]:
        """Return the evictions that the change causes."""
        known = {it.pod for it in self.without.evictions}
        return [it for it in self.with_it.evictions if it.pod not in known]

    def queues(self) -> Iterator[tuple[str, QueueShare | None, QueueShare | None]]:
        """Yield the queues that differ, in the order of the tree."""
        before = {share.name: share for share in self.without.shares}
        after = {share.name: share for share in self.with_it.shares}
        for name in dict.fromkeys((*before, *after)):
            one, other = before.get(name), after.get(name)
            if one is None or other is None or queue_document(one) != queue_document(other):
                yield name, one, other


def compare(found: Taken, changed: Recording, file: str, *, has_when: bool) -> Difference:
    """Run a recording and its change until nothing moves."""
    plain, other = replay(found.recording, file), replay(changed, file)
    without, with_it = settled(world_of(plain.result)), settled(world_of(other.result))
    failures = failures_of([*without.failures, *with_it.failures])
    problems = [*found.problems, *map(str, other.problems), *failures]
    warnings = [*found.warnings, *(it for it in other.warnings if it not in found.warnings)]
    if not (without.is_quiet and with_it.is_quiet):
        warnings.append(f"things still move after {with_it.cycles} cycles")
    foreseen, left_out = _foreseen(other, changed, without, with_it) if has_when else ({}, 0)
    if left_out:
        warnings.append(f"{left_out} more submitted jobs: when they may start was not looked for")
    return Difference(without, with_it, [*warnings, *problems], problems, foreseen)


def _foreseen(
    other: Replay, changed: Recording, without: Settled, with_it: Settled
) -> tuple[dict[str, Forecast], int]:
    """Forecast the starts of submitted jobs; return them, and the number of those left out."""
    world = world_of(other.result)
    past = past_of(other.objects, world.snapshot, world.now_s, changed.scheduler_names)
    row = {name: job for job, name in enumerate(world.snapshot.jobs.name)}
    new = [name for name in with_it.jobs if name not in without.jobs]
    found = {name: bounded(world, row[name], past) for name in new[:_MOST_FORECASTS]}
    return found, len(new) - len(found)


def document(difference: Difference) -> dict[str, Any]:
    """Return everything that differs."""
    return {
        "schemaVersion": SCHEMA,
        "jobs": [
            {
                "podGroup": name,
                "queue": queue,
                "without": _job_document(before),
                "with": _job_document(after),
            }
            for name, queue, before, after in difference.jobs()
        ],
        "evictions": [
            {
                "pod": it.pod,
                "podGroup": it.pod_group,
                "action": it.action,
                "beneficiary": it.beneficiary,
                "reason": it.reason,
            }
            for it in difference.evictions()
        ],
        "queues": [
            {
                "name": name,
                "without": queue_document(before) if before is not None else None,
                "with": queue_document(after) if after is not None else None,
            }
            for name, before, after in difference.queues()
        ],
        "when": {name: when_document(it) for name, it in difference.foreseen.items()},
        "warnings": difference.warnings,
    }


def _job_document(job: JobState | None) -> dict[str, Any] | None:
    if job is None:
        return None
    record = job.record
    return {
        "running": job.running,
        "waiting": job.waiting,
        "runningBefore": job.before,
        "reason": record.reason if record is not None else None,
        "message": record.message if record is not None else None,
    }


def print_tables(difference: Difference) -> None:
    """Print what differs; a line where nothing does."""
    jobs = [
        (name, queue, _shown(before), _shown(after))
        for name, queue, before, after in difference.jobs()
    ]
    print_table("Jobs", _JOBS, jobs)
    reasons = [
        (name, after.record.message)
        for name, _, _, after in difference.jobs()
        if after is not None and after.record is not None
    ]
    print_table("With it, these wait", _REASONS, reasons)
    evictions = [(it.pod, it.action, it.beneficiary, it.reason) for it in difference.evictions()]
    print_table("Evicted by the change", _EVICTIONS, evictions)
    queues = [
        (name, *(_change(before, after, of) for of in _AMOUNTS))
        for name, before, after in difference.queues()
    ]
    print_table("Queues: GPUs, without and with", _QUEUES, queues)
    for name, foreseen in difference.foreseen.items():
        print(f"{name} may start:", *when_lines(foreseen), sep="\n")  # noqa: T201
    if not (jobs or evictions or queues):
        print("the change makes no difference to any job or queue")  # noqa: T201


def _state(job: JobState) -> tuple[int, int, str]:
    return job.running, job.waiting, job.record.reason if job.record is not None else ""


def _shown(job: JobState | None) -> str:
    """Say what becomes of a job."""
    if job is None:
        return "is not there"
    said = []
    if job.running:
        verb = "starts" if not job.before else "goes on" if job.running == job.before else "runs"
        said.append(f"{verb} with {job.running} pod{'s' if job.running > 1 else ''}")
    elif job.before:
        said.append("is evicted")
    if job.waiting:
        reason = f": {job.record.reason}" if job.record is not None else ""
        said.append(f"{job.waiting} wait{'s' if job.waiting == 1 else ''}{reason}")
    return ", ".join(said)


def _change(before: QueueShare | None, after: QueueShare | None, of: str) -> str:
    shown = [
        "none" if share is None else _amount(getattr(share, of).get("gpu", 0))
        for share in (before, after)
    ]
    return shown[0] if shown[0] == shown[1] else " -> ".join(shown)


def _amount(base: int) -> str:
    return "unlimited" if base < 0 else format_amount("gpu", base)
