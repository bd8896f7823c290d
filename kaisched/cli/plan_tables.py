"""A plan as tables: what would be done, what stays pending and why, and the queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaisched.cli.printing import Column, indented, print_table
from kaisched.framework.advice.adviser import Adviser
from kaisched.framework.report.turns import Turns
from kaisched.units import format_amount

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kaisched.core.devices import PromisedCards
    from kaisched.framework.intents import Bind, Nominate
    from kaisched.framework.report.records import CycleResult, QueueShare

_BINDS: Final = (Column("POD"), Column("NODE"))
_ON_CARDS: Final = (*_BINDS, Column("CARDS"))
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
_TITLES: Final = {
    "fair_share": "FAIR SHARE",
    "allocated": "ALLOCATED",
    "requested": "REQUESTED",
    "deserved": "DESERVED",
}


def print_plan(cycles: Sequence[CycleResult], *, with_order: bool = False) -> None:
    """Print the moves of every cycle, then the pending jobs and the queues after the last."""
    for number, result in enumerate(cycles, 1):
        prefix = f"Cycle {number}: " if len(cycles) > 1 else ""
        _print_moves(prefix, result)
    if not cycles:
        return
    print_waiting(cycles[-1])
    if with_order:
        print_order(cycles[-1])
    print(_summary(cycles))  # noqa: T201


def print_waiting(result: CycleResult) -> None:
    """Print what stays pending after a cycle and why, and the queues."""
    print_table(
        "Pending",
        _PENDING,
        [(it.pod_group, it.queue, it.reason, it.message) for it in Adviser(result).records()],
    )
    print_queues(result.shares)


def print_queues(shares: Sequence[QueueShare]) -> None:
    """Print a table of queues for each resource that any of them uses."""
    for resource in _resources(shares):
        print_table(_queue_title(resource), _queue_columns(), list(_queues(shares, resource)))


def print_order(result: CycleResult) -> None:
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
    print_table("Order", _ORDER, lines)


def _print_moves(prefix: str, result: CycleResult) -> None:
    bound = {task: ", ".join(map(str, slots)) for task, slots in result.bind_cards.items()}
    _print_placed(f"{prefix}Binds", result.binds, bound)
    print_table(
        f"{prefix}Evictions",
        _EVICTIONS,
        [(it.pod, it.node, it.action, it.beneficiary, it.reason) for it in result.evictions],
    )
    promised = {task: _promised(cards) for task, cards in result.nominate_cards.items()}
    _print_placed(f"{prefix}Nominations (room is being released)", result.nominations, promised)


def _print_placed(title: str, intents: Sequence[Bind | Nominate], cards: Mapping[int, str]) -> None:
    """Print where pods go, with a column for the cards of shares if there are any."""
    if not cards:
        print_table(title, _BINDS, [(it.pod, it.node) for it in intents])
        return
    rows = [(it.pod, it.node, cards.get(it.task, "")) for it in intents]
    print_table(title, _ON_CARDS, rows)


def _promised(cards: PromisedCards) -> str:
    """Return the cards of a promise: those that are open, and how many that will be whole."""
    words = [str(slot) for slot in cards.opened]
    if whole := len(cards.later):
        words.append("a whole one" if whole == 1 else f"{whole} whole ones")
    return ", ".join(words)


def _resources(shares: Sequence[QueueShare]) -> list[str]:
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


def _queue_title(resource: str) -> str:
    units = {"gpu": "GPUs", "cpu": "CPU cores", "memory": "memory"}
    return f"Queues: {units.get(resource, resource)}"


def _queue_columns() -> tuple[Column, ...]:
    return (Column("QUEUE"), *(Column(title, is_number=True) for title in _TITLES.values()))


def _queues(shares: Sequence[QueueShare], resource: str) -> Iterator[tuple[str, ...]]:
    names = indented((share.name, share.parent) for share in shares)
    for name, share in zip(names, shares, strict=True):
        yield (name, *(_cell(resource, getattr(share, key).get(resource, 0)) for key in _TITLES))


def _cell(resource: str, base: int) -> str:
    return "unlimited" if base < 0 else format_amount(resource, base)


def _summary(cycles: Sequence[CycleResult]) -> str:
    binds = sum(len(result.binds) for result in cycles)
    evictions = sum(len(result.evictions) for result in cycles)
    nominations = sum(len(result.nominations) for result in cycles)
    parts = [_count(binds, "pod") + " bound"]
    if evictions:
        parts.append(_count(evictions, "pod") + " evicted")
    if nominations:
        parts.append(_count(nominations, "pod") + " nominated")
    return ", ".join(parts) + f"; {_count(len(cycles[-1].records), 'pod group')} pending"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
