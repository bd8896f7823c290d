"""``kaisched plan``: what the scheduler would do with these objects, in virtual time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kaisched.cli import options
from kaisched.cli.listings import print_queues
from kaisched.cli.printing import columns, count, counted, print_document, print_table, say, warn

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from kaisched.core.devices import PromisedCards
    from kaisched.framework.intents import Bind, Nominate
    from kaisched.framework.report.records import DecisionRecord
    from kaisched.framework.report.result import CycleResult, ShardCycle

_FILES = typer.Option(
    "-f",
    "--filename",
    help="File or folder of manifests, as `kubectl get -o yaml` gives them; - for standard input.",
)
_ORDER = typer.Option(
    "--order",
    help="Print the place of each pending pod group in its queue too, and what is ahead; JSON"
    " always has it.",
)


def command(
    *,
    files: Annotated[list[str], _FILES],
    shard: Annotated[
        Path | None,
        typer.Option(help="SchedulingShard to plan by; else those among the manifests, if any."),
    ] = None,
    actions: Annotated[
        str | None, typer.Option(help="Run only these actions, in this order: a,b.")
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, max=1000, help="Cycles to run; fewer once nothing moves.")
    ] = 1,
    order: Annotated[bool, _ORDER] = False,
    output: options.Output = "table",
) -> None:
    """Say what would be bound, evicted and nominated, what stays pending, and why.

    The daemon's own cycle runs in memory, in virtual time; nothing is changed anywhere. Pods are
    ours when their schedulerName is kaisched or kai-scheduler.

    Objects with problems are reported on stderr and left out; then, and when a plugin failed, the
    exit code is 1.
    """
    from kaisched.engine.planning import plan, read_plan_input  # noqa: PLC0415 - not for the help
    from kaisched.view.documents import plan_document  # noqa: PLC0415 - not for the help

    chosen = [name.strip() for name in actions.split(",")] if actions is not None else None
    planned = plan(read_plan_input(files, shard, chosen, is_one=False), rounds)
    for text in [*planned.warnings, *map(str, planned.problems)]:
        warn(text)
    if output != "table":
        document = plan_document(planned.steps, planned.problems, planned.warnings)
        print_document(document, output)
    else:
        print_plan(planned.steps, with_order=order)
    if planned.problems or any(cycle.failures for cycle in planned.cycles):
        raise typer.Exit(1)


def print_plan(steps: Sequence[ShardCycle], *, with_order: bool = False) -> None:
    """Print the moves of every cycle, then the pending jobs and the queues after the last ones."""
    last = {step.shard: step for step in steps}
    if steps:
        say(_summary(steps, list(last.values())), "")
    of_shard = {name: f"Shard {name}: " if len(last) > 1 else "" for name in last}
    for number, step in enumerate(steps, 1):
        cycle = f"Cycle {number}: " if len(steps) > len(last) else ""
        prefix = of_shard[step.shard] + cycle
        _print_moves(prefix, step.result)
        jobs = step.result.records.session.jobs
        title = dict(zip(jobs.name, jobs.title, strict=True))
        passed = sorted((title[job], pool) for job, pool in step.passed_on.items())
        print_table(f"{prefix}Passed on", columns("JOB", "TO NODE POOL"), passed)
    for name, step in last.items():
        print_waiting(step.result, of_shard[name], step.passed_on)
        if with_order:
            _print_order(step.result, of_shard[name])


_MOST_LINES: Final = 50
"""So many waiting jobs are listed one by one; more are grouped by what they wait for."""


def print_waiting(result: CycleResult, prefix: str = "", left: Container[str] = ()) -> None:
    """Print what stays pending after a cycle and why, apart from who has left, and the queues."""
    from kaisched.view.documents import queue_document  # noqa: PLC0415 - not for the help

    records = [it for it in _advised(result) if it.pod_group not in left]
    if len(records) <= _MOST_LINES:
        rows = [(it.title, it.queue, it.reason, it.message) for it in records]
        print_table(f"{prefix}Pending", columns("JOB", "?QUEUE", "REASON", "BECAUSE"), rows)
    else:
        heads = columns("#JOBS", "QUEUE", "REASON", "FIRST", "BECAUSE")
        print_table(f"{prefix}Pending, by queue and reason", heads, _grouped(records))
    print_queues([queue_document(share) for share in result.shares], prefix)


def _advised(result: CycleResult) -> list[DecisionRecord]:
    from kaisched.framework.advice.search import Adviser  # noqa: PLC0415 - not for the help

    return list(Adviser(result).records())


def _grouped(records: Sequence[DecisionRecord]) -> list[tuple[str, str, str, str, str]]:
    """Return a row for each queue and reason, the most jobs first, with the first job of each."""
    groups: dict[tuple[str, str], list[DecisionRecord]] = {}
    for it in records:
        groups.setdefault((it.queue, it.reason), []).append(it)
    most_first = sorted(groups.items(), key=lambda it: -len(it[1]))
    return [
        (f"{len(some)}", queue, reason, some[0].title, some[0].message)
        for (queue, reason), some in most_first
    ]


def _print_order(result: CycleResult, prefix: str) -> None:
    """Print the place of each pending job in its queue, which job is ahead of it, and why."""
    from kaisched.framework.report.turns import Turns  # noqa: PLC0415 - not for the help

    turns, titles = Turns(result), result.records.session.jobs.title
    queues = result.records.session.queues.name
    lines = []
    for job in sorted(result.records.rows.tolist(), key=lambda row: titles[row]):
        turn = turns.turn(job)
        if turn is None:
            continue
        ahead = turn.ahead
        other = ("", "") if ahead is None else (titles[ahead.job], turns.because(job, ahead))
        queue = queues[turn.levels[0].queue]
        lines.append((titles[job], queue, f"{turn.position} of {turn.of}", *other))
    heads = columns("JOB", "?QUEUE", "PLACE", "AHEAD", "BECAUSE")
    print_table(f"{prefix}Order", heads, lines)


def _print_moves(prefix: str, result: CycleResult) -> None:
    bound = {task: ", ".join(map(str, slots)) for task, slots in result.bind_cards.items()}
    _print_placed(f"{prefix}Binds", result, result.binds, bound)
    print_table(
        f"{prefix}Evictions",
        columns("POD", "?NODE", "?BY", "FOR", "BECAUSE"),
        [(it.pod, it.node, it.action, it.beneficiary_title, it.reason) for it in result.evictions],
    )
    promised = {task: _promised(cards) for task, cards in result.nominate_cards.items()}
    title = f"{prefix}Nominations (bound once enough pods have left)"
    _print_placed(title, result, result.nominations, promised)


def _print_placed(
    title: str,
    result: CycleResult,
    intents: Sequence[Bind | Nominate],
    cards: Mapping[int, str],
) -> None:
    """Print where pods go, with columns for cards of shares and devices of claims, if any."""
    from kaisched.framework.report.result import devices_for  # noqa: PLC0415 - not for the help

    devices = {it.task: ", ".join(devices_for(result, it.task)) for it in intents}
    heads: list[str] = ["POD", "NODE"]
    rows: list[list[Any]] = [[it.pod, it.node] for it in intents]
    for head, told in (("CARDS", cards), ("DEVICES", devices)):
        if any(told.values()):
            heads.append(head)
            rows = [[*row, told.get(it.task, "")] for row, it in zip(rows, intents, strict=True)]
    print_table(title, columns(*heads), rows)


def _promised(cards: PromisedCards) -> str:
    """Return the cards of a promise: those that are open, and how many that will be whole."""
    words = [str(slot) for slot in cards.opened]
    if whole := len(cards.later):
        words.append("a whole one" if whole == 1 else f"{whole} whole ones")
    return ", ".join(words)


def _summary(steps: Sequence[ShardCycle], last: Sequence[ShardCycle]) -> str:
    binds = sum(len(step.result.binds) for step in steps)
    evictions = sum(len(step.result.evictions) for step in steps)
    nominations = sum(len(step.result.nominations) for step in steps)
    parts = [count(binds, "pod") + " bound"]
    if evictions:
        parts.append(count(evictions, "pod") + " evicted")
    if nominations:
        parts.append(count(nominations, "pod") + " nominated")
    reasons = Counter[str]()
    for step in last:
        reasons += Counter(step.result.records.counts())
    passed = sum(len(step.passed_on) for step in last)
    pending = reasons.total() - passed
    why = f": {counted(dict(reasons.most_common()))}" if pending and not passed else ""
    return ", ".join(parts) + f"; {count(pending, 'job')} pending{why}"
