"""``kaisched jobs``: the jobs that wait or run, whose they are, since when, why and where.

It prints entries of the live view, of a running scheduler or of a cycle in this process;
``kaisched top`` has the same columns.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from kaisched.cli import completion, options, source
from kaisched.cli.printing import Column, Printer, columns, count, counted, print_table, say
from kaisched.cli.when import MOST_S, WITHIN, when_cell
from kaisched.core.titles import title_in
from kaisched.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SCHEMA: Final = "kaisched.io/jobs/v1"
_QUEUE = typer.Option(
    "-q",
    "--queue",
    help="Jobs of this queue and those below it.",
    autocompletion=completion.queues,
)
_USER = typer.Option("-u", "--user", help="Jobs that this user submitted.")
_STATE = typer.Option("-s", "--state", help="`waiting` stands for pending and partly.")
_REASON = typer.Option("--reason", help="Jobs that wait for this reason, such as NoRoom.")
_NAMESPACE = typer.Option("-n", "--namespace", help="Jobs of this namespace.")
_NAME = typer.Option("--name", help="Jobs with this text in their names.")
_SORT = typer.Option("--sort", help="The order: that of queues, or by a column.")
_WHEN = typer.Option(
    "--when", help="Say when each may start too: the cycle is run ahead in virtual time."
)
_REVERSE = typer.Option("-r", "--reverse", help="From the other end.")
State = Literal["waiting", "pending", "partly", "running", "ending"]
Sort = Literal["order", "name", "created", "since", "priority", "gpus"]


@options.reads_state(has_view=True)
def command(
    *,
    queue: Annotated[str, _QUEUE] = "",
    user: Annotated[str, _USER] = "",
    state: Annotated[State | None, _STATE] = None,
    reason: Annotated[str, _REASON] = "",
    namespace: Annotated[str, _NAMESPACE] = "",
    name: Annotated[str, _NAME] = "",
    sort: Annotated[Sort, _SORT] = "order",
    reverse: Annotated[bool, _REVERSE] = False,
    when: Annotated[bool, _WHEN] = False,
    within: Annotated[int, WITHIN] = int(MOST_S),
    place: options.Place,
    watch: options.Watch = False,
    output: options.Output = "table",
) -> None:
    """List the jobs that wait or run: whose, since when, and why or where.

    FOR is how long a job waits or runs, PLACE its place in its queue; the last column says why it
    waits, or where it runs. The state is read as by `kaisched why`.

    With --when, STARTS is when a waiting job starts in most courses of events, as by `kaisched why
    --when`.
    """
    wanted = {
        "queue": queue,
        "user": user,
        "state": state or "",
        "reason": reason,
        "namespace": namespace,
        "name": name,
        "sort": f"-{sort}" if reverse else sort,
    }
    view = source.view_of(place, is_watched=watch, is_foreseen=when, queue=queue)
    printer = Printer(_print, _rows, _names)
    more = {"foreseen_in_s": float(within)} if when else {}
    source.print_of(view, lambda: view.jobs(wanted, **more), printer, output, is_watched=watch)


COLUMNS: Final = columns(
    "JOB", "STATE", "?QUEUE", "?USER", "#GPUS", "#FOR", "?PLACE", "WHY OR WHERE"
)
_STARTS: Final = columns("STARTS")


def cells(entry: Mapping[str, Any], document: Mapping[str, Any]) -> tuple[str | float, ...]:
    """Return the cells of a job of a document."""
    return (
        title_in(entry),
        entry["state"],
        entry["queue"],
        entry["user"] or "",
        float(entry["gpus"]["held"] + entry["gpus"]["pending"]),
        _for(entry["since"], document["time"]),
        _place(entry),
        _why_or_where(entry),
    )


_ROUGH: Final = ((86_400, 3_600), (3_600, 60))
"""From so many seconds on, a time is told in such steps."""


def _for(since: str | None, time: str | None) -> str:
    if since is None or time is None:
        return "-"
    seconds = (datetime.fromisoformat(time) - datetime.fromisoformat(since)).total_seconds()
    step = next((step for least, step in _ROUGH if seconds >= least), 1)
    return format_duration(float(max(seconds, 0) // step * step))


def _place(entry: Mapping[str, Any]) -> str:
    at = entry["place"]
    return f"{at['position']} of {at['of']}" if at else "-"


def _why_or_where(entry: Mapping[str, Any]) -> str:
    """Return why a job waits, and where its pods run if any do."""
    reason, nodes = entry["reason"], entry["nodes"]
    more = entry["nodeCount"] - len(nodes)
    where = ", ".join(nodes) + (f" and {more} more" if more else "")
    return f"{reason}; on {where}" if reason and where else reason or where


def _print(document: Mapping[str, Any]) -> None:
    """Print the totals, then the jobs."""
    say(totals_line(document), "")
    jobs = document["jobs"]
    is_left_out = {"USER"} if not any(it["user"] for it in jobs) else set()
    kept = [at for at, it in enumerate(COLUMNS) if it.head not in is_left_out]
    rows = [[_text(row[at]) for at in kept] for row in (cells(it, document) for it in jobs)]
    heads: list[Column] = [COLUMNS[at] for at in kept]
    if any("when" in it for it in jobs):
        heads = [*heads[:-1], *_STARTS, heads[-1]]
        rows = [
            [*row[:-1], when_cell(it["when"]), row[-1]] for row, it in zip(rows, jobs, strict=True)
        ]
    print_table("Jobs", heads, rows)
    if assumptions := document.get("assumptions"):
        say(*(f"assumed: {line}" for line in assumptions))


_STATES: Final = ("running", "partly", "pending", "ending")


def totals_line(document: Mapping[str, Any]) -> str:
    """Return how many jobs there are, by state, and why those wait that do."""
    jobs, hidden = document["jobs"], document["hidden"]
    found = Counter(it["state"] for it in jobs)
    states = {state: found[state] for state in _STATES if found[state]}
    told = f": {counted(states)}" if states else ""
    reasons = dict(sorted(document["reasons"].items(), key=lambda it: -it[1]))
    why = f"; waiting for {counted(reasons)}" if reasons else ""
    more = f"; {count(hidden, 'job')} not shown to you" if hidden else ""
    return f"{count(len(jobs), 'job')}{told}{why}{more}"


def _text(cell: str | float) -> str:
    return f"{cell:g}" if isinstance(cell, float) else cell


_BAND: Final = ("earliestSeconds", "latestSeconds")
_HEADS: Final = ("podGroup", "kind", "namespace", "name", "part", "state", "queue", "user")


def _rows(document: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """Yield the rows of CSV."""
    is_foreseen = any("when" in it for it in document["jobs"])
    yield (
        *(*_HEADS, "gpusHeld", "gpusPending", "since", "position", "nodes", "reason"),
        *(("startEarliestSeconds", "startLatestSeconds") if is_foreseen else ()),
    )
    for it in document["jobs"]:
        of, at = it["workload"] or {}, it["place"] or {}
        own = [it.get(key, of.get(key)) for key in _HEADS]
        gpus = it["gpus"]
        nodes = it["nodeCount"]
        yield (
            *own,
            gpus["held"],
            gpus["pending"],
            it["since"],
            at.get("position"),
            nodes,
            it["reason"],
            *(((it["when"] or {}).get(key) for key in _BAND) if is_foreseen else ()),
        )


def _names(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the jobs as kubectl reads their pod groups."""
    for it in document["jobs"]:
        yield f"podgroup.scheduling.run.ai/{it['podGroup'].partition('/')[2]}"
