"""Worlds: a drawing of a cluster before a cycle, and a drawing after it.

::

    before = draw('''
        queue a
        node  n0  | . .
        job   a1  tasks=2
    ''')
    assert before.after("allocate") == draw('''
        queue a
        node  n0  | +a1 +a1
        job   a1  tasks=2
    ''')
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from kaisched.core.drawing import (
    Cell,
    Drawing,
    DrawingError,
    DrawnJob,
    DrawnNode,
    DrawnQueue,
    cell_of,
    parse,
    render,
)
from kaisched.core.tables import Sharing, TopologyConstraint
from kaisched.framework.plugins.plugin import Plugin
from kaisched.objects.shard import SchedulingShard
from kaisched.testing.builder import HOSTNAME, ClusterBuilder, Ran
from kaisched.testing.drawn_shares import SharedMoves, cards_of

_ROLES = {"running": "running", "new": "binding", "leaving": "leaving", "promised": "promised"}


_LEVELS = ("zone", "rack")
_LABEL = "drawn/"
_TOPOLOGY = "drawn"


def draw(text: str) -> World:
    """Read a drawing as a world; its queues must be drawn too."""
    return World(parse(text))


class World:
    """A cluster as a picture. Equality ignores which GPU of its node a pod holds."""

    def __init__(self, drawing: Drawing, ran: Ran | None = None) -> None:
        """Take a drawing, and the cycle that led to it."""
        queues = {queue.name for queue in drawing.queues}
        for job in drawing.jobs:
            if job.queue not in queues:
                raise DrawingError(f"job {job.name}: queue {job.queue} is not drawn")
        self.drawing = drawing
        self.ran = ran

    def __str__(self) -> str:
        """Draw."""
        return render(self.drawing)

    def __repr__(self) -> str:
        """Draw, between newlines, so that an assertion shows the picture as it is."""
        return f"\n{self}"

    def __eq__(self, other: object) -> bool:
        """Compare everything but the order of jobs and the places of pods inside their nodes.

        Which pods share a GPU counts.
        """
        return isinstance(other, World) and self._compared == other._compared

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def _compared(self) -> tuple[object, ...]:
        drawing = self.drawing
        nodes = {
            node.name: (
                replace(node, cells=(), others=()),
                len(node.cells),
                sorted(sorted(map(str, cell.parts)) for cell in node.cells if cell.parts),
            )
            for node in drawing.nodes
        }
        jobs = {job.name: job for job in drawing.jobs}
        return drawing.queues, nodes, jobs, drawing.drawn_tasks()

    @property
    def reasons(self) -> dict[str, str]:
        """Job to the reason why it is pending after the cycle."""
        return self.ran.reasons if self.ran else {}

    def builder(self) -> ClusterBuilder:
        """Return the drawn cluster as a builder, to add what cannot be drawn."""
        builder = ClusterBuilder()
        for queue in self.drawing.queues:
            _add_queue(builder, queue)
        levels = {level: _LABEL + level for level in _LEVELS if _is_drawn(self.drawing, level)}
        builder.topology(_TOPOLOGY, **levels, host=HOSTNAME)
        for node in self.drawing.nodes:
            domains = {_LABEL + level: getattr(node, level) for level in levels}
            builder.node(
                node.name,
                gpu=len(node.cells),
                cpu=node.cpu,
                memory=node.memory,
                pods=node.pods,
                labels={label: name for label, name in domains.items() if name},
            )
        places = _places(self.drawing)
        for job in self.drawing.jobs:
            _add_job(builder, job, places[job.name], cards_of(self.drawing, job))
        return builder

    def after(
        self,
        *actions: str,
        shard: SchedulingShard | Mapping[str, Any] | None = None,
        plugins: Sequence[type[Plugin]] = (),
    ) -> World:
        """Run one cycle and return the world it leads to.

        Pods drawn as new are being bound before the cycle, and are drawn as running after it.
        Promises last one cycle: promised pods are pending when it begins.
        """
        ran = self.builder().run(*actions, shard=shard, plugins=plugins)
        started = replace(
            self.drawing,
            nodes=tuple(_without_news(node, self.drawing.shares) for node in self.drawing.nodes),
        )
        return World(_with_moves(started, ran), ran)

    def settled(self) -> World:
        """Return the world a moment later: placed pods run, leaving pods wait again."""
        shares = self.drawing.shares
        nodes = tuple(
            _without_leaving(_without_news(node, shares), shares) for node in self.drawing.nodes
        )
        return World(replace(self.drawing, nodes=nodes))


def _is_drawn(drawing: Drawing, level: str) -> bool:
    return any(getattr(node, level) for node in drawing.nodes)


def _add_queue(builder: ClusterBuilder, queue: DrawnQueue) -> None:
    builder.queue(
        queue.name,
        parent=queue.parent,
        deserved={
            "gpu": queue.deserved,
            "cpu": queue.deserved_cpu,
            "memory": queue.deserved_memory,
        },
        limit={"gpu": queue.limit, "cpu": queue.limit_cpu, "memory": queue.limit_memory},
        weight=queue.weight,
        priority=queue.priority,
        borrowing=queue.borrowing,
        lending=queue.lending,
        sharing=Sharing(weight=Fraction(queue.weight)),
    )


def _add_job(
    builder: ClusterBuilder,
    job: DrawnJob,
    places: dict[str, dict[str, int]],
    cards: Sequence[Sequence[str]],
) -> None:
    builder.job(
        job.name,
        queue=job.queue,
        tasks=job.tasks,
        gpu=job.gpu,
        cards=job.cards,
        on_cards=cards,
        cpu=job.cpu,
        memory=job.memory,
        min_tasks=job.min,
        priority=job.priority,
        is_preemptible=job.is_preemptible,
        on=job.on,
        running=places["running"],
        binding=places["binding"],
        leaving=places["leaving"],
        promised=places["promised"],
        topology=_constraint(job),
    )


def _constraint(job: DrawnJob) -> TopologyConstraint | None:
    if not (job.required or job.preferred):
        return None
    return TopologyConstraint(_TOPOLOGY, job.required, job.preferred)


def _places(drawing: Drawing) -> dict[str, dict[str, dict[str, int]]]:
    """Count pods by job, state and node."""
    places: dict[str, dict[str, dict[str, int]]] = {
        job.name: {state: {} for state in _ROLES.values()} for job in drawing.jobs
    }
    for node, tasks in drawing.drawn_tasks().items():
        for (job, role), count in tasks.items():
            places[job][_ROLES[role]][node] = count
    return places


def _without_news(node: DrawnNode, shares: frozenset[str]) -> DrawnNode:
    """Turn new pods into running ones and drop promises."""

    def settle(cells: Sequence[Cell]) -> tuple[Cell, ...]:
        return tuple(
            cell_of((replace(it, is_new=False, promised="") for it in cell.words), shares)
            for cell in cells
        )

    others = tuple(cell for cell in settle(node.others) if cell.holder)
    return replace(node, cells=settle(node.cells), others=others)


def _without_leaving(node: DrawnNode, shares: frozenset[str]) -> DrawnNode:
    cells = tuple(
        cell_of((it for it in cell.words if not it.is_leaving), shares) for cell in node.cells
    )
    return replace(
        node, cells=cells, others=tuple(cell for cell in node.others if not cell.is_leaving)
    )


def _with_moves(drawing: Drawing, ran: Ran) -> Drawing:
    """Draw what a cycle decided into the picture before it."""
    jobs = {job.name: job for job in drawing.jobs}
    nodes = {node.name: node for node in drawing.nodes}
    parts = SharedMoves(nodes, drawing.shares, ran)
    for moves, mark, mark_parts in (
        (ran.evicted, _leave, parts.leave),
        (ran.placed, _place, parts.place),
        (ran.promised, _promise, parts.promise),
    ):
        counts = Counter((node, pod.rpartition("-")[0]) for pod, node in moves.items())
        for (node, job), count in counts.items():
            if not jobs[job].is_share:
                nodes[node] = mark(nodes[node], jobs[job], count)
        mark_parts()
    return replace(drawing, nodes=tuple(nodes.values()))


def _leave(node: DrawnNode, job: DrawnJob, pods: int) -> DrawnNode:
    """Mark pods as leaving, from the right."""
    held = Cell(job.name)
    return _mark(node, job, pods, [held], replace(held, is_leaving=True), from_right=True)


def _place(node: DrawnNode, job: DrawnJob, pods: int) -> DrawnNode:
    """Put pods on idle GPUs, from the left."""
    return _mark(node, job, pods, [Cell()], Cell(job.name, is_new=True))


def _promise(node: DrawnNode, job: DrawnJob, pods: int) -> DrawnNode:
    """Promise GPUs that are leaving, then idle ones, from the left."""
    return _mark(node, job, pods, None, Cell(promised=job.name))


def _mark(
    node: DrawnNode,
    job: DrawnJob,
    pods: int,
    old: list[Cell] | None,
    new: Cell,
    *,
    from_right: bool = False,
) -> DrawnNode:
    """Replace as many cells as the pods hold; without ``old``, promise instead of replacing."""
    if not job.gpu:
        others = list(node.others)
        for _ in range(pods):
            if new.is_leaving:
                others[others.index(Cell(job.name))] = new
            else:
                others.append(new)
        return replace(node, others=tuple(others))
    cells = list(node.cells)
    if old is None:
        wanted = [at for at, cell in enumerate(cells) if cell.is_vacated]
        wanted += [at for at, cell in enumerate(cells) if cell == Cell()]
    else:
        wanted = [at for at, cell in enumerate(cells) if cell in old]
    if from_right:
        wanted.reverse()
    for at in wanted[: pods * job.cells]:
        cells[at] = _promised(cells[at], job.name) if old is None else new
    return replace(node, cells=tuple(cells))


def _promised(cell: Cell, job: str) -> Cell:
    if cell.parts:
        return replace(cell, parts=(*cell.parts, Cell(promised=job)))
    return replace(cell, promised=job)


def explain_difference(got: World, want: World) -> list[str]:
    """Return lines for a failed assertion: both pictures, and why each job is pending.

    A ``conftest.py`` shows them with a function
    ``pytest_assertrepr_compare(op, left, right)`` that returns this for two worlds.
    """
    reasons = [f"  {job}: {reason}" for job, reason in (got.reasons or want.reasons).items()]
    return [
        "the worlds differ",
        "got:",
        *str(got).splitlines(),
        "expected:",
        *str(want).splitlines(),
        *(["pending:", *reasons] if reasons else []),
    ]
