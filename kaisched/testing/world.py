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
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


# -- shared GPUs -----------------------------------------------------------------------------------

ROLES = ("running", "new", "leaving")
"""In the order in which a builder places pods."""


def cards_of(drawing: Drawing, job: DrawnJob) -> list[tuple[str, ...]]:
    """Return the drawn GPUs of each pod of a job that is on a node, as ``ROLES`` and nodes say."""
    return [
        cards for role in ROLES for node in drawing.nodes for cards in _cards_on(node, job, role)
    ]


def _cards_on(node: DrawnNode, job: DrawnJob, role: str) -> Iterator[tuple[str, ...]]:
    held = [
        f"{node.name}/{at}"
        for at, cell in enumerate(node.cells)
        for part in cell.parts
        if part.holder == job.name and _role(part) == role
    ]
    pods = len(held) // job.cards
    # Pods are dealt the parts in turn: none has two of one GPU, which has no more parts than pods.
    yield from (tuple(held[pod::pods]) for pod in range(pods))


def _role(part: Cell) -> str:
    return "leaving" if part.is_leaving else "new" if part.is_new else "running"


class SharedMoves:
    """What a cycle decided about pods with parts of GPUs, drawn cell by cell."""

    def __init__(self, nodes: dict[str, DrawnNode], shares: frozenset[str], ran: Ran) -> None:
        """Take the nodes, which are replaced as moves are drawn."""
        self._nodes, self._shares, self._ran = nodes, shares, ran
        table, names = ran.snapshot.nodes.cards, ran.snapshot.nodes.name
        self._slots = {} if table is None else table.slots_of_task
        self._cell = {
            (names[node], slot): int(group.rpartition("/")[2])
            for (node, slot), group in ({} if table is None else table.group_of_slot).items()
        }
        """The cell of each slot of a node."""
        self._later: dict[tuple[str, int], int] = {}
        """The cell of each promised card that will be whole."""

    def leave(self) -> None:
        """Draw evicted pods as leaving."""
        for evict in self._ran.result.evictions:
            for slot in self._slots.get(evict.task, ()):
                at, job = self._cell[evict.node, slot], _job(evict.pod)
                words = list(self._nodes[evict.node].cells[at].parts)
                words[words.index(Cell(job))] = Cell(job, is_leaving=True)
                self._set(evict.node, at, words)

    def place(self) -> None:
        """Draw bound pods."""
        result = self._ran.result
        for bind in result.binds:
            for slot in result.bind_cards.get(bind.task, ()):
                at = self._of(bind.node, slot)
                self._add(bind.node, at, Cell(_job(bind.pod), is_new=True))

    def promise(self) -> None:
        """Draw promises."""
        result = self._ran.result
        for move in result.nominations:
            told = result.nominate_cards.get(move.task)
            if told is None:
                continue
            part = Cell(promised=_job(move.pod))
            for slot in told.opened:
                self._add(move.node, self._of(move.node, slot), part)
            for number in told.later:
                at = self._later.get((move.node, number))
                if at is None:
                    at = self._later[move.node, number] = self._free(move.node)
                self._add(move.node, at, part)

    def _of(self, node: str, slot: int) -> int:
        """Return the cell of a slot; a card that is opened gets the first idle one."""
        at = self._cell.get((node, slot))
        if at is None:
            at = self._cell[node, slot] = self._nodes[node].cells.index(Cell())
        return at

    def _free(self, node: str) -> int:
        """Return a cell that everything leaves, else the first idle one."""
        cells = self._nodes[node].cells
        vacated = [at for at, cell in enumerate(cells) if cell.is_vacated]
        return vacated[0] if vacated else cells.index(Cell())

    def _add(self, node: str, at: int, part: Cell) -> None:
        self._set(node, at, (*self._nodes[node].cells[at].words, part))

    def _set(self, node: str, at: int, words: Iterable[Cell]) -> None:
        drawn = self._nodes[node]
        cells = (*drawn.cells[:at], cell_of(words, self._shares), *drawn.cells[at + 1 :])
        self._nodes[node] = replace(drawn, cells=cells)


def _job(pod: str) -> str:
    return pod.partition("/")[2].rpartition("-")[0]


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
