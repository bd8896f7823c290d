"""A cluster as text and back: one cell is one GPU.

::

    queue a   deserved=2
    queue b   deserved=2
    node  n0  | b1 b1 b2>a1 .
    job   a1  tasks=2 gpu=1 min=2

Cells of a node: ``.`` idle, ``a1`` held by a running pod of job a1, ``+a1`` placed in this cycle,
``b2>`` leaving, ``b2>a1`` leaving and promised to a1, ``>a1`` idle and promised; ``a1/b1`` a GPU
that pods share. Pods that hold no GPU stand behind a second bar, one word each.
docs/reference/drawings.md is the long version.

This module only knows text and the plain structures below; kaisched.testing makes clusters of them.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    _Drawn = TypeVar("_Drawn", bound="DrawnQueue | DrawnNode | DrawnJob")


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


UNLIMITED_WORD: Final = "unlimited"


# -- reading -------------------------------------------------------------------------------------


def queue_of(job: str) -> str:
    """Return the default queue of a job: its name without the number at the end."""
    return job.rstrip("0123456789").rstrip("-_") or job


def parse(text: str) -> Drawing:
    """Read a drawing.

    Raises:
        DrawingError: with the line, what is wrong with it and what would be right.

    """
    queues: list[DrawnQueue] = []
    nodes: list[DrawnNode] = []
    lines: dict[str, tuple[int, dict[str, str]]] = {}
    for number, raw in enumerate(text.splitlines(), 1):
        kind, _, rest = raw.partition("#")[0].strip().partition(" ")
        if not kind:
            continue
        head, *parts = rest.split("|")
        words = head.split()
        if not words or not re.fullmatch(NAME, words[0]):
            raise DrawingError(f"line {number}: {kind!r} needs a name")
        values = _options(number, words[1:])
        if kind == "queue" and not parts:
            queues.append(_read(DrawnQueue, number, values, name=words[0]))
        elif kind == "node" and len(parts) <= _MOST_PARTS:
            cells = [tuple(_cell(number, word) for word in part.split()) for part in parts]
            given = dict(zip(("cells", "others"), cells, strict=False))
            nodes.append(_read(DrawnNode, number, values, name=words[0], **given))
        elif kind == "job" and not parts:
            if words[0] in lines:
                raise DrawingError(f"line {number}: job {words[0]} has a line already")
            lines[words[0]] = (number, values)
        else:
            raise DrawingError(f"line {number}: expected queue, node or job, found {raw.strip()!r}")
    jobs = tuple(_jobs(nodes, lines))
    drawing = Drawing(tuple(queues), tuple(nodes), jobs)
    shares = drawing.shares
    if shares:  # a GPU of which one pod has a part looks like a whole one
        read = (
            replace(it, cells=tuple(cell_of(cell.words, shares) for cell in it.cells))
            for it in nodes
        )
        drawing = replace(drawing, nodes=tuple(read))
    _check(drawing)
    return drawing


_MOST_PARTS: Final = 2
_CELL: Final = re.compile(rf"(?P<new>\+)?(?P<holder>{NAME})?(?P<leaving>>(?P<promised>{NAME})?)?")


def _options(number: int, words: Sequence[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not value:
            raise DrawingError(f"line {number}: expected key=value, found {word!r}")
        if key in values:
            raise DrawingError(f"line {number}: {key} is given twice")
        values[key] = value
    return values


def _cell(number: int, text: str) -> Cell:
    """Read a cell of a line.

    Raises:
        DrawingError: it is no cell.

    """
    if text == ".":
        return Cell()
    parts = tuple(_read_word(number, text, word) for word in text.split("/"))
    return Cell(parts=parts) if len(parts) > 1 else parts[0]


def _read_word(number: int, text: str, word: str) -> Cell:
    cell = Cell()
    if match := _CELL.fullmatch(word):
        holder, promised = match["holder"] or "", match["promised"] or ""
        cell = Cell(holder, bool(match["new"]), bool(match["leaving"] and holder), promised)
    if word == "." or str(cell) != word or (cell.is_new and cell.is_leaving):
        told = ". a1 +a1 b2> b2>a1 >a1, and a1/b1 for a GPU that pods share"
        raise DrawingError(f"line {number}: {text!r} is no cell; cells are {told}")
    return cell


_TEXTS: Final[dict[str, Callable[[str], object]]] = {
    **dict.fromkeys(("parent", "queue", "zone", "rack", "required", "preferred"), str),
    "on": lambda text: tuple(text.split(",")),
    "is_preemptible": lambda text: {"yes": True, "no": False}[text],
}
_MAY_BE_UNLIMITED: Final = ("deserved", "limit", "borrowing", "lending")
_NOT_KEYS: Final = {"name", "cells", "others"}


def _read(kind: type[_Drawn], number: int, values: Mapping[str, str], **given: Any) -> _Drawn:
    known = {_key(each.name): each.name for each in fields(kind) if each.name not in _NOT_KEYS}
    for key, text in values.items():
        if key not in known:
            keys = ", ".join(sorted(known))
            raise DrawingError(f"line {number}: unknown key {key!r}; known are {keys}")
        try:
            given[known[key]] = _value(known[key], text)
        except (KeyError, ValueError, ArithmeticError):
            raise DrawingError(f"line {number}: {key} cannot be {text!r}") from None
    return kind(**given)


def _value(name: str, text: str) -> object:
    if text == UNLIMITED_WORD and name.startswith(_MAY_BE_UNLIMITED):
        return None
    if name in _TEXTS:
        return _TEXTS[name](text)
    if name == "gpu" and "." in text:
        part = Decimal(text)
        if not 0 < part < 1 or part != round(part, 6):
            raise ValueError(text)
        return float(part)
    amount = int(text)
    if amount < (name == "cards") and name != "priority":
        raise ValueError(text)
    return amount


def _jobs(
    nodes: Iterable[DrawnNode], lines: Mapping[str, tuple[int, dict[str, str]]]
) -> Iterable[DrawnJob]:
    """Return jobs without a line first, in order of appearance, then those with a line."""
    found = _found(nodes)
    yield from (_implied(name, *found[name]) for name in found if name not in lines)
    for name, (number, values) in lines.items():
        held = sum(found.get(name, ()))
        job = _read(DrawnJob, number, values, name=name)
        unsaid: dict[str, Any] = {
            "queue": queue_of(name),
            "tasks": max(1, held // job.cells),
            "is_preemptible": job.priority < _NON_PREEMPTIBLE_FROM,
        }
        unsaid = {field: unsaid[field] for field in unsaid if _key(field) not in values}
        job = replace(job, **unsaid)
        yield job if "min" in values else replace(job, min=job.tasks)


_NON_PREEMPTIBLE_FROM: Final = 100


def _found(nodes: Iterable[DrawnNode]) -> dict[str, tuple[int, int]]:
    """Return each drawn job's (cells, pods without a GPU), in order of appearance."""
    found: dict[str, tuple[int, int]] = {}
    for node in nodes:
        for place, cells in enumerate((node.cells, node.others)):
            for cell in words_of(cells):
                for job in (cell.holder, cell.promised):
                    if job:
                        gpus, others = found.get(job, (0, 0))
                        found[job] = (gpus + (place == 0), others + (place == 1))
    return found


def _implied(name: str, gpus: int, others: int) -> DrawnJob:
    """Return a drawn job without a line: one GPU per pod, all pods one gang."""
    tasks = max(1, gpus or others)
    return DrawnJob(name, queue_of(name), tasks=tasks, gpu=1 if gpus else 0, min=tasks)


def _check(drawing: Drawing) -> None:
    for kind in (drawing.queues, drawing.nodes):
        twice = [name for name, times in Counter(each.name for each in kind).items() if times > 1]
        if twice:
            raise DrawingError(f"{twice[0]} is drawn twice")
    jobs = {job.name: job for job in drawing.jobs}
    total: Counter[str] = Counter()
    for node in drawing.nodes:
        for (name, role), cells in count_of(node.words).items():
            if cells % jobs[name].cells:
                raise DrawingError(
                    f"node {node.name}: {cells} cells of {name} ({role}) are no multiple of the "
                    f"{jobs[name].cells} GPUs that each of its pods holds"
                )
            total[name] += cells // jobs[name].cells
        _check_others(node, jobs)
        _check_shared(node, jobs)
    for name, drawn in total.items():
        if drawn > jobs[name].tasks:
            raise DrawingError(f"job {name} has {jobs[name].tasks} tasks, but {drawn} are drawn")


def _check_others(node: DrawnNode, jobs: Mapping[str, DrawnJob]) -> None:
    for cell in node.others:
        if bool(cell.holder) == bool(cell.promised) or cell.parts:
            raise DrawingError(f"node {node.name}: behind the second bar each word is one pod")
    for cells, is_held in ((node.cells, True), (node.others, False)):
        for cell in words_of(cells):
            for name in filter(None, (cell.holder, cell.promised)):
                if (jobs[name].gpu > 0) != is_held:
                    raise DrawingError(
                        f"node {node.name}: pods of {name} hold {jobs[name].gpu} GPUs; only pods "
                        "without GPUs are behind the second bar"
                    )


def _check_shared(node: DrawnNode, jobs: Mapping[str, DrawnJob]) -> None:
    """Check the GPUs that pods share: who may be on one, and how much."""
    drawn = count_of(node.words)
    for cell in node.cells:
        where, taken = f"node {node.name}: in {cell}", 0.0
        whole = [it for it in cell.parts if not jobs[it.holder or it.promised].is_share]
        for word in cell.parts:
            if word.holder and word.promised:
                raise DrawingError(f"{where} a promise is a part of its own: b1>/>a1")
            if word.holder:
                taken += min(jobs[word.holder].gpu, 1.0)  # of whole ones this is one
        others = [it for it in cell.parts if it not in whole]
        if len(whole) > 1 or any(it.holder and not it.is_leaving for it in whole):
            name = whole[0].holder or whole[0].promised
            raise DrawingError(f"{where} pods of {name} hold whole GPUs; write gpu=0.5 for a part")
        if whole and not all(it.promised if whole[0].holder else it.is_leaving for it in others):
            raise DrawingError(f"{where} a whole GPU and parts of it are held or promised at once")
        if taken > 1 + _ROUNDING:
            raise DrawingError(f"{where} more than one GPU is held")
        for (name, role), parts in count_of(cell.parts).items():
            if parts * jobs[name].cells > drawn[name, role]:
                raise DrawingError(f"{where} a pod of {name} has two parts of one GPU")


_ROUNDING: Final = 1e-9

# -- writing -------------------------------------------------------------------------------------


def render(drawing: Drawing) -> str:
    """Write a drawing, in columns; `parse` reads it back to the same."""
    jobs = _with_line(drawing)
    named: list[DrawnQueue | DrawnNode | DrawnJob] = [*drawing.queues, *drawing.nodes, *jobs]
    width = max((len(each.name) for each in named), default=0)
    said = [_said(node, DrawnNode(node.name)) for node in drawing.nodes]
    pad = max((len(text) + 2 for text in said if text), default=0)
    cell_pad = max((len(str(cell)) for node in drawing.nodes for cell in node.cells), default=1)
    lines = [
        f"queue {queue.name:<{width}}  {_said(queue, DrawnQueue(queue.name))}"
        for queue in drawing.queues
    ]
    for node, text in zip(drawing.nodes, said, strict=True):
        cells = " ".join(f"{cell!s:<{cell_pad}}" for cell in node.cells).rstrip()
        others = " ".join(str(cell) for cell in node.others)
        line = f"node  {node.name:<{width}}  {text:<{pad}}| {cells}"
        lines.append(f"{line} | {others}" if others else line)
    lines += [f"job   {job.name:<{width}}  {_said(job, _unsaid(job))}" for job in jobs]
    return "".join(line.rstrip() + "\n" for line in lines)


def _with_line(drawing: Drawing) -> Sequence[DrawnJob]:
    """Return the jobs that need a line: all but the oldest ones that the cells show fully."""
    found = _found(drawing.nodes)
    count = 0
    while count < len(drawing.jobs):
        older = {job.name for job in drawing.jobs[: count + 1]}
        if drawing.jobs[: count + 1] != tuple(
            _implied(name, *cells) for name, cells in found.items() if name in older
        ):
            break
        count += 1
    return drawing.jobs[count:]


def _unsaid(job: DrawnJob) -> DrawnJob:
    """Return the defaults that a job's line leaves out; number and size are always written."""
    return DrawnJob(
        job.name,
        queue_of(job.name),
        tasks=-1,
        gpu=-1,
        min=-1,
        is_preemptible=job.priority < _NON_PREEMPTIBLE_FROM,
    )


def _said(drawn: _Drawn, unsaid: _Drawn) -> str:
    words = []
    for each in fields(drawn):
        value = getattr(drawn, each.name)
        if each.name not in _NOT_KEYS and value != getattr(unsaid, each.name):
            words.append(f"{_key(each.name)}={_word(value)}")
    return " ".join(words)


def _key(name: str) -> str:
    """Return the key in the text of a field."""
    return "preemptible" if name == "is_preemptible" else re.sub(r"_(cpu|memory)$", r".\1", name)


def _word(value: object) -> str:
    if value is None:
        return UNLIMITED_WORD
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(value) if isinstance(value, tuple) else str(value)
