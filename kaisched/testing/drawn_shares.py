"""Parts of GPUs in worlds: which drawn GPUs a pod has parts of, before and after a cycle."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kaisched.core.drawing import Cell, Drawing, DrawnJob, DrawnNode, cell_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaisched.testing.builder import Ran

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
