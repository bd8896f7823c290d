"""Queues with their waiting jobs, as tables and as ``kaisched.io/queues/v1``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from kaisched.cli.plan_tables import TITLES, amounts_of, print_queues, resources_of, unit_of
from kaisched.cli.printing import Column, print_table
from kaisched.errors import ConfigError
from kaisched.framework.report.turns import Turns
from kaisched.objects.faults import did_you_mean
from kaisched.view.documents import pending_job, queue_document, share_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kaisched.framework.report.records import QueueShare
    from kaisched.framework.report.result import CycleResult

SCHEMA: Final = "kaisched.io/queues/v1"
_AMOUNTS: Final = ("fairShare", "allocated", "requested", "deserved")
_WAITING: Final = (Column("QUEUE"), Column("WAITING JOBS", is_number=True), Column("REASONS"))
_POOLS: Final = (
    Column("PROJECT"),
    Column("NODE POOL"),
    Column("QUEUE", may_go=True),
    *(Column(title, is_number=True) for title in TITLES.values()),
)
_JOBS: Final = (
    Column("POSITION", is_number=True),
    Column("POD GROUP"),
    Column("QUEUE", may_go=True),
    Column("REASON"),
    Column("BECAUSE"),
)


def document(result: CycleResult, name: str | None) -> dict[str, Any]:
    """Return all queues, or one with those around it and the jobs that wait below it."""
    shares, reasons = _around(result.shares, name), _reasons(result)
    turns = Turns(result)
    return {
        "schemaVersion": SCHEMA,
        "queues": [
            {
                **queue_document(share),
                "problem": None if share.problem is None else share.problem[1],
                "pending": dict(sorted(reasons.get(share.name, {}).items())),
            }
            for share in shares
        ],
        "jobs": [
            pending_job(result.records.record(job), turns.document(job))
            for job in (_jobs_below(result, name) if name is not None else ())
        ],
    }


def print_tables(document: Mapping[str, Any], *, with_jobs: bool) -> None:
    """Print queues, and the jobs that wait below one of them if those are wanted."""
    entries = document["queues"]
    print_queues([share_of(entry) for entry in entries])
    print_table(
        "Waiting",
        _WAITING,
        [
            (entry["name"], f"{sum(found.values())}", _counted(found))
            for entry in entries
            if (found := entry["pending"])
        ],
    )
    problems = [(entry["name"], entry["problem"]) for entry in entries if entry["problem"]]
    print_table("Problems", (Column("QUEUE"), Column("PROBLEM")), problems)
    left_out = [
        (entry["name"], found["message"]) for entry in entries if (found := entry["unschedulable"])
    ]
    print_table("Unschedulable", (Column("QUEUE"), Column("COUNTS FOR NO SHARE")), left_out)
    if with_jobs:
        _print_projects(entries)
        print_table("Jobs in order", _JOBS, [_job_row(job) for job in document["jobs"]])


def _print_projects(entries: Sequence[Mapping[str, Any]]) -> None:
    """Print what projects have over all node pools, and in each: a table for each resource."""
    projects = [found for entry in entries if (found := entry.get("project"))]
    lines = [
        (project["name"], pool, share_of({**found, "name": queue, "parent": None}))
        for project in projects
        for pool, queue, found in (
            *((it["nodePool"], it["queue"], it) for it in project["pools"]),
            ("all", "", project),
        )
    ]
    for resource in resources_of([share for _, _, share in lines]):
        print_table(
            f"Over node pools: {unit_of(resource)}",
            _POOLS,
            [
                (project, pool, share.name, *amounts_of(share, resource))
                for project, pool, share in lines
            ],
        )


def _around(shares: Sequence[QueueShare], name: str | None) -> list[QueueShare]:
    """Return a queue with those above and below it, parents first; all of them without a name.

    Raises:
        ConfigError: there is no such queue.

    """
    if name is None:
        return list(shares)
    parent = {share.name: share.parent for share in shares}
    if name not in parent:
        raise ConfigError(f"there is no queue {name}", fix=did_you_mean(name, list(parent)))
    above = _line(name, parent)
    return [it for it in shares if it.name in above or name in _line(it.name, parent)]


def _line(name: str, parent: Mapping[str, str | None]) -> list[str]:
    """Return a queue and those above it."""
    line: list[str] = []
    at: str | None = name
    while at:
        line.append(at)
        at = parent.get(at)
    return line


def _reasons(result: CycleResult) -> dict[str, Counter[str]]:
    """Count the waiting jobs of each queue by their reasons, those of queues below included."""
    parent = {share.name: share.parent for share in result.shares}
    found: dict[str, Counter[str]] = {}
    for record in result.records:
        for queue in _line(record.queue, parent):
            found.setdefault(queue, Counter())[record.reason] += 1
    return found


def _counted(reasons: Mapping[str, int]) -> str:
    ordered = sorted(reasons.items(), key=lambda it: -it[1])
    return ", ".join(f"{count} {reason}" for reason, count in ordered)


def _jobs_below(result: CycleResult, name: str) -> list[int]:
    """Return the jobs that wait in a queue or below it: by queue, then in order."""
    session, turns = result.records.session, Turns(result)
    parent = {share.name: share.parent for share in result.shares}
    names, queues = session.jobs.name, session.jobs.queue_name
    rows = [row for row in result.records.rows.tolist() if name in _line(queues[row], parent)]

    def place(row: int) -> tuple[str, int, str]:
        turn = turns.turn(row)
        return queues[row], len(rows) + 1 if turn is None else turn.position, names[row]

    return sorted(rows, key=place)


def _job_row(job: Mapping[str, Any]) -> tuple[str, ...]:
    place = job["turn"] or job.get("place")
    position = "-" if place is None else f"{place['position']}"
    message = job["message"] or ""
    return position, job["podGroup"], job["queue"], job["reason"], message


def rows(document: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """Yield the rows of CSV: queues, with their amounts of each resource."""
    entries = document["queues"]
    names = list(dict.fromkeys(name for entry in entries for name in entry["requested"]))
    heads = [f"{key}.{name}" for key in _AMOUNTS for name in names]
    yield ("name", "parent", *heads, "waiting", "problem")
    for entry in entries:
        amounts = [entry[key].get(name) for key in _AMOUNTS for name in names]
        waiting = sum(entry["pending"].values())
        yield (entry["name"], entry["parent"], *amounts, waiting, entry["problem"])


def job_rows(document: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """Yield the rows of CSV: the waiting jobs of a queue, in order."""
    yield ("position", "podGroup", "queue", "reason", "message")
    for job in document["jobs"]:
        yield _job_row(job)
