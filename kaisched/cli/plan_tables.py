"""A plan as tables: what would be done, what stays pending and why, and the queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaisched.cli.printing import Column, indented, print_table
from kaisched.framework.advice.trials import Adviser
from kaisched.framework.report.result import devices_for
from kaisched.framework.report.turns import Turns
from kaisched.units import format_amount

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from kaisched.core.devices import PromisedCards
    from kaisched.framework.intents import Bind, Nominate
    from kaisched.framework.report.records import QueueShare
    from kaisched.framework.report.result import CycleResult, ShardCycle

_BINDS: Final = (Column("POD"), Column("NODE"))
_CARDS: Final = Column("CARDS")
_DEVICES: Final = Column("DEVICES")
_EVICTIONS: Final = (
    Column("POD"),
    Column("NODE", may_go=True),
    Column("BY", may_go=True),
    Column("FOR"),
    Column("BECAUSE"),
)
_PENDING: Final = (
    Column("POD GROUP"),
    Column("QUEUE", may_go=True),
    Column("REASON"),
    Column("BECAUSE"),
)
_ORDER: Final = (
    Column("POD GROUP"),
    Column("QUEUE", may_go=True),
    Column("PLACE"),
    Column("AHEAD"),
    Column("BECAUSE"),
)
_PASSED_ON: Final = (Column("POD GROUP"), Column("TO NODE POOL"))
TITLES: Final = {
    "fair_share": "FAIR SHARE",
    "allocated": "ALLOCATED",
    "requested": "REQUESTED",
    "deserved": "DESERVED",
}


def print_plan(steps: Sequence[ShardCycle], *, with_order: bool = False) -> None:
    """Print the moves of every cycle, then the pending jobs and the queues after the last ones."""
    last = {step.shard: step for step in steps}
    of_shard = {name: f"Shard {name}: " if len(last) > 1 else "" for name in last}
    for number, step in enumerate(steps, 1):
        cycle = f"Cycle {number}: " if len(steps) > len(last) else ""
        _print_moves(of_shard[step.shard] + cycle, step.result)
        print_table(
            f"{of_shard[step.shard]}{cycle}Passed on", _PASSED_ON, sorted(step.passed_on.items())
        )
    for name, step in last.items():
        print_waiting(step.result, of_shard[name], step.passed_on)
        if with_order:
            print_order(step.result, of_shard[name])
    if steps:
        print(_summary(steps, list(last.values())))  # noqa: T201


def print_waiting(result: CycleResult, prefix: str = "", left: Container[str] = ()) -> None:
    """Print what stays pending after a cycle and why, apart from who has left, and the queues."""
    print_table(
        f"{prefix}Pending",
        _PENDING,
        [
            (it.pod_group, it.queue, it.reason, it.message)
            for it in Adviser(result).records()
            if it.pod_group not in left
        ],
    )
    print_queues(result.shares, prefix)


def print_queues(shares: Sequence[QueueShare], prefix: str = "") -> None:
    """Print a table of queues for each resource that any of them uses."""
    for resource in resources_of(shares):
        title = f"{prefix}Queues: {unit_of(resource)}"
        print_table(title, _queue_columns(), list(_queues(shares, resource)))


def print_order(result: CycleResult, prefix: str = "") -> None:
    """Print the place of each pending job in its queue, which job is ahead of it, and why."""
    turns, names = Turns(result), result.records.session.jobs.name
    queues = result.records.session.queues.name
    lines = []
    for job in sorted(result.records.rows.tolist(), key=lambda row: names[row]):
        turn = turns.turn(job)
        if turn is None:
            continue
        ahead = turn.ahead
        other = ("", "") if ahead is None else (names[ahead.job], turns.because(job, ahead))
        queue = queues[turn.levels[0].queue]
        lines.append((names[job], queue, f"{turn.position} of {turn.of}", *other))
    print_table(f"{prefix}Order", _ORDER, lines)


def _print_moves(prefix: str, result: CycleResult) -> None:
    bound = {task: ", ".join(map(str, slots)) for task, slots in result.bind_cards.items()}
    _print_placed(f"{prefix}Binds", result, result.binds, bound)
    print_table(
        f"{prefix}Evictions",
        _EVICTIONS,
        [(it.pod, it.node, it.action, it.beneficiary, it.reason) for it in result.evictions],
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
    devices = {it.task: ", ".join(devices_for(result, it.task)) for it in intents}
    columns, rows = list(_BINDS), [[it.pod, it.node] for it in intents]
    for head, told in ((_CARDS, cards), (_DEVICES, devices)):
        if any(told.values()):
            columns.append(head)
            rows = [[*row, told.get(it.task, "")] for row, it in zip(rows, intents, strict=True)]
    print_table(title, columns, rows)


def _promised(cards: PromisedCards) -> str:
    """Return the cards of a promise: those that are open, and how many that will be whole."""
    words = [str(slot) for slot in cards.opened]
    if whole := len(cards.later):
        words.append("a whole one" if whole == 1 else f"{whole} whole ones")
    return ", ".join(words)


def resources_of(shares: Sequence[QueueShare]) -> list[str]:
    """Return the resources that some queue asks for, holds or has a quota of; GPUs always."""
    names = [name for name in (shares[0].requested if shares else ()) if name != "pods"]
    used = {
        name
        for share in shares
        for name in names
        if share.requested.get(name) or share.allocated.get(name)
    }
    first = ["gpu"] if "gpu" in names else []
    return [*first, *(name for name in names if name in used and name != "gpu")]


def unit_of(resource: str) -> str:
    """Return what the title of a table calls a resource."""
    units = {"gpu": "GPUs", "cpu": "CPU cores", "memory": "memory"}
    return units.get(resource, resource)


def _queue_columns() -> tuple[Column, ...]:
    return (Column("QUEUE"), *(Column(title, is_number=True) for title in TITLES.values()))


def _queues(shares: Sequence[QueueShare], resource: str) -> Iterator[tuple[str, ...]]:
    names = indented((share.name, share.parent) for share in shares)
    for name, share in zip(names, shares, strict=True):
        yield (name, *amounts_of(share, resource))


def amounts_of(share: QueueShare, resource: str) -> tuple[str, ...]:
    """Return the cells of a queue: fair share, allocated, requested and quota of a resource."""
    return tuple(_cell(resource, getattr(share, key).get(resource, 0)) for key in TITLES)


def _cell(resource: str, base: int) -> str:
    return "unlimited" if base < 0 else format_amount(resource, base)


def _summary(steps: Sequence[ShardCycle], last: Sequence[ShardCycle]) -> str:
    binds = sum(len(step.result.binds) for step in steps)
    evictions = sum(len(step.result.evictions) for step in steps)
    nominations = sum(len(step.result.nominations) for step in steps)
    parts = [_count(binds, "pod") + " bound"]
    if evictions:
        parts.append(_count(evictions, "pod") + " evicted")
    if nominations:
        parts.append(_count(nominations, "pod") + " nominated")
    pending = sum(len(step.result.records) - len(step.passed_on) for step in last)
    return ", ".join(parts) + f"; {_count(pending, 'pod group')} pending"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
