"""What a drawing shows: cells, queues, nodes and jobs.

A cell is a GPU, or a pod without GPUs. A GPU that pods share has its pods side by side: in
``a1/b1>/>c1`` one part is held by a1, one by b1, which is leaving, and one is promised to c1.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NAME: Final = r"[A-Za-z0-9][A-Za-z0-9_-]*"


class DrawingError(ValueError):
    """A drawing is invalid or ambiguous; the message names the line."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One GPU of a node, or one pod without GPUs."""

    holder: str = ""
    """The job whose pod is here; empty for idle."""
    is_new: bool = False
    is_leaving: bool = False
    promised: str = ""
    """The job whose pod gets it, once it is free."""
    parts: tuple[Cell, ...] = ()
    """The pods of a shared GPU, which has nothing else; empty for any other."""

    def __str__(self) -> str:
        """Write the cell."""
        if self.parts:
            return "/".join(map(str, self.parts))
        if not self.holder:
            return f">{self.promised}" if self.promised else "."
        sign = "+" if self.is_new else ""
        return f"{sign}{self.holder}" + (f">{self.promised}" if self.is_leaving else "")

    @property
    def words(self) -> tuple[Cell, ...]:
        """The cell, or the parts of a shared one."""
        return self.parts or (self,)

    @property
    def is_vacated(self) -> bool:
        """Tell whether all that holds it is leaving, and nobody is promised any of it."""
        return all(it.is_leaving and not it.promised for it in self.words)


def cell_of(words: Iterable[Cell], shares: frozenset[str]) -> Cell:
    """Return the GPU with these words, of which those of ``shares`` are parts; idle for none."""
    kept = tuple(it for it in words if it.holder or it.promised)
    is_shared = len(kept) > 1 or any({it.holder, it.promised} & shares for it in kept)
    return Cell(parts=kept) if is_shared else kept[0] if kept else Cell()


def words_of(cells: Iterable[Cell]) -> Iterator[Cell]:
    """Return cells, with the parts of shared ones in their place."""
    return (word for cell in cells for word in cell.words)


@dataclass(frozen=True, slots=True)
class DrawnQueue:
    """A queue line. GPUs unless the key names cpu (cores) or memory (GiB); None for unlimited."""

    name: str
    parent: str = ""
    deserved: int | None = 0
    limit: int | None = None
    weight: int = 1
    priority: int = 100
    borrowing: int | None = None
    lending: int | None = None
    deserved_cpu: int | None = None
    limit_cpu: int | None = None
    deserved_memory: int | None = None
    limit_memory: int | None = None


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A node line."""

    name: str
    cells: tuple[Cell, ...] = ()
    others: tuple[Cell, ...] = ()
    """Pods that hold no GPU."""
    cpu: int = 1000
    """Cores; so many that they only count if a drawing sets them."""
    memory: int = 4000
    """GiB."""
    pods: int = 110
    zone: str = ""
    rack: str = ""

    @property
    def words(self) -> Iterator[Cell]:
        """All cells, the parts of shared ones one by one."""
        return words_of((*self.cells, *self.others))


@dataclass(frozen=True, slots=True)
class DrawnJob:
    """A job line; amounts are those of each task."""

    name: str
    queue: str = ""
    tasks: int = 1
    """All of them: drawn on nodes or pending."""
    gpu: float = 1
    """A number below 1 is a part of a GPU that other pods may share."""
    cards: int = 1
    """Different GPUs of its node that each pod has such a part of."""
    cpu: int = 1
    memory: int = 1
    min: int = 1
    """Tasks that run together or not at all; the rest is elastic."""
    priority: int = 50
    is_preemptible: bool = True
    on: tuple[str, ...] = ()
    """The nodes it may use; empty for all."""
    required: str = ""
    """The level in one domain of which it is placed: zone, rack or host."""
    preferred: str = ""

    @property
    def is_share(self) -> bool:
        """Tell whether each pod has parts of GPUs."""
        return 0 < self.gpu < 1

    @property
    def cells(self) -> int:
        """Cells of its node in which a pod is drawn; 1 for a word behind the second bar."""
        return self.cards if self.is_share else int(self.gpu) or 1


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture of a cluster. Queues and jobs are sorted oldest first."""

    queues: tuple[DrawnQueue, ...] = ()
    nodes: tuple[DrawnNode, ...] = ()
    jobs: tuple[DrawnJob, ...] = ()

    @property
    def shares(self) -> frozenset[str]:
        """Return the jobs whose pods have parts of GPUs."""
        return frozenset(job.name for job in self.jobs if job.is_share)

    def drawn_tasks(self) -> dict[str, Counter[tuple[str, str]]]:
        """Count each node's pods by (job, role); roles are running, new, leaving, promised.

        No decision is about which GPU of a node a pod holds, so two pictures are compared by
        these counts.
        """
        each = {job.name: job.cells for job in self.jobs}
        return {
            node.name: Counter(
                {key: count // each[key[0]] for key, count in count_of(node.words).items()}
            )
            for node in self.nodes
        }


def count_of(words: Iterable[Cell]) -> Counter[tuple[str, str]]:
    """Count words by (job, role)."""
    found: Counter[tuple[str, str]] = Counter()
    for cell in words:
        if cell.holder:
            role = "leaving" if cell.is_leaving else "new" if cell.is_new else "running"
            found[cell.holder, role] += 1
        if cell.promised:
            found[cell.promised, "promised"] += 1
    return found
