"""Lists of what a state holds: ``kaisched queue``, ``kaisched alloc`` and ``kaisched fairness``.

They print documents of the live view, of a running scheduler or of a cycle in this process.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kaisched.cli import completion, options, source
from kaisched.cli.printing import (
    Printer,
    amount_cell,
    columns,
    counted,
    indented,
    print_table,
    queue_names,
    say,
)
from kaisched.cli.report import print_period
from kaisched.core.titles import title_in
from kaisched.errors import ClusterError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kaisched.usage.period import Period

# -- kaisched queue ------------------------------------------------------------------------------

queue = typer.Typer()
_NAME = typer.Argument(
    help="The queue.",
    metavar="QUEUE",
    show_default=False,
    autocompletion=completion.queues,
)
_DRY = typer.Option("--dry-run", help="Let the API server check the change, and keep nothing.")
AMOUNTS: Final = {
    "fairShare": "FAIR SHARE",
    "allocated": "ALLOCATED",
    "requested": "REQUESTED",
    "deserved": "DESERVED",
}
"""The amounts of a queue, and how tables call them."""
_HEADS: Final = tuple(f"#{title}" for title in AMOUNTS.values())


@queue.callback()
def _group() -> None:
    """Show queues: what they are entitled to, hold and ask for, and which jobs wait.

    `hold`, `drain` and `resume` change a queue; the others change nothing.
    """


@queue.command("ls")
@options.reads_state(has_view=True)
def ls(
    *,
    place: options.Place,
    watch: options.Watch = False,
    output: options.Output = "table",
) -> None:
    """List all queues as a tree: fair share, allocated, requested and quota, and waiting jobs.

    The state is read as by `kaisched why`.
    """
    _show(place, None, output, is_watched=watch)


queue.command("tree", help="The same as `kaisched queue ls`.")(ls)


@queue.command("show")
@options.reads_state(has_view=True)
def show(
    name: Annotated[str, _NAME],
    *,
    place: options.Place,
    watch: options.Watch = False,
    output: options.Output = "table",
) -> None:
    """Show one queue with those above and below it, and its waiting jobs in order.

    The state is read as by `kaisched why`.
    """
    _show(place, name, output, is_watched=watch)


def _show(place: options.Place, name: str | None, output: str, *, is_watched: bool) -> None:
    view = source.view_of(place, is_watched=is_watched, queue=name or "")
    printer = Printer(
        partial(print_queue_tables, with_jobs=name is not None),
        queue_rows if name is None else job_rows,
        queue_names,
    )
    source.print_of(view, lambda: view.queues(name), printer, output, is_watched=is_watched)


@queue.command("hold")
def hold(
    name: Annotated[str, _NAME],
    *,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    dry_run: Annotated[bool, _DRY] = False,
) -> None:
    """Start nothing new in a queue and those below it; what runs goes on.

    Sets spec.stopPolicy by the kubeconfig.
    """
    _stop(name, "Hold", kubeconfig, context, is_dry=dry_run)


@queue.command("drain")
def drain(
    name: Annotated[str, _NAME],
    *,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    dry_run: Annotated[bool, _DRY] = False,
) -> None:
    """Start nothing new in a queue and those below it, and evict what runs there.

    PodDisruptionBudgets and grace periods count. Sets spec.stopPolicy by the kubeconfig.
    """
    _stop(name, "HoldAndDrain", kubeconfig, context, is_dry=dry_run)


@queue.command("resume")
def resume(
    name: Annotated[str, _NAME],
    *,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    dry_run: Annotated[bool, _DRY] = False,
) -> None:
    """End the hold or the drain of a queue; one above it may still be on hold.

    Sets spec.stopPolicy by the kubeconfig.
    """
    _stop(name, _RESUME, kubeconfig, context, is_dry=dry_run)


_QUEUES: Final = "/apis/scheduling.run.ai/v2/queues"
_RESUME: Final = "None"
_SAID: Final = {
    "Hold": "is on hold: nothing new starts in it, what runs goes on",
    "HoldAndDrain": "is drained: nothing new starts in it, and what runs is evicted",
    _RESUME: "goes on: waiting jobs may start again",
}
_NOT_FOUND: Final = 404


def _stop(
    name: str, policy: str, kubeconfig: str | None, context: str | None, *, is_dry: bool
) -> None:
    """Set the stop policy of a queue, and print what is so now.

    Raises:
        ConfigError: there is no such queue.
        ClusterError: the server refuses, or drops the field.
        ClusterUnavailable: it does not answer.

    """
    import json  # noqa: PLC0415 - not for the help
    from urllib.parse import quote  # noqa: PLC0415 - not for the help

    from kaisched.cluster.kubernetes.client import MERGE  # noqa: PLC0415 - not for the help

    client = options.client_of(options.Given(None, {}).load().settings, kubeconfig, context)
    answer = client.call(
        "PATCH",
        f"{_QUEUES}/{quote(name, safe='')}",
        query={"dryRun": "All"} if is_dry else {},
        body={"spec": {"stopPolicy": policy}},
        content_type=MERGE,
    )
    if answer.code == _NOT_FOUND:
        fix = "kaisched queue ls names them; kaisched config crds defines them"
        raise ConfigError(f"there is no queue {name}", fix=fix)
    if not answer.is_done:
        raise ClusterError(f"queue {name}: {answer.text()}")
    kept = json.loads(answer.data).get("spec", {}).get("stopPolicy", "")
    if kept != policy and not (policy == _RESUME and not kept):
        raise ClusterError(
            f"the cluster's definition of queues drops stopPolicy, and queue {name} goes on",
            fix="apply ours: kaisched config crds | kubectl apply -f -",
        )
    say(f"queue {name} {_SAID[policy]}{' (dry run)' if is_dry else ''}; {client.access}")


def print_queue_tables(document: Mapping[str, Any], *, with_jobs: bool) -> None:
    """Print queues, and the jobs that wait below one of them if those are wanted."""
    entries = document["queues"]
    print_queues(entries)
    print_table(
        "Waiting",
        columns("QUEUE", "#WAITING JOBS", "REASONS"),
        [
            (entry["name"], f"{sum(found.values())}", counted(_most_first(found)))
            for entry in entries
            if (found := entry["pending"])
        ],
    )
    problems = [(entry["name"], entry["problem"]) for entry in entries if entry["problem"]]
    print_table("Problems", columns("QUEUE", "PROBLEM"), problems)
    left_out = [
        (entry["name"], found["message"]) for entry in entries if (found := entry["unschedulable"])
    ]
    print_table("Unschedulable", columns("QUEUE", "COUNTS FOR NO SHARE"), left_out)
    if with_jobs:
        _print_projects(entries)
        heads = columns("#POSITION", "JOB", "?QUEUE", "REASON", "BECAUSE")
        print_table("Jobs in order", heads, [_job_row(job) for job in document["jobs"]])


def print_queues(entries: Sequence[Mapping[str, Any]], prefix: str = "") -> None:
    """Print a table of queues for each resource that any of them uses."""
    names = indented([(it["name"], it["parent"]) for it in entries])
    for resource in _resources_of(entries):
        rows = [
            (name, *_amounts(entry, resource)) for name, entry in zip(names, entries, strict=True)
        ]
        print_table(f"{prefix}Queues: {unit_of(resource)}", columns("QUEUE", *_HEADS), rows)


def unit_of(resource: str) -> str:
    """Return what the title of a table calls a resource."""
    units = {"gpu": "GPUs", "cpu": "CPU cores", "memory": "memory"}
    return units.get(resource, resource)


def _resources_of(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the resources that some queue asks for or holds; GPUs always."""
    names = list(entries[0]["requested"] if entries else ())
    used = [
        name
        for name in names
        if any(entry["requested"].get(name) or entry["allocated"].get(name) for entry in entries)
    ]
    first = ["gpu"] if "gpu" in names else []
    return [*first, *(name for name in used if name != "gpu")]


def _amounts(entry: Mapping[str, Any], resource: str) -> tuple[str, ...]:
    """Return the cells of a queue: fair share, allocated, requested and quota of a resource."""
    return tuple(amount_cell(resource, entry[key].get(resource, 0)) for key in AMOUNTS)


def _most_first(reasons: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(reasons.items(), key=lambda it: -it[1]))


def _print_projects(entries: Sequence[Mapping[str, Any]]) -> None:
    """Print what projects have over all node pools, and in each: a table for each resource."""
    lines = [
        (project["name"], pool, queue, found)
        for entry in entries
        if (project := entry.get("project"))
        for pool, queue, found in (
            *((it["nodePool"], it["queue"], it) for it in project["pools"]),
            ("all", "", project),
        )
    ]
    heads = columns("PROJECT", "NODE POOL", "?QUEUE", *_HEADS)
    for resource in _resources_of([found for *_, found in lines]):
        rows = [(*words, *_amounts(found, resource)) for *words, found in lines]
        print_table(f"Over node pools: {unit_of(resource)}", heads, rows)


def _job_row(job: Mapping[str, Any]) -> tuple[str, ...]:
    place = job["turn"] or job.get("place")
    position = "-" if place is None else f"{place['position']}"
    message = job["message"] or ""
    return position, title_in(job), job["queue"], job["reason"], message


def queue_rows(document: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """Yield the rows of CSV: queues, with their amounts of each resource."""
    entries = document["queues"]
    names = list(dict.fromkeys(name for entry in entries for name in entry["requested"]))
    heads = [f"{key}.{name}" for key in AMOUNTS for name in names]
    yield ("name", "parent", *heads, "waiting", "problem")
    for entry in entries:
        amounts = [entry[key].get(name) for key in AMOUNTS for name in names]
        waiting = sum(entry["pending"].values())
        yield (entry["name"], entry["parent"], *amounts, waiting, entry["problem"])


def job_rows(document: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """Yield the rows of CSV: the waiting jobs of a queue, in order."""
    yield ("position", "podGroup", "job", "queue", "reason", "message")
    for job in document["jobs"]:
        position, *rest = _job_row(job)
        yield position, job["podGroup"], *rest


# -- kaisched alloc ------------------------------------------------------------------------------

_BY = typer.Option(
    "-g", "--group", help="How to group, the outermost first: any of queue, node and job."
)


@options.reads_state(has_view=True)
def alloc(
    *,
    group: Annotated[str, _BY] = "queue,node",
    place: options.Place,
    watch: options.Watch = False,
    output: options.Output = "table",
) -> None:
    """Say which queues, nodes and jobs hold the GPUs, as a tree.

    Ending pods and cordoned nodes count. Where nodes are the outermost group, what is free is a
    column. The state is read as by `kaisched queue ls`.
    """
    groups = _groups_of(group)
    view = source.view_of(place, is_watched=watch)
    printer = Printer(_print_alloc, _alloc_rows, _alloc_names)
    source.print_of(view, lambda: _alloc(view.nodes(), groups), printer, output, is_watched=watch)


_ALLOC: Final = "kaisched.io/alloc/v1"
_GROUPS: Final = ("queue", "node", "job")
_OTHERS: Final = "(other schedulers)"
_HIDDEN: Final = "(hidden)"
_KINDS: Final = {
    "queue": "queue.scheduling.run.ai",
    "node": "node",
    "job": "podgroup.scheduling.run.ai",
}


def _groups_of(text: str) -> tuple[str, ...]:
    """Return the groups that a list names.

    Raises:
        ConfigError: one is unknown, or named twice.

    """
    groups = tuple(part.strip() for part in text.split(","))
    if len(set(groups)) != len(groups) or not set(groups) <= set(_GROUPS):
        fix = "write some of queue, node and job, each once"
        raise ConfigError("no such grouping", path="--group", value=text, fix=fix)
    return groups


def _alloc(nodes: Iterable[Mapping[str, Any]], groups: Sequence[str]) -> dict[str, Any]:
    """Return who holds what, as a tree of groups; from the nodes' entries of the live view."""
    total, free = 0.0, 0.0
    tree: dict[str, dict[str, Any]] = {}
    for node in nodes:
        total, free = total + node["gpus"]["total"], free + node["gpus"]["free"]
        if groups[0] == "node":
            top = _group_at(tree, "node", node["name"])
            top["total"], top["free"] = node["gpus"]["total"], node["gpus"]["free"]
        for holder in node["holders"]:
            _add(tree, groups, node["name"], holder)
    return {
        "schemaVersion": _ALLOC,
        "resource": "gpu",
        "groupedBy": list(groups),
        "total": _plain(total),
        "free": _plain(free),
        "held": _plain(sum(it["held"] for it in tree.values())),
        "groups": _listed(tree),
    }


def _add(
    tree: dict[str, dict[str, Any]], groups: Sequence[str], node: str, holder: Mapping[str, Any]
) -> None:
    """Add what a job holds on a node to the groups that it is in."""
    names = {
        "node": node,
        "queue": holder["queue"] or _OTHERS,
        "job": holder["podGroup"] or (_HIDDEN if holder["queue"] else _OTHERS),
    }
    level = tree
    for group in groups:
        entry = _group_at(level, group, names[group])
        entry["held"] += holder["gpus"]
        entry["pods"] += holder["pods"]
        if group == "job":
            entry["workload"] = holder["workload"]
        level = entry["groups"]


def _group_at(level: dict[str, dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    amounts = {"held": 0.0, "pods": 0, "groups": {}}
    return level.setdefault(name, {"kind": kind, "name": name, "workload": None, **amounts})


def _listed(level: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {**level[name], "held": _plain(level[name]["held"]), "groups": _listed(entry["groups"])}
        for name, entry in sorted(level.items())
    ]


def _plain(amount: float) -> float | int:
    rounded = round(amount, 6)
    return int(rounded) if rounded == int(rounded) else rounded


def _print_alloc(document: Mapping[str, Any]) -> None:
    """Print the tree, and the sums."""
    groups, total = document["groupedBy"], document["total"]
    is_by_node = groups[0] == "node"
    heads = columns(", ".join(groups).upper(), "#HELD", "#OF ALL", "#PODS")
    lines = []
    for depth, entry in _flat(document["groups"]):
        of = f"{entry['held'] / total:.0%}" if total else "-"
        name = "  " * depth + title_in(entry, "name")
        line = [name, f"{entry['held']:g}", of, f"{entry['pods']}"]
        lines.append([*line, f"{entry.get('free', ''):}"] if is_by_node else line)
    print_table("GPUs", [*heads, *(columns("#FREE") if is_by_node else ())], lines)
    say(f"{document['held']:g} of {total:g} GPUs held, {document['free']:g} free")


def _flat(
    groups: Sequence[Mapping[str, Any]], depth: int = 0
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield each group with its depth, those in it after it."""
    for entry in groups:
        yield depth, entry
        yield from _flat(entry["groups"], depth + 1)


def _alloc_rows(document: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """Yield the rows of CSV: the innermost groups, with those that they are in."""
    yield (*document["groupedBy"], "held", "pods")
    yield from _leaves(document["groups"], (), len(document["groupedBy"]))


def _leaves(
    groups: Sequence[Mapping[str, Any]], above: tuple[str, ...], left: int
) -> Iterator[Sequence[object]]:
    for entry in groups:
        line = (*above, title_in(entry, "name"))
        if left > 1:
            yield from _leaves(entry["groups"], line, left - 1)
        else:
            yield (*line, entry["held"], entry["pods"])


def _alloc_names(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the outermost groups as kubectl reads them."""
    for entry in document["groups"]:
        if entry["name"] not in {_OTHERS, _HIDDEN}:
            yield f"{_KINDS[entry['kind']]}/{entry['name'].rpartition('/')[2]}"


# -- kaisched fairness ---------------------------------------------------------------------------

_AROUND = typer.Argument(
    help="Only this queue, with those above and below.",
    metavar="[QUEUE]",
    autocompletion=completion.queues,
)
_SINCE = typer.Option(
    "--since", help="Add what they had since then, such as 7d; needs --prometheus or --history."
)


@options.reads_state(has_view=True)
def fairness(
    name: Annotated[str | None, _AROUND] = None,
    *,
    since: Annotated[str | None, _SINCE] = None,
    prometheus: options.Prometheus = "",
    history_file: options.HistoryFile = None,
    resource: options.Resource = "gpu",
    place: options.Place,
    output: options.Output = "table",
) -> None:
    """Say what queues hold of their fair shares, what they used lately, and how many jobs wait.

    USED LATELY is the decayed usage that fairness over time counts, as a part of the capacity.

    With --since, a second table has what queues used since then, and what their fair shares came
    to. The state is read as by `kaisched why`.
    """
    period = None
    if since is None and (prometheus or history_file is not None):
        option = "--prometheus" if prometheus else "--history"
        raise ConfigError(f"{option} is read for --since only", fix="add --since, such as 7d")
    if since is not None:
        origin = source.Origin(prometheus, history_file)
        period = source.period_of(origin, resource, since, "--since")
    view = source.view_of(place)
    printer = Printer(_print_fairness, _fairness_rows, queue_names)

    def document() -> dict[str, Any]:
        queues = view.queues_around(name)["queues"]
        return _fairness(queues, view.usage(), resource, period)

    source.print_of(view, document, printer, output)


_FAIRNESS: Final = "kaisched.io/fairness/v1"
_FAIRNESS_HEADS: Final = (
    "name",
    "parent",
    "fairShare",
    "allocated",
    "ofShare",
    "requested",
    "deserved",
    "usedLately",
    "waiting",
)
_NOW: Final = columns(
    "QUEUE",
    "#FAIR SHARE",
    "#ALLOCATED",
    "#OF SHARE",
    "#?REQUESTED",
    "#?USED LATELY",
    "#WAITING",
)


def _fairness(
    queues: Sequence[Mapping[str, Any]],
    usage: Mapping[str, Any] | None,
    resource: str,
    period: Period | None,
) -> dict[str, Any]:
    """Return queues with their amounts of one resource; in entries of the live view."""
    shown = [_fairness_entry(it, resource) for it in queues]
    names = {it["name"] for it in shown}
    return {
        "schemaVersion": _FAIRNESS,
        "resource": resource,
        "queues": shown,
        "usage": usage,
        "period": None if period is None else period.document(names),
    }


def _fairness_entry(queue: Mapping[str, Any], resource: str) -> dict[str, Any]:
    fair, held = queue["fairShare"].get(resource, 0), queue["allocated"].get(resource, 0)
    return {
        "name": queue["name"],
        "parent": queue["parent"],
        "fairShare": fair,
        "allocated": held,
        "ofShare": round(held / fair, 4) if fair and held is not None else None,
        "requested": queue["requested"].get(resource, 0),
        "deserved": queue["deserved"].get(resource, 0),
        "usedLately": None if queue["usage"] is None else queue["usage"].get(resource, 0.0),
        "waiting": sum(queue["pending"].values()),
    }


def _print_fairness(document: Mapping[str, Any]) -> None:
    """Print the queues as they are now and, if it was read, what they had over time."""
    entries, resource = document["queues"], document["resource"]
    names = indented([(it["name"], it["parent"]) for it in entries])
    print_table(
        f"Fairness: {unit_of(resource)}",
        _NOW,
        [
            (
                name,
                amount_cell(resource, it["fairShare"]),
                amount_cell(resource, it["allocated"]),
                _part(it["ofShare"]),
                amount_cell(resource, it["requested"]),
                _part(it["usedLately"]),
                f"{it['waiting']}",
            )
            for name, it in zip(names, entries, strict=True)
        ],
    )
    say(_usage_line(document["usage"]))
    if document["period"] is not None:
        say("")
        print_period(document["period"])


def _part(part: float | None) -> str:
    return "-" if part is None else f"{part:.0%}"


def _usage_line(usage: Mapping[str, Any] | None) -> str:
    if usage is None:
        return "no usage history: shares are those of the moment"
    why = f": {', '.join(usage['reasons'])}" if usage["reasons"] else ""
    return f"usage history: {usage['state']}, {usage['coverage']:.0%} of the window covered{why}"


def _fairness_rows(document: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """Yield the rows of CSV: queues as they are now, with their sums over time if read."""
    period = document["period"]
    had = {} if period is None else {it["name"]: it for it in period["queues"]}
    yield (*_FAIRNESS_HEADS, *(() if period is None else ("usedHours", "entitledHours")))
    for entry in document["queues"]:
        found = had.get(entry["name"], {})
        more = () if period is None else (found.get("usedHours"), found.get("entitledHours"))
        yield (*(entry[head] for head in _FAIRNESS_HEADS), *more)
